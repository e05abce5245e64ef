// A batch of sequences through one layer: schedule, forward and backward, threads over the sequences.
#pragma once

#include <vector>

#include "engine.h"
#include "memory.h"
#include "pack.h"

namespace phased {

// The arguments of a call, as plain pointers into the caller's memory.
template <class T>
struct Problem {
  int cell, shape;  // the numbers of the cell and of the gate's shape
  double leak;
  int64_t batch, steps, features, units;
  const T* input;  // element (b, j, d) at b * input_batch + j * input_step + d
  int64_t input_batch, input_step;
  const double* time;      // (batch, steps)
  const int64_t* lengths;  // (batch)
  const T *h, *c;          // initial states (batch, units); c null for a cell without it
  TorchWeights<T> weights;
  const T* peephole;  // (3, units) or null
  int64_t threads;
  Gates gates;

  int64_t kept() const { return numbers_of(cell).kept; }  // values that an event keeps for the backward pass
  Layer<T> layer(const T* packed) const { return gates.layer(features, packed, peephole, shape); }
};

// The open events of every sequence.
template <class T>
struct Schedule {
  struct Sequence {
    Buffer<int64_t> start;
    Buffer<int32_t> unit;
    Buffer<T> k;
    Buffer<uint8_t> side;
  };
  Schedule() = default;
  Schedule(Schedule&&) = default;
  std::vector<Sequence> sequences;
  int64_t slots = 0;  // slots for the events of all sequences, spare ones included
};

// What a forward pass saves: start (batch, steps + 1), and per slot unit, k, side and the values that the cell keeps,
// (kept, slots).
template <class T>
struct Saved {
  int64_t* start;
  int32_t* unit;
  T* k;
  uint8_t* side;
  T* tape;
  int64_t slots;
};

template <class T>
struct Output {
  T* output;  // (steps, batch, units)
  T *h, *c;   // (batch, units)
};

// Gradients given: to_output's element (b, j, n) at b * output_batch + j * output_step + n, or null; to the final states (batch,
// units).
template <class T>
struct Given {
  const T* to_output;
  int64_t output_batch, output_step;
  const T *to_h, *to_c;
};

template <class T>
struct Gradients {
  T* input;  // (steps, batch, features), or null: not computed
  T *h, *c;
  TorchWeights<T> weights;
  T* peephole;
  double* gate;  // (3, units)
};

// Throws std::invalid_argument if lengths would cause an access outside the caller's memory.
void check_lengths(const int64_t* lengths, int64_t batch, int64_t steps);

template <class T> Schedule<T> make_schedule(const Engine<T>&, const Problem<T>&);
template <class T> void forward(const Engine<T>&, const Problem<T>&, const Schedule<T>&, const Output<T>&, const Saved<T>&);
template <class T> void infer(const Engine<T>&, const Problem<T>&, const Output<T>&);
// How often each unit is open in each sequence, (batch, units). Input, states and weights are not read.
template <class T> void count_open(const Engine<T>&, const Problem<T>&, int64_t* counts);
template <class T>
void backward(const Engine<T>&, const Problem<T>&, const Saved<T>&, const T* output, const Given<T>&, const Gradients<T>&);
// Every unit at every step. The tape is (batch, steps, kept, whole_units); gradients to the products are (steps, batch,
// 4, units), and those to the weights and the input are matrix products of them, computed by the caller.
template <class T> void forward_dense(const Engine<T>&, const Problem<T>&, const Output<T>&, T* tape);
template <class T>
void backward_dense(const Engine<T>&, const Problem<T>&, const T* output, const T* tape, const Given<T>&, T* to_products,
                    const Gradients<T>&);

}  // namespace phased
