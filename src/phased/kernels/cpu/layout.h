// How the engines see a layer's numbers: packed weights, rows of a sequence, open events. Plain pointers, owned by the caller.
#pragma once

#include <cstdint>

namespace phased {

constexpr int kLanes = 8;        // units whose rough phase is computed together; events and units are padded to as many
constexpr int64_t kBlock = 512;  // steps whose rows a backward pass holds together for the weights' gradients
constexpr int64_t kCandidates = 256;  // units, of several steps, whose phases are computed together
constexpr int64_t kProducts = 4;  // of a unit, in any cell
constexpr int64_t kGateParameters = 3, kPeepholes = 3;

// Columns of a dense product that are stored together, a panel: two vectors of 64 bytes.
template <class T>
constexpr int64_t kPanel = 128 / sizeof(T);

template <class T>
constexpr int64_t whole_panels(int64_t columns) {
  return (columns + kPanel<T> - 1) / kPanel<T> * kPanel<T>;
}

// Elements a row of K values takes when it is padded with zeros to whole vectors of 64 bytes.
template <class T>
constexpr int64_t padded(int64_t K) {
  constexpr int64_t wide = 64 / sizeof(T);
  return (K + wide - 1) / wide * wide;
}

// A unit reads one row z = [h | x | 1 | 0...] of `width` elements and has four rows of weights on it, biases included:
// W[unit][4][width].
template <class T>
struct Layer {
  int64_t units, features, width;
  const T* weights;   // units * 4 * width, 64-byte aligned
  const T* peephole;  // 3 * units, or null
  const double *period, *shift, *ratio_on;
  const double* offset;  // what rest_of leaves of the shift
  // For a rough phase: the fraction of t * rate - lag is below `reach` wherever the unit is open; whole vectors, no more unit
  // within reach.
  const double *rate, *lag, *reach;
  double near;  // times up to this far from zero have a rough phase that is good enough
  int shape;    // of the gate: its number
};

// Sums over a unit's events made gradients to period, shift and ratio_on.
inline void finish_gate(const double* period, const double* ratio_on, int64_t units, double* gate) {
  for (int64_t n = 0; n < units; n++) {
    const double to_shift = -2 / (ratio_on[n] * period[n]);
    gate[n] *= to_shift / period[n];
    gate[units + n] *= to_shift;
    gate[2 * units + n] /= ratio_on[n];
  }
}

// Rows of one sequence: row j starts at first + j * stride.
template <class T>
struct Rows {
  T* first;
  int64_t stride;
  __attribute__((always_inline)) T* operator[](int64_t j) const { return first + j * stride; }
};

// The open events of one sequence: those of step j are start[j] to start[j + 1], counted from the sequence's first.
// `tape` holds what a forward pass saves for its backward pass: field f of event e at tape[f * field + e].
template <class T>
struct OpenEvents {
  const int64_t* start;
  const int32_t* unit;
  const T* k;
  const uint8_t* side;  // 0 where the gate rises, 1 where it falls
  T* tape;
  int64_t field;
};

// Input given as an index into a table of what it adds to the products: that of event j at table[(index[j] * units + unit) * 4].
template <class T>
struct Lookup {
  const T* table;  // null where input comes as rows
  const int64_t* index;
};

// Working memory for the candidate units of some steps, `capacity` of them and a vector more.
struct Looked {
  double *time, *period, *shift, *ratio_on, *phase;
  int64_t capacity;  // at least the number of units
};

// Units in whole vectors.
constexpr int64_t whole_units(int64_t units) { return (units + kLanes - 1) / kLanes * kLanes; }

// Columns of a dense step's product: kProducts times whole_units, in whole panels.
template <class T>
constexpr int64_t dense_columns(int64_t units) {
  return whole_panels<T>(kProducts * whole_units(units));
}

// Units and a vector or two more, in whole vectors.
constexpr int64_t padded_units(int64_t units) { return whole_units(units) + 2 * kLanes; }

// Working memory of one thread; every pointer is 64-byte aligned.
template <class T>
struct Scratch {
  T* z;         // width: [h | x | 1 | 0...], kept up to date
  T* c;         // units
  T* products;  // 4 * (units + kLanes)
};

// What a backward pass over one thread's sequences adds up, in the layout of the layer.
template <class T>
struct Sums {
  T* weights;         // units * 4 * width
  double* peephole;   // 3 * units
  double* gate;       // 3 * units: of to_phase * (t - s), to_phase and to_ratio, in the units of gate.h's slopes
};

// Working memory of a backward pass, on top of Scratch.
template <class T>
struct BackScratch {
  T* z;          // (kBlock, width): the rows before each step of a block
  T* to_z;       // width: gradient to [h | x | ...]
  T* to_c;       // units
  T* products;   // (capacity + kLanes, 4): gradients to the four products of a block's events
  int32_t* step;   // capacity: an event's step in its block
  int32_t* order;  // capacity: the block's events, unit by unit
  int64_t* first;  // units + 1
};

// One of the sequences that share a dense pass.
template <class T>
struct DenseSequence {
  int64_t steps;
  const double* time;
  Rows<const T> x;
  Rows<T> out;          // h after each step
  const T* initial_h;
  T* tape;              // per step: kept fields of whole_units values each; null to keep nothing
  Rows<const T> to_out; // first is null where there is none
  Rows<T> to_products;  // 4 * units
};

template <class T>
struct DenseScratch {
  T* z;         // (sequences, width)
  T* c;         // (sequences, tall): units padded to whole panels
  T* products;  // (sequences, dense_columns) forwards, (sequences, 4 * units) backwards
  T* k;         // tall
  double *period, *shift, *ratio_on;   // tall: the gates, ones and zeros beyond the last
  double* origin;                      // tall: the shifts as given; `shift` is what whole periods leave of them
  double *to_phase, *to_ratio;         // tall: slopes
  double* to_gate;  // (kGateParameters + kPeepholes, tall): sums for period, shift, ratio_on (see Sums), and the three peepholes
  T* to_z;      // (sequences, tall)
  T* to_c;      // (sequences, tall)
};

}  // namespace phased
