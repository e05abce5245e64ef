// A trained estimator on one sequence, event by event: inputs, their summaries, encoder, recurrent layer, and output layers.
#pragma once

#include <cstdint>
#include <vector>

#include "inputs.h"
#include "memory.h"
#include "shares.h"
#include "stream.h"

namespace phased {

// Sizes of a network. phased/estimator/online_model.py contains the same computation in NumPy.
struct OnlineSizes {
  int64_t variables, numbers, statics, pieces, units, outputs, paired, every_step;

  int64_t features() const { return 3 * variables + 2; }
  int64_t width() const { return features() + 4 * numbers; }
  int64_t columns() const { return 2 * features() + 4 * variables + statics; }
  int64_t read() const { return width() + statics; }
  int64_t states() const { return (every_step ? 4 : 3) * units; }
};

// State of one sequence, without the state of the layer. clock: time of the first step, time of the last step, number of steps.
struct OnlineSequence {
  double* clock;
  InputState inputs;
  double *totals, *sums;
  float *x, *read, *recent, *first;
  int16_t* ring;
  int32_t* counts;
};

// A dense layer of ReLUs with weights (units, read) and biases (units).
struct Dense {
  Buffer<float> weight, bias;

  void operator()(const float* read, int64_t count, float* to) const;
};

// A trained network, shared by all sequences.
struct OnlineModel {
  const Stack<float>& layer;  // must outlive the model
  const Inputs& inputs;       // must outlive the model
  OnlineSizes sizes;
  std::vector<int64_t> places;   // byte offsets of the parts of an OnlineSequence, and the size in bytes
  double gap, reach;             // median gap, and longest time since the first step in median gaps
  double latest;                 // largest absolute time
  float rate;                    // decay rate of extremes, see recent.h
  Buffer<float> start, slope;    // start and slope of each piece, (pieces, columns)
  Buffer<float> read_pieces;     // weights (outputs, pieces, columns)
  Dense encoder, hidden;
  Buffer<float> read_states;     // weights (outputs, units)
  Buffer<double> bias;           // (outputs)
  Buffer<int64_t> chosen;        // columns of the summaries in products of pairs, (paired)
  Buffer<float> center, factor;  // centre and factor of the ranks of these summaries, (paired)
  Buffer<float> read_pairs;      // weights (outputs, paired, paired)
  const Shares* shares;          // null for a network without shares
  Buffer<float> read_shares;     // weights (outputs, features)
  bool recurrent;                // whether the outputs depend on the recurrent layer

  // Processes one event, and writes the outputs of the linear layer to `out`, (outputs). Returns false if the time is before the
  // last event or too late. In this case, and if an output is not finite, the state does not change.
  bool take(uint8_t* memory, StackState<float>& state, double time, const std::vector<Measured>& measured, double* out) const;

 private:
  // Updates the running summaries of the inputs, and returns all summaries, (columns).
  std::vector<float> summaries(const OnlineSequence& sequence, float kept, int64_t steps) const;
  // Returns the ranks of the summaries in products of pairs, (paired).
  std::vector<float> ranks(const std::vector<float>& columns) const;
  // Advances the recurrent layer, and adds the outputs of the layers that read its states.
  void read_network(StackState<float>& state, const OnlineSequence& sequence, double now, int64_t steps, double* out) const;
  // Adds the weighted pieces of summaries and the products of pairs of summaries.
  void read_summaries(const std::vector<float>& columns, double* out) const;
};

}  // namespace phased
