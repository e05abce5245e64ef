// The loops of a readout. No functions of the standard library here: each instruction set compiles its own copy of this file, and
// the linker would keep one of theirs for all.
#pragma once

#include "readout.h"
#include "simd.h"

namespace phased {
namespace {

// Calls work(first unit, lanes) for a sequence's units, a vector of them at a time.
template <class T, class Work>
PHASED_INLINE void in_vectors(int64_t units, const Work& work) {
  for (int64_t n = 0; n < units; n += kWide<T>) work(n, units - n < kWide<T> ? units - n : kWide<T>);
}

template <class T>
PHASED_INLINE T share_of_step(const Readout<T>& r, int64_t b) {
  return T(1) / static_cast<T>(r.lengths[b] > 1 ? r.lengths[b] : 1);
}

// Last, mean and highest states, and how many steps have the highest.
template <class T>
PHASED_INLINE void pool(const Readout<T>& r, const Pooled<T>& to) {
  using V = Row<T>;
  for (int64_t b = 0; b < r.batch; b++)
    in_vectors<T>(r.units, [&](int64_t n, int64_t lanes) PHASED_LAMBDA {
      const V zero = {}, one = zero + 1;
      V h = zero, sum = zero, same = zero, highest = zero - static_cast<T>(__builtin_inf());
      for (int64_t step = 0; step < r.lengths[b]; step++) {
        h = load_some<V>(r.h + (step * r.batch + b) * r.units + n, lanes);
        sum += h;
        same = (highest < h ? zero : same) + (highest <= h ? one : zero);
        highest = highest < h ? h : highest;
      }
      T* own = to.states + b * r.states() + n;
      store_some(own, h, lanes);
      store_some(own + r.units, sum * share_of_step(r, b), lanes);
      store_some(own + 2 * r.units, r.lengths[b] ? highest : zero, lanes);
      store_some(to.count + b * r.units + n, same, lanes);
    });
}

// What the linear layer reads of sequence b.
template <class T>
PHASED_INLINE void make_row(const Readout<T>& r, const T* states, int64_t b, T* row) {
  states += b * r.states();
  std::memcpy(row, states, r.states() * sizeof(T));
  if (r.keep) {
    const T* keep = r.keep + b * r.states();
#pragma omp simd
    for (int64_t i = 0; i < r.states(); i++) row[i] *= keep[i];
  }
  const T* summary = r.summary + b * r.columns;
  for (int64_t p = 0; p < r.pieces; p++) {
    const T *start = r.start + p * r.columns, *slope = r.slope + p * r.columns;
    const T *center = r.center + p * r.columns, *scale = r.scale + p * r.columns;
    T* to = row + r.states() + p * r.columns;
#pragma omp simd
    for (int64_t i = 0; i < r.columns; i++) to[i] = (piece_of(summary[i], start[i], slope[i]) - center[i]) * scale[i];
  }
}

// y (batch, outputs). A state that is NaN stays so: then last and mean are NaN, and the highest is that of the other steps.
// `row` has room for a row of the linear layer.
template <class T>
void read_out(const Readout<T>& r, const Pooled<T>& pooled, T* row, T* y) {
  pool(r, pooled);
  for (int64_t b = 0; b < r.batch; b++) {
    make_row(r, pooled.states, b, row);
    for (int64_t o = 0; o < r.outputs; o++) {
      const T* weight = r.weight + o * r.row();
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < r.row(); i++) sum += weight[i] * row[i];
      y[b * r.outputs + o] = sum + r.bias[o];
    }
  }
}

// From the gradient to pooled states to that of every state.
template <class T>
PHASED_INLINE void pool_backward(const Readout<T>& r, const Pooled<T>& pooled, const T* to_pooled, T* to_h) {
  using V = Row<T>;
  for (int64_t b = 0; b < r.batch; b++)
    in_vectors<T>(r.units, [&](int64_t n, int64_t lanes) PHASED_LAMBDA {
      const T *own = pooled.states + b * r.states() + n, *given = to_pooled + b * r.states() + n;
      const V zero = {}, count = load_some<V>(pooled.count + b * r.units + n, lanes), highest = load_some<V>(own + 2 * r.units, lanes);
      const V last = load_some<V>(given, lanes), every = load_some<V>(given + r.units, lanes) * share_of_step(r, b);
      const V top = load_some<V>(given + 2 * r.units, lanes) / (count > 1 ? count : zero + 1);
      for (int64_t step = 0; step < r.steps; step++) {
        const int64_t at = (step * r.batch + b) * r.units + n;
        V to = zero;
        if (step < r.lengths[b]) {
          to = every + (load_some<V>(r.h + at, lanes) == highest ? top : zero);
          if (step + 1 == r.lengths[b]) to += last;
        }
        store_some(to_h + at, to, lanes);
      }
    });
}

// Gradients from that to y. The one to h is zero after the end of a sequence; steps that share the highest state share its
// gradient equally. `to_pooled` has room for (batch, kPooled, units).
template <class T>
void read_out_backward(const Readout<T>& r, const Pooled<T>& pooled, const T* to_y, T* row, T* to_pooled,
                       const ReadoutGradients<T>& to) {
  std::memset(to.weight, 0, r.outputs * r.row() * sizeof(T));
  std::memset(to.bias, 0, r.outputs * sizeof(T));
  std::memset(to_pooled, 0, r.batch * r.states() * sizeof(T));
  for (int64_t b = 0; b < r.batch; b++) {
    make_row(r, pooled.states, b, row);
    T* to_own = to_pooled + b * r.states();
    for (int64_t o = 0; o < r.outputs; o++) {
      const T given = to_y[b * r.outputs + o];
      const T* weight = r.weight + o * r.row();
      T* to_weight = to.weight + o * r.row();
      to.bias[o] += given;
#pragma omp simd
      for (int64_t i = 0; i < r.row(); i++) to_weight[i] += given * row[i];
#pragma omp simd
      for (int64_t i = 0; i < r.states(); i++) to_own[i] += given * weight[i];
    }
    if (r.keep) {
      const T* keep = r.keep + b * r.states();
#pragma omp simd
      for (int64_t i = 0; i < r.states(); i++) to_own[i] *= keep[i];
    }
  }
  pool_backward(r, pooled, to_pooled, to.h);
}

}  // namespace
}  // namespace phased
