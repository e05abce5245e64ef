// The recurrence over open events only, forwards and backwards, one sequence at a time. It knows a cell by its four products
// alone.
#pragma once

#include "simd.h"  // first: the cells use its functions
#include "layout.h"
#include "tables.h"

namespace phased {
namespace {

template <class T>
PHASED_INLINE void set_input(const Layer<T>& layer, T* z, const T* x) {
  for (int64_t d = 0; d < layer.features; d++) z[layer.units + d] = x[d];
}

template <class T>
PHASED_INLINE void start_row(const Layer<T>& layer, T* z, const T* h) {
  std::memcpy(z, h, layer.units * sizeof(T));
  for (int64_t n = layer.units; n < layer.width; n++) z[n] = 0;
  z[layer.units + layer.features] = 1;
}

// W[unit][g] . z for the four products g of N units, which read z together. With `Ahead`, the rows of the next N are fetched on
// the way.
template <int N, bool Ahead, class T>
PHASED_INLINE void four_products(const Layer<T>& layer, const int32_t* unit, const T* z, Vector<T, 4>* products) {
  constexpr int64_t columns = 64 / sizeof(T);  // rows are whole times 64 bytes
  const T* w[N];
  for (int i = 0; i < N; i++) w[i] = layer.weights + unit[i] * 4 * layer.width;
  Row<T> sums[N][4] = {};
  for (int64_t q = 0; q < layer.width; q += columns) {
    if constexpr (Ahead)
      for (int i = 0; i < N; i++)
        for (int g = 0; g < 4; g++) __builtin_prefetch(layer.weights + (unit[N + i] * 4 + g) * layer.width + q);
    for (int64_t v = q; v < q + columns; v += kWide<T>) {
      const Row<T> row = load<Row<T>>(z + v);
      for (int i = 0; i < N; i++)
        for (int g = 0; g < 4; g++) sums[i][g] += row * load<Row<T>>(w[i] + g * layer.width + v);
    }
  }
  for (int i = 0; i < N; i++) products[i] = four_sums<T>(sums[i]);
}

PHASED_INLINE void prefetch(const void* from, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(static_cast<const char*>(from) + at);
}

// Whether the weights are beyond the nearest caches, so that it is faster to prefetch them a step ahead, as the schedule says.
template <class T>
PHASED_INLINE bool is_distant(const Layer<T>& layer) {
  return layer.units * 4 * layer.width * static_cast<int64_t>(sizeof(T)) > (1 << 19);
}

template <class T>
PHASED_INLINE Events<T> gather(const T* from, const int32_t* unit) {
  Events<T> values;
  for (int l = 0; l < kEvents<T>; l++) values[l] = from[unit[l]];
  return values;
}

// The products of a step's events, one of the four after another, with `terms` added, if any.
template <bool Ahead, class T>
PHASED_INLINE void multiply_units(const Layer<T>& layer, const Scratch<T>& at, const int32_t* unit, int64_t count, const T* terms) {
  const int64_t stride = layer.units + kLanes;
  const auto some = [&](auto n, int64_t e) PHASED_LAMBDA {
    Vector<T, 4> products[n.value];
    four_products<n.value, Ahead>(layer, unit + e, at.z, products);
    for (int i = 0; i < n.value; i++) {
      if (terms) products[i] += load<Vector<T, 4>>(terms + 4 * unit[e + i]);
      for (int g = 0; g < 4; g++) at.products[g * stride + e + i] = products[i][g];
    }
  };
  int64_t e = 0;
  for (; e + kUnits <= count; e += kUnits) some(Count<kUnits>(), e);
  with_count<kUnits - 1>(count - e, [&](auto n) PHASED_LAMBDA { some(n, e); });
}

// One step: the open units' proposals from the same z, then all of them accepted. `terms`, if any, are added to the products.
// Leaves `Cell::kept` fields on the tape, if there is one.
template <class Cell, class T>
PHASED_INLINE void step_forward(const Layer<T>& layer, const Scratch<T>& at, const int32_t* unit, const T* k, int64_t count,
                                const T* terms, T* tape, int64_t field) {
  using V = Events<T>;
  const int64_t stride = layer.units + kLanes;
  if (is_distant(layer))
    multiply_units<true>(layer, at, unit, count, terms);
  else
    multiply_units<false>(layer, at, unit, count, terms);
  for (int64_t e = 0; e < count; e += kEvents<T>) {
    const int64_t lanes = count - e < kEvents<T> ? count - e : kEvents<T>;
    V a[4], w[3] = {}, keep[Cell::kept], new_h, new_c, c = {};
    for (int g = 0; g < 4; g++) a[g] = load<V>(at.products + g * stride + e);
    if (layer.peephole)
      for (int p = 0; p < 3; p++) w[p] = gather(layer.peephole + p * layer.units, unit + e);
    const V h = gather(at.z, unit + e);
    if (Cell::has_c) c = gather(at.c, unit + e);
    Cell::template propose<true, V>(a, h, c, w, new_h, new_c, keep);
    const V open = load<V>(k + e);
    new_h = open * new_h + (1 - open) * h;
    new_c = open * new_c + (1 - open) * c;
    T hs[kEvents<T>], cs[kEvents<T>];
    store(hs, new_h), store(cs, new_c);
    for (int64_t l = 0; l < lanes; l++) {
      at.z[unit[e + l]] = hs[l];
      if (Cell::has_c) at.c[unit[e + l]] = cs[l];
    }
    // Whole vectors: the lanes past this step's events are overwritten by the next step's, and a sequence's slots end in spare
    // ones.
    if (tape)
      for (int f = 0; f < Cell::kept; f++) store(tape + f * field + e, keep[f]);
  }
}

// Calls work(Count<N>, first column) for a row's vectors, `Most` at a time and then those left together.
template <int Most, class T, class Work>
PHASED_INLINE void in_columns(int64_t width, const Work& work) {
  int64_t q = 0;
  for (; q + Most * kWide<T> <= width; q += Most * kWide<T>) work(Count<Most>(), q);
  with_count<Most - 1>((width - q) / kWide<T>, [&](auto n) PHASED_LAMBDA { work(n, q); });
}

// to_z += sum over the step's events of the four products' gradients times their rows of weights.
template <class T, int N>
PHASED_INLINE void spread_columns(const Layer<T>& layer, const int32_t* unit, const T* products, int64_t count, T* to_z,
                                  int64_t q) {
  Row<T> sums[N];
  for (int v = 0; v < N; v++) sums[v] = load<Row<T>>(to_z + q + v * kWide<T>);
  for (int64_t e = 0; e < count; e++) {
    const T* w = layer.weights + unit[e] * 4 * layer.width + q;
#pragma GCC unroll 4
    for (int g = 0; g < 4; g++, w += layer.width)
      for (int v = 0; v < N; v++) sums[v] += products[4 * e + g] * load<Row<T>>(w + v * kWide<T>);
  }
  for (int v = 0; v < N; v++) store(to_z + q + v * kWide<T>, sums[v]);
}

// Only to the first `columns` of z, whole vectors of them.
template <class T>
PHASED_INLINE void spread(const Layer<T>& layer, const int32_t* unit, const T* products, int64_t count, int64_t columns,
                          T* to_z) {
  in_columns<kSpread, T>(
      columns, [&](auto n, int64_t q) PHASED_LAMBDA { spread_columns<T, n.value>(layer, unit, products, count, to_z, q); });
}

// weights[unit] += sum over the unit's events of products (4) x row (width): a matrix product per unit, its sums held in
// registers.
template <class T, int N>
PHASED_INLINE void collect_columns(const BackScratch<T>& at, const int32_t* order, int64_t count, int64_t width, T* into,
                                   int64_t q) {
  Row<T> sums[4][N];
  for (int g = 0; g < 4; g++)
    for (int v = 0; v < N; v++) sums[g][v] = load<Row<T>>(into + g * width + q + v * kWide<T>);
  for (int64_t e = 0; e < count; e++) {
    const T* row = at.z + at.step[order[e]] * width + q;
    const T* products = at.products + 4 * static_cast<int64_t>(order[e]);
    for (int v = 0; v < N; v++) {
      const Row<T> z = load<Row<T>>(row + v * kWide<T>);
      for (int g = 0; g < 4; g++) sums[g][v] += products[g] * z;
    }
  }
  for (int g = 0; g < 4; g++)
    for (int v = 0; v < N; v++) store(into + g * width + q + v * kWide<T>, sums[g][v]);
}

template <class T>
PHASED_INLINE void collect(const Layer<T>& layer, const BackScratch<T>& at, const int32_t* unit, int64_t count, T* weights) {
  for (int64_t n = 0; n <= layer.units; n++) at.first[n] = 0;
  for (int64_t e = 0; e < count; e++) at.first[unit[e] + 1]++;
  for (int64_t n = 0; n < layer.units; n++) at.first[n + 1] += at.first[n];
  for (int64_t e = 0; e < count; e++) at.order[at.first[unit[e]]++] = static_cast<int32_t>(e);
  int64_t begin = 0;
  for (int64_t n = 0; n < layer.units; n++) {
    const int64_t end = at.first[n];  // filling has moved each start to the next
    if (begin == end) continue;
    T* into = weights + n * 4 * layer.width;
    in_columns<kCollect, T>(layer.width, [&](auto n, int64_t q) PHASED_LAMBDA {
      collect_columns<T, n.value>(at, at.order + begin, end - begin, layer.width, into, q);
    });
    begin = end;
  }
}

// One step backwards, z being the row before it: gradients to its events' products, to the first columns of z, to c and to the
// gate.
template <class Cell, class Shape, class T>
PHASED_INLINE void step_backward(const Layer<T>& layer, const BackScratch<T>& at, const T* z, const int32_t* unit, const T* k,
                                 const uint8_t* side, const T* tape, int64_t field, int64_t count, int64_t columns, double time,
                                 T* products, const Sums<T>& sums) {
  using V = Events<T>;
  for (int64_t e = 0; e < count; e += kEvents<T>) {
    const int64_t lanes = count - e < kEvents<T> ? count - e : kEvents<T>;
    V keep[Cell::kept], a[4], w[3] = {}, to_w[3], to_h_before, to_c_before, to_k, to_c = {};
    for (int f = 0; f < Cell::kept; f++) keep[f] = load<V>(tape + f * field + e);
    if (layer.peephole)
      for (int p = 0; p < 3; p++) w[p] = gather(layer.peephole + p * layer.units, unit + e);
    const V open = load<V>(k + e);
    const V h = gather(z, unit + e), to_h = gather(at.to_z, unit + e);
    if (Cell::has_c) to_c = gather(at.to_c, unit + e);
    Cell::template adjoint<V>(keep, h, open, to_h, to_c, w, a, to_h_before, to_c_before, to_k, to_w);
    T hs[kEvents<T>], cs[kEvents<T>], ks[kEvents<T>], as[4][kEvents<T>], ws[3][kEvents<T>];
    store(hs, to_h_before), store(cs, to_c_before), store(ks, to_k);
    for (int g = 0; g < 4; g++) store(as[g], a[g]);
    for (int p = 0; p < 3; p++) store(ws[p], to_w[p]);
    for (int64_t l = 0; l < lanes; l++) {
      const int64_t n = unit[e + l];
      at.to_z[n] = hs[l];
      if (Cell::has_c) at.to_c[n] = cs[l];
      for (int g = 0; g < 4; g++) products[4 * (e + l) + g] = as[g][l];
      if (layer.peephole)
        for (int p = 0; p < 3; p++) sums.peephole[p * layer.units + n] += ws[p][l];
      const bool rises = side[e + l] == 0;
      const double open_by = k[e + l], to_phase = ks[l] * Shape::to_phase(rises, open_by);
      sums.gate[n] += to_phase * (time - layer.shift[n]);
      sums.gate[layer.units + n] += to_phase;
      sums.gate[2 * layer.units + n] += ks[l] * Shape::to_ratio(rises, open_by);
    }
  }
  spread(layer, unit, products, count, columns, at.to_z);
}

// A whole sequence forwards. Rows: x (features) in, h (units) out; z and c hold the initial state, and the final one afterwards.
template <class Cell, class T>
void forward_sequence(const Layer<T>& layer, const Scratch<T>& at, Rows<const T> x, Rows<T> out, int64_t steps,
                      const OpenEvents<T>& open, const Lookup<T>& lookup) {
  constexpr int64_t kAhead = 8;
  for (int64_t j = 0; j < steps; j++) {
    const int64_t first = open.start[j], end = open.start[j + 1];
    set_input(layer, at.z, x[j]);
    if (j + kAhead < steps) prefetch(x[j + kAhead], layer.features * sizeof(T));
    if (lookup.table && j + 1 < steps)  // anywhere in a large table: the schedule says where, a step ahead
      for (int64_t e = end; e < open.start[j + 2]; e++)
        __builtin_prefetch(lookup.table + (lookup.index[j + 1] * layer.units + open.unit[e]) * 4);
    const T* terms = lookup.table ? lookup.table + lookup.index[j] * layer.units * 4 : nullptr;
    step_forward<Cell>(layer, at, open.unit + first, open.k + first, end - first, terms, open.tape ? open.tape + first : nullptr,
                       open.field);
    std::memcpy(out[j], at.z, layer.units * sizeof(T));
  }
}

// A whole sequence backwards, in blocks of steps. On entry to_z and to_c hold the gradient of the final state, on return that of
// the first. Without rows for it, the gradient to x is not computed: the first columns of z are h.
template <class Cell, class T>
void backward_sequence(const Layer<T>& layer, const BackScratch<T>& at, Rows<const T> x, Rows<const T> out, const T* initial_h,
                       const double* time, int64_t steps, const OpenEvents<T>& open, Rows<const T> to_out, Rows<T> to_x,
                       const Sums<T>& sums) {
  constexpr int64_t kAhead = 8;  // rows lie a batch apart, too far for the hardware prefetcher: fetch them early
  const int64_t row_bytes = layer.units * sizeof(T);
  const int64_t columns = to_x.first ? layer.width : (layer.units + kWide<T> - 1) / kWide<T> * kWide<T>;
  for (int64_t end = steps; end > 0;) {
    const int64_t begin = end > kBlock ? end - kBlock : 0, origin = open.start[begin];
    for (int64_t j = begin; j < end; j++) {
      T* z = at.z + (j - begin) * layer.width;
      start_row(layer, z, j ? out[j - 1] : initial_h);
      if (j + kAhead < end) prefetch(out[j + kAhead], row_bytes), prefetch(x[j + kAhead], layer.features * sizeof(T));
      set_input(layer, z, x[j]);
      for (int64_t e = open.start[j]; e < open.start[j + 1]; e++) at.step[e - origin] = static_cast<int32_t>(j - begin);
    }
    for (int64_t j = end - 1; j >= begin; j--) {
      if (to_out.first) {
        const T* row = to_out[j];
        for (int64_t n = 0; n < layer.units; n++) at.to_z[n] += row[n];
        if (j >= kAhead) prefetch(to_out[j - kAhead], row_bytes);
      }
      const int64_t first = open.start[j], count = open.start[j + 1] - first;
      if (count)
        with_shape(layer.shape, [&](auto shape) PHASED_LAMBDA {
          step_backward<Cell, decltype(shape)>(layer, at, at.z + (j - begin) * layer.width, open.unit + first, open.k + first,
                                               open.side + first, open.tape + first, open.field, count, columns, time[j],
                                               at.products + 4 * (first - origin), sums);
        });
      if (to_x.first)
        for (int64_t d = 0; d < layer.features; d++) to_x[j][d] = at.to_z[layer.units + d];
      for (int64_t q = layer.units; q < layer.width; q++) at.to_z[q] = 0;
    }
    collect(layer, at, open.unit + origin, open.start[end] - origin, sums.weights);
    end = begin;
  }
}

}  // namespace
}  // namespace phased
