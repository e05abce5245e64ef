#include "pool.h"

#include <algorithm>
#include <limits>

#include "memory.h"

namespace phased {
namespace {

// Calls work(step, sequence, first element of h, first element of the sequence's row) in the order of memory.
template <class T, class Work>
void for_each_step(const States<T>& s, const Work& work) {
  for (int64_t step = 0; step < s.steps; step++)
    for (int64_t b = 0; b < s.batch; b++) work(step, b, (step * s.batch + b) * s.units, b * s.units);
}

}  // namespace

template <class T>
void pool(const States<T>& s, const PooledStates<T>& to, T* count) {
  const int64_t rows = s.batch * s.units;
  std::fill_n(to.last, rows, T(0));
  std::fill_n(to.mean, rows, T(0));
  std::fill_n(to.highest, rows, -std::numeric_limits<T>::infinity());
  std::fill_n(count, rows, T(0));
  for_each_step(s, [&](int64_t step, int64_t b, int64_t at, int64_t row) {
    if (step >= s.lengths[b]) return;
    const T* h = s.h + at;
    T *mean = to.mean + row, *highest = to.highest + row, *same = count + row;
#pragma omp simd
    for (int64_t n = 0; n < s.units; n++) {
      mean[n] += h[n];
      same[n] = (highest[n] < h[n] ? T(0) : same[n]) + (highest[n] <= h[n] ? T(1) : T(0));
      highest[n] = highest[n] < h[n] ? h[n] : highest[n];
    }
    if (step + 1 == s.lengths[b]) std::copy_n(h, s.units, to.last + row);
  });
  for (int64_t b = 0; b < s.batch; b++) {
    T *mean = to.mean + b * s.units, *highest = to.highest + b * s.units;
    const T share = T(1) / static_cast<T>(std::max<int64_t>(1, s.lengths[b]));
    for (int64_t n = 0; n < s.units; n++) mean[n] *= share;
    if (s.lengths[b] == 0) std::fill_n(highest, s.units, T(0));
  }
}

template <class T>
void pool_backward(const States<T>& s, const T* highest, const T* count, const PooledStates<const T>& given, T* to_h) {
  const Buffer<T> to_every(s.batch * s.units), to_top(s.batch * s.units);  // to each step, and to those that have the highest
  for (int64_t b = 0; b < s.batch; b++) {
    const T share = T(1) / static_cast<T>(std::max<int64_t>(1, s.lengths[b]));
    for (int64_t i = b * s.units; i < (b + 1) * s.units; i++) {
      to_every[i] = given.mean[i] * share;
      to_top[i] = given.highest[i] / std::max(count[i], T(1));
    }
  }
  for_each_step(s, [&](int64_t step, int64_t b, int64_t at, int64_t row) {
    T* to = to_h + at;
    if (step >= s.lengths[b]) {
      std::fill_n(to, s.units, T(0));
      return;
    }
    const T *h = s.h + at, *top = highest + row, *every = to_every.get() + row, *most = to_top.get() + row;
#pragma omp simd
    for (int64_t n = 0; n < s.units; n++) {
      const T share = most[n];  // read for every unit, or the loop has branches and is not vectorised
      to[n] = every[n] + (h[n] == top[n] ? share : T(0));
    }
    if (step + 1 == s.lengths[b])
      for (int64_t n = 0; n < s.units; n++) to[n] += given.last[row + n];
  });
}

#define PHASED_INSTANCES(T)                                                                  \
  template void pool(const States<T>&, const PooledStates<T>&, T*);                          \
  template void pool_backward(const States<T>&, const T*, const T*, const PooledStates<const T>&, T*);
PHASED_INSTANCES(float)
PHASED_INSTANCES(double)

}  // namespace phased
