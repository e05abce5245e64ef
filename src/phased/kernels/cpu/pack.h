// A layer's weights between torch's layout and the engines': torch stacks gates, an engine reads all weights of a unit from one
// place.
#pragma once

#include "layout.h"
#include "memory.h"
#include "tables.h"

namespace phased {

// torch's weights: ih (G*H, D), hh (G*H, H), biases (G*H) or null.
template <class T>
struct TorchWeights {
  T *ih, *hh, *bias_ih, *bias_hh;
};

// Calls visit(unit, product, element of z, torch's weight) for every weight and bias there is.
template <class T, class Visit>
void each_weight(int cell, int64_t units, int64_t features, const TorchWeights<T>& w, const Visit& visit) {
  const CellNumbers& numbers = numbers_of(cell);
  for (int64_t n = 0; n < units; n++)
    for (int g = 0; g < kProducts; g++) {
      if (numbers.row_of_h[g] >= 0) {
        const int64_t row = numbers.row_of_h[g] * units + n;
        for (int64_t q = 0; q < units; q++) visit(n, g, q, w.hh[row * units + q]);
        if (w.bias_hh) visit(n, g, units + features, w.bias_hh[row]);
      }
      if (g < numbers.rows) {
        const int64_t row = g * units + n;
        for (int64_t d = 0; d < features; d++) visit(n, g, units + d, w.ih[row * features + d]);
        if (w.bias_ih) visit(n, g, units + features, w.bias_ih[row]);
      }
    }
}

// W[unit][4][width] from torch's weights; the two biases add up.
template <class T>
Buffer<T> pack(int cell, int64_t units, int64_t features, const TorchWeights<T>& w) {
  const int64_t width = padded<T>(units + features + 1);
  Buffer<T> packed(units * 4 * width);
  each_weight(cell, units, features, w, [&](int64_t n, int g, int64_t q, T& value) { packed[(n * 4 + g) * width + q] += value; });
  return packed;
}

// torch's gradients from the sum of W's.
template <class T>
void unpack(int cell, int64_t units, int64_t features, const T* packed, const TorchWeights<T>& to) {
  const int64_t width = padded<T>(units + features + 1);
  each_weight(cell, units, features, to, [&](int64_t n, int g, int64_t q, T& value) {
    value = packed[(n * 4 + g) * width + q];
  });
}

// A matrix (rows, columns) read by `at(row, column)` as panels, each (rows, kPanel), zero beyond the last column.
template <class T, class At>
Buffer<T> panels(int64_t rows, int64_t columns, const At& at) {
  Buffer<T> result(rows * whole_panels<T>(columns));
  T* to = result.get();
  for (int64_t first = 0; first < columns; first += kPanel<T>)
    for (int64_t r = 0; r < rows; r++, to += kPanel<T>)
      for (int64_t c = 0; c < kPanel<T> && first + c < columns; c++) to[c] = at(r, first + c);
  return result;
}

}  // namespace phased
