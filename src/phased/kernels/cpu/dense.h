// The recurrence over every unit at every step: several sequences side by side, so that a step is a matrix product. Any leak.
#pragma once

#include "simd.h"  // first: the cells use its functions
#include "layout.h"
#include "tables.h"

namespace phased {
namespace {

// out[r][0..kPanel) = sum over k of rows[r][k] * panel[k][0..kPanel), for N rows, two vectors of columns at a time.
template <class T, int N>
PHASED_INLINE void multiply_rows(const T* rows, int64_t row_stride, int64_t K, const T* panel, T* out, int64_t out_stride) {
  for (int64_t q = 0; q < kPanel<T>; q += 2 * kWide<T>) {
    Row<T> sums[N][2] = {};
    for (int64_t k = 0; k < K; k++) {
      const Row<T> left = load<Row<T>>(panel + k * kPanel<T> + q), right = load<Row<T>>(panel + k * kPanel<T> + q + kWide<T>);
      for (int r = 0; r < N; r++) {
        const T factor = rows[r * row_stride + k];
        sums[r][0] += factor * left;
        sums[r][1] += factor * right;
      }
    }
    for (int r = 0; r < N; r++)
      store(out + r * out_stride + q, sums[r][0]), store(out + r * out_stride + q + kWide<T>, sums[r][1]);
  }
}

// out (count, panels * kPanel) = rows (count, K) x matrix, given as panels of kPanel columns, each K * kPanel.
template <class T>
PHASED_INLINE void multiply(const T* rows, int64_t row_stride, int64_t count, int64_t K, const T* matrix, int64_t panels, T* out,
                            int64_t out_stride) {
  for (int64_t p = 0; p < panels; p++) {
    const T* panel = matrix + p * K * kPanel<T>;
    const auto some = [&](auto n, int64_t r) PHASED_LAMBDA {
      multiply_rows<T, n.value>(rows + r * row_stride, row_stride, K, panel, out + r * out_stride + p * kPanel<T>, out_stride);
    };
    int64_t r = 0;
    for (; r + kTall <= count; r += kTall) some(Count<kTall>(), r);
    with_count<kTall - 1>(count - r, [&](auto n) PHASED_LAMBDA { some(n, r); });
  }
}

// The openness of every unit at one time and, with_slopes, its slopes.
template <class T>
PHASED_INLINE void all_openness(const Layer<T>& layer, const DenseScratch<T>& at, double alpha, double t, bool with_slopes) {
  const bool near = fabs(t) <= layer.near;
  with_shape(layer.shape, [&](auto shape) PHASED_LAMBDA {
    using Shape = decltype(shape);
    for (int64_t n = 0; n < layer.units; n += kDoubles) {
      const Doubles tau = load<Doubles>(at.period + n), s = load<Doubles>(at.shift + n), r_on = load<Doubles>(at.ratio_on + n);
      Doubles phi;
      if (near) {
        phi = phase_of(Doubles{} + t, tau, s);
      } else {
        for (int l = 0; l < kDoubles; l++) phi[l] = phase(t, tau[l], s[l]);
      }
      const Doubles k = openness<Shape>(phi, r_on, alpha);
      store(at.k + n, __builtin_convertvector(k, Vector<T, kDoubles>));
      if (with_slopes) {
        store(at.to_phase + n, slope_to_phase<Shape>(phi, k, r_on, alpha));
        store(at.to_ratio + n, slope_to_ratio<Shape>(phi, k, r_on));
      }
    }
  });
}

// Forwards. Sequences are ordered from the longest to the shortest; z and c hold the initial states, and the final ones
// afterwards.
template <class Cell, class T>
void forward_dense(const Layer<T>& layer, double alpha, const T* matrix, int64_t tall, const DenseSequence<T>* sequences,
                   int64_t count, const DenseScratch<T>& at) {
  using V = Events<T>;
  const int64_t K = layer.units + layer.features + 1, whole = whole_units(layer.units), columns = dense_columns<T>(layer.units);
  for (int64_t j = 0; count && j < sequences[0].steps; j++) {
    while (sequences[count - 1].steps <= j) count--;
    for (int64_t s = 0; s < count; s++)
      for (int64_t d = 0; d < layer.features; d++) at.z[s * layer.width + layer.units + d] = sequences[s].x[j][d];
    multiply(at.z, layer.width, count, K, matrix, columns / kPanel<T>, at.products, columns);
    for (int64_t s = 0; s < count; s++) {
      T *h = at.z + s * layer.width, *c = at.c + s * tall, *a_of = at.products + s * columns;
      T* tape = sequences[s].tape ? sequences[s].tape + j * Cell::kept * whole : nullptr;
      all_openness(layer, at, alpha, sequences[s].time[j], false);
      for (int64_t n = 0; n < whole; n += kEvents<T>) {  // to the tape's last lane, so that all of it is written
        const int64_t left = layer.units - n, lanes = left < 0 ? 0 : left < kEvents<T> ? left : kEvents<T>;
        V a[4], w[3] = {}, keep[Cell::kept], new_h, new_c;
        for (int g = 0; g < 4; g++) a[g] = load<V>(a_of + g * whole + n);
        const V before = load_some<V>(h + n, lanes);
        for (int p = 0; layer.peephole && p < 3; p++) w[p] = load_some<V>(layer.peephole + p * layer.units + n, lanes);
        const V c_before = load<V>(c + n), k = load<V>(at.k + n);
        Cell::template propose<true, V>(a, before, c_before, w, new_h, new_c, keep);
        new_h = k * new_h + (1 - k) * before;
        store(c + n, k * new_c + (1 - k) * c_before);
        store_some(h + n, new_h, lanes);
        if (tape)
          for (int f = 0; f < Cell::kept; f++) store(tape + f * whole + n, keep[f]);
      }
      std::memcpy(sequences[s].out[j], h, layer.units * sizeof(T));
    }
  }
}

template <class T>
PHASED_INLINE Doubles widened(const T* from) {
  return __builtin_convertvector(load<Vector<T, kDoubles>>(from), Doubles);
}

PHASED_INLINE void add(double* to, Doubles more) { store(to, load<Doubles>(to) + more); }

// Backwards: gradients to the products of every step, to the initial states, to the gate and the peepholes. The gradients to the
// weights and the input are large matrix products of those to the products, computed by the caller.
template <class Cell, class T>
void backward_dense(const Layer<T>& layer, double alpha, const T* matrix, int64_t tall, const DenseSequence<T>* sequences,
                    int64_t count, const DenseScratch<T>& at) {
  using V = Events<T>;
  const int64_t whole = whole_units(layer.units);
  int64_t active = 0;
  for (int64_t j = count ? sequences[0].steps - 1 : -1; j >= 0; j--) {
    while (active < count && sequences[active].steps > j) active++;
    for (int64_t s = 0; s < active; s++) {
      const DenseSequence<T>& sequence = sequences[s];
      T *to_h_of = at.to_z + s * tall, *to_c_of = at.to_c + s * tall, *a_of = at.products + s * 4 * layer.units;
      const T* before = j ? sequence.out[j - 1] : sequence.initial_h;
      const T* tape = sequence.tape + j * Cell::kept * whole;
      const double t = sequence.time[j];
      if (sequence.to_out.first)
        for (int64_t n = 0; n < layer.units; n++) to_h_of[n] += sequence.to_out[j][n];
      all_openness(layer, at, alpha, t, true);
      for (int64_t n = 0; n < layer.units; n += kEvents<T>) {
        const int64_t lanes = layer.units - n < kEvents<T> ? layer.units - n : kEvents<T>;
        V keep[Cell::kept], a[4], w[3] = {}, to_w[3], to_h_before, to_c_before, to_k;
        for (int f = 0; f < Cell::kept; f++) keep[f] = load<V>(tape + f * whole + n);
        for (int p = 0; layer.peephole && p < 3; p++) w[p] = load_some<V>(layer.peephole + p * layer.units + n, lanes);
        Cell::template adjoint<V>(keep, load_some<V>(before + n, lanes), load<V>(at.k + n), load<V>(to_h_of + n),
                                  load<V>(to_c_of + n), w, a, to_h_before, to_c_before, to_k, to_w);
        store(to_h_of + n, to_h_before);
        store(to_c_of + n, to_c_before);
        for (int g = 0; g < 4; g++) store_some(a_of + g * layer.units + n, a[g], lanes);
        T ks[kEvents<T>], ws[3][kEvents<T>];
        store(ks, to_k);
        for (int p = 0; p < 3; p++) store(ws[p], to_w[p]);
        for (int l = 0; l < kEvents<T>; l += kDoubles) {
          double* to_gate = at.to_gate + n + l;
          const Doubles to_open = widened(ks + l), to_phase = to_open * load<Doubles>(at.to_phase + n + l);
          add(to_gate, to_phase * (t - load<Doubles>(at.origin + n + l)));
          add(to_gate + tall, to_phase);
          add(to_gate + 2 * tall, to_open * load<Doubles>(at.to_ratio + n + l));
          for (int p = 0; layer.peephole && p < 3; p++) add(to_gate + (3 + p) * tall, widened(ws[p] + l));
        }
      }
      std::memcpy(sequence.to_products[j], a_of, 4 * layer.units * sizeof(T));
    }
    // Adds the gradient to h through the products to the one around them.
    for (int64_t p = 0; p < tall / kPanel<T>; p++) {
      const T* panel = matrix + p * 4 * layer.units * kPanel<T>;
      T through[kTall * kPanel<T>];
      for (int64_t r = 0; r < active; r += kTall) {
        const int64_t rows = active - r < kTall ? active - r : kTall;
        with_count<kTall>(rows, [&](auto n) PHASED_LAMBDA {
          multiply_rows<T, n.value>(at.products + r * 4 * layer.units, 4 * layer.units, 4 * layer.units, panel, through,
                                    kPanel<T>);
        });
        for (int64_t i = 0; i < rows; i++)
          for (int64_t q = 0; q < kPanel<T>; q++) at.to_z[(r + i) * tall + p * kPanel<T> + q] += through[i * kPanel<T> + q];
      }
    }
  }
}

}  // namespace
}  // namespace phased
