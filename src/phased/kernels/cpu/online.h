// A trained estimator on one sequence, event by event: inputs, their summaries, encoder, recurrent layer, and output layers.
#pragma once

#include <cstdint>
#include <vector>

#include "inputs.h"
#include "memory.h"
#include "shares.h"
#include "stream.h"

namespace phased {

// Sizes of a network: see phased/estimator/online_model.py, which has the same computation in NumPy.
struct OnlineSizes {
  int64_t variables, numbers, statics, pieces, units, outputs, paired, every_step;

  int64_t features() const { return 3 * variables + 2; }
  int64_t width() const { return features() + 4 * numbers; }
  int64_t columns() const { return 2 * features() + 4 * variables + statics; }
  int64_t read() const { return every_step ? columns() + 4 * numbers : width() + statics; }
  int64_t states() const { return (every_step ? 4 : 3) * units; }
};

// State of one sequence beside that of the layer. clock: times of the first and of the last step, number of steps.
struct OnlineSequence {
  double* clock;
  InputState inputs;
  double *totals, *sums;
  float *x, *read, *recent, *first;
  int16_t* ring;
  int32_t* counts;
};

// A dense layer of ReLUs: weights (units, read), and their biases.
struct Dense {
  Buffer<float> weight, bias;

  void operator()(const float* read, int64_t count, float* to) const;
};

// A trained network, which sequences share.
struct OnlineModel {
  const Stack<float>& layer;  // it has to outlive the model
  const Inputs& inputs;       // likewise
  OnlineSizes sizes;
  std::vector<int64_t> places;   // in the memory of a sequence, in bytes: of each part of an OnlineSequence, and of the end
  double gap, reach;             // median gap; longest time that can be answered, in median gaps
  double latest;                 // time
  float rate;                    // how fast extremes are forgotten: see recent.h
  Buffer<float> start, slope;    // of pieces, (pieces, columns)
  Buffer<float> read_pieces;     // weights (outputs, pieces, columns)
  Dense encoder, hidden;
  Buffer<float> read_states;     // weights (outputs, units)
  Buffer<double> bias;           // (outputs)
  Buffer<int64_t> chosen;        // summaries whose pairs are multiplied, (paired)
  Buffer<float> center, factor;  // of their ranks, (paired)
  Buffer<float> read_pairs;      // weights (outputs, paired, paired)
  const Shares* shares;          // null where the network reads none
  Buffer<float> read_shares;     // weights (outputs, features)
  bool recurrent;                // whether the recurrent layer is read

  // One event. The outputs of the linear layer go to `out`, (outputs). Nothing is taken if they are not finite, or, then with
  // false, if the time is before the last one or too late.
  bool take(uint8_t* memory, StackState<float>& state, double time, const std::vector<Measured>& measured, double* out) const;

 private:
  // What the linear layer reads of the inputs, (columns).
  std::vector<float> summaries(const OnlineSequence& sequence, float kept, int64_t steps) const;
  // The inputs of the recurrent layer, (units).
  std::vector<float> encoded(const OnlineSequence& sequence, const std::vector<float>& columns) const;
  // The ranks of the summaries whose pairs are multiplied, (paired).
  std::vector<float> ranks(const std::vector<float>& columns) const;
  // Adds what the layers make of the states to the outputs.
  void read_network(StackState<float>& state, const OnlineSequence& sequence, const std::vector<float>& columns, double now,
                    int64_t steps, double* out) const;
  // Adds what the linear layer makes of summaries, and of pairs of them.
  void read_summaries(const std::vector<float>& columns, double* out) const;
};

}  // namespace phased
