// The cells and the gate shapes that the core has. An entry's place in its table is its number.
#pragma once

#include <cstdint>

#include "cell.h"
#include "gate.h"

namespace phased {

template <class... Entry>
struct Table {
  static constexpr int size = sizeof...(Entry);
};
using Cells = Table<Lstm, Gru>;
using Shapes = Table<Triangle, Square>;

// A cell's numbers, for code that is not compiled for each cell. Products and rows are those of cell.h.
struct CellNumbers {
  const char* name;
  int rows, kept;
  bool has_c;
  int row_of_h[4];
};

template <class... Cell>
const CellNumbers& numbers_of(int cell, Table<Cell...>) {
  static constexpr CellNumbers all[] = {{Cell::name,
                                         Cell::rows,
                                         Cell::kept,
                                         Cell::has_c,
                                         {Cell::row_of_h(0), Cell::row_of_h(1), Cell::row_of_h(2), Cell::row_of_h(3)}}...};
  return all[cell];
}
inline const CellNumbers& numbers_of(int cell) { return numbers_of(cell, Cells()); }

// Calls work(Shape()) with the shape of this number: loops inside are compiled for each shape.
template <class Work, class... Shape>
PHASED_FUNCTION void with_shape(Table<Shape...>, int number, const Work& work) {
  int next = 0;
  (void)((next++ == number && (work(Shape()), true)) || ...);
}
template <class Work>
PHASED_FUNCTION void with_shape(int number, const Work& work) {
  with_shape(Shapes(), number, work);
}

}  // namespace phased
