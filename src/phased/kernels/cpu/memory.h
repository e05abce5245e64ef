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

#include "engine.h"
#include "gate.h"
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
  Buffer(const T* from, int64_t count) : Buffer(count) { std::copy_n(from, count, data_); }
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

struct GateBounds {
  double shortest_period, longest_period, smallest_ratio;
};

// The gates of a layer: period, shift and ratio_on, moved into their bounds (NaN stays NaN), and what a schedule derives from
// them: see Layer.
class Gates {
 public:
  Gates(const double* period, const double* shift, const double* ratio_on, int64_t units, const GateBounds& bounds)
      : units_(units), given_(3 * units), offset_(units), rate_(whole_units(units)), lag_(rate_.size()), reach_(rate_.size()) {
    const auto within = [](double value, double low, double high) { return value < low ? low : value > high ? high : value; };
    for (int64_t n = 0; n < units; n++) {
      const double T = given_[n] = within(period[n], bounds.shortest_period, bounds.longest_period);
      given_[units + n] = shift[n];
      const double ratio = given_[2 * units + n] = within(ratio_on[n], bounds.smallest_ratio, 1.0);
      offset_[n] = rest_of(shift[n], T);
      rate_[n] = 1 / T;
      lag_[n] = offset_[n] / T - kBlur;
      reach_[n] = ratio + 2 * kBlur;
      if (!(rate_[n] * lag_[n] * reach_[n] * 0 == 0)) rate_[n] = lag_[n] = 0, reach_[n] = 1;  // NaN: never ruled out
      near_ = T * kNearPeriods < near_ ? T * kNearPeriods : near_;
    }
    // The last vector's other lanes keep a reach of zero, below which no phase is.
  }

  const double* period() const { return given_.get(); }
  const double* shift() const { return given_.get() + units_; }
  const double* ratio_on() const { return given_.get() + 2 * units_; }

  // The layer of these gates as the engines see it.
  template <class T>
  Layer<T> layer(int64_t features, const T* weights, const T* peephole, int shape) const {
    return {units_, features, padded<T>(units_ + features + 1), weights, peephole, period(), shift(), ratio_on(),
            offset_.get(), rate_.get(), lag_.get(), reach_.get(), near_, shape};
  }

 private:
  int64_t units_;
  Buffer<double> given_, offset_, rate_, lag_, reach_;  // given: (3, units)
  double near_ = __builtin_inf();
};

// The schedule of a sequence in small pieces, which stay in the cache.
template <class T>
struct PieceMemory {
  static constexpr int64_t kSteps = 256;
  const int64_t units, room;
  const LookedMemory looked;
  const Buffer<int64_t> start;
  const Buffer<int32_t> unit;
  const Buffer<T> k;
  const Buffer<uint8_t> side;

  // For layers of at most so many units.
  explicit PieceMemory(int64_t units)
      : units(units),
        room(16 * padded_units(units)),
        looked(units, kCandidates),
        start(kSteps + 1),
        unit(room),
        k(room),
        side(room) {}

  OpenEvents<T> events() const { return {start.get(), unit.get(), k.get(), side.get(), nullptr, 0}; }

  // Calls work(first step, number of steps) for the pieces of a sequence, whose events are then here.
  template <class Work>
  void each(const Engine<T>& engine, const Layer<T>& layer, const double* time, int64_t steps, const Work& work) const {
    for (int64_t step = 0; step < steps;) {
      const int64_t most = std::min(kSteps, steps - step);
      const int64_t done = engine.schedule(layer, looked.get(), time + step, 0, most, start.get(), unit.get(), k.get(),
                                           side.get(), room);
      work(step, done);
      step += done;
    }
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
