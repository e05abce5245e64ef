// The readout of an estimator's network: a linear layer over the last, mean and highest states of ragged sequences and over pieces
// of their summaries.
#pragma once

#include <cstdint>

namespace phased {

constexpr int64_t kPooled = 3;  // last, mean, highest

// A piece of a summary: 0 below its start, 1 above its end, and linear between them. NaN stays NaN.
template <class T>
__attribute__((always_inline)) inline T piece_of(T summary, T start, T slope) {
  const T cut = (summary - start) * slope;
  return cut < 0 ? T(0) : cut > 1 ? T(1) : cut;
}

// Arrays are contiguous. A row of the linear layer is [kPooled * units states | pieces * columns].
template <class T>
struct Readout {
  int64_t steps, batch, units, columns, pieces, outputs;
  const T* h;              // (steps, batch, units); after the end of a sequence it may be anything
  const int64_t* lengths;  // (batch)
  const T* keep;           // (batch, kPooled, units): factors of the pooled states; null for ones
  const T* summary;        // (batch, columns)
  // (pieces, columns): each piece is centred and scaled.
  const T *start, *slope, *center, *scale;
  const T *weight, *bias;  // (outputs, row), (outputs)

  __attribute__((always_inline)) int64_t states() const { return kPooled * units; }
  __attribute__((always_inline)) int64_t row() const { return states() + pieces * columns; }
};

// What a backward pass needs of a forward pass.
template <class T>
struct Pooled {
  T* states;  // (batch, kPooled, units): zeros for a sequence without steps
  T* count;   // (batch, units): steps that have the highest state. A closed unit keeps its state, so there may be several.
};

template <class T>
struct ReadoutGradients {
  T *h, *weight, *bias;
};

}  // namespace phased
