// Working memory: zeroed, aligned to a cache line, freed with its owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "gate.h"
#include "layout.h"
#include "rough.h"

namespace phased {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t count) : count_(count) {
    if (!count) return;
    data_ = static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t(64)));
    std::memset(static_cast<void*>(data_), 0, count * sizeof(T));
  }
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~Buffer() { ::operator delete(data_, std::align_val_t(64)); }

  T* get() const { return data_; }
  T& operator[](int64_t i) const { return data_[i]; }
  int64_t size() const { return count_; }

  // At least `count` elements, the old ones kept.
  void grow(int64_t count) {
    if (count <= count_) return;
    Buffer larger(count);
    if (count_) std::memcpy(static_cast<void*>(larger.data_), data_, count_ * sizeof(T));
    *this = std::move(larger);
  }

 private:
  T* data_ = nullptr;
  int64_t count_ = 0;
};

struct LookedMemory {
  Buffer<double> doubles;
  int64_t capacity;

  // For the candidates of at least one step.
  explicit LookedMemory(int64_t units, int64_t candidates = 0)
      : doubles(5 * (std::max(units, candidates) + kLanes)), capacity(std::max(units, candidates)) {}
  Looked get() const {
    const auto at = [&](int64_t i) { return doubles.get() + i * (capacity + kLanes); };
    return {at(0), at(1), at(2), at(3), at(4), capacity};
  }
};

// What a schedule derives from the gates' parameters: see Layer.
struct GateMemory {
  Buffer<double> offset, rate, lag, reach;
  double near = __builtin_inf();

  GateMemory() = default;
  GateMemory(const double* period, const double* shift, const double* ratio_on, int64_t units)
      : offset(units), rate(whole_units(units)), lag(whole_units(units)), reach(whole_units(units)) {
    for (int64_t n = 0; n < units; n++) {
      offset[n] = rest_of(shift[n], period[n]);
      rate[n] = 1 / period[n];
      lag[n] = offset[n] / period[n] - kBlur;
      reach[n] = ratio_on[n] + 2 * kBlur;
      if (!(rate[n] * lag[n] * reach[n] * 0 == 0)) rate[n] = lag[n] = 0, reach[n] = 1;  // NaN: never ruled out
      near = period[n] * kNearPeriods < near ? period[n] * kNearPeriods : near;
    }
    // The last vector's other lanes keep a reach of zero, below which no phase is.
  }
};

// For large memory before its first write: hint at large pages, so that 500 times fewer must be mapped.
template <class T>
void large_pages(T* data, int64_t count) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t page = uintptr_t(1) << 21;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + page - 1) & ~(page - 1);
  const uintptr_t end = reinterpret_cast<uintptr_t>(data + count) & ~(page - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // a hint: failing costs nothing
#else
  (void)data, (void)count;
#endif
}

}  // namespace phased
