// The engines as one table of functions for each instruction set; the caller takes the best this CPU has.
#pragma once

#include "layout.h"
#include "tables.h"

namespace phased {

template <class T>
struct Engine {
  int64_t (*schedule)(const Layer<T>&, const Looked&, const double* time, int64_t step, int64_t steps, int64_t* start,
                      int32_t* unit, T* k, uint8_t* side, int64_t capacity);
  // By the number of the cell.
  void (*forward[Cells::size])(const Layer<T>&, const Scratch<T>&, Rows<const T> x, Rows<T> out, int64_t steps, const OpenEvents<T>&,
                     const Lookup<T>&);
  void (*backward[Cells::size])(const Layer<T>&, const BackScratch<T>&, Rows<const T> x, Rows<const T> out, const T* initial_h,
                      const double* time, int64_t steps, const OpenEvents<T>&, Rows<const T> to_out, Rows<T> to_x,
                      const Sums<T>&);
  void (*forward_dense[Cells::size])(const Layer<T>&, double alpha, const T* matrix, int64_t tall, const DenseSequence<T>*, int64_t count,
                           const DenseScratch<T>&);
  void (*backward_dense[Cells::size])(const Layer<T>&, double alpha, const T* matrix, int64_t tall, const DenseSequence<T>*, int64_t count,
                            const DenseScratch<T>&);
};

struct Engines {
  const char* name;  // of the instruction set
  Engine<float> single;
  Engine<double> twice;
};

template <class T> const Engine<T>& of(const Engines& engines);
template <> inline const Engine<float>& of<float>(const Engines& engines) { return engines.single; }
template <> inline const Engine<double>& of<double>(const Engines& engines) { return engines.twice; }

// The build defines which of these there are.
Engines engines_baseline();
Engines engines_avx2();
Engines engines_avx512();

}  // namespace phased
