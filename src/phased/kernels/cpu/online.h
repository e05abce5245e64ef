// A trained estimator on one sequence, event by event: inputs, recurrent layer, summaries of the inputs, and linear layer.
#pragma once

#include <cstdint>
#include <vector>

#include "inputs.h"
#include "memory.h"
#include "stream.h"

namespace phased {

// How many of each: see phased/estimator/online_model.py, which has the same computation in numpy.
struct OnlineSizes {
  int64_t variables, features, statics, pieces, units, outputs, paired;

  int64_t columns() const { return 2 * features + 4 * variables + statics; }
};

// What is known of one sequence beside the state of the layer. clock: times of the first and of the last step, number of steps.
struct OnlineSequence {
  double *clock, *since, *totals, *sums;
  float *x, *read, *recent, *first;
  uint8_t* known;
};

// A trained network, which sequences share.
struct OnlineModel {
  const Stack<float>& layer;  // it has to outlive the model
  OnlineSizes sizes;
  std::vector<int64_t> places;  // in the memory of a sequence, in bytes: of each part of an OnlineSequence, and of the end
  double gap, span, reach;      // median gap; median span and longest time that can be answered, in median gaps
  double latest;                // time
  float rate;                   // how fast extremes are forgotten: see recent.h
  Buffer<float> start, slope;   // of pieces, (pieces, columns)
  Buffer<float> read_pieces;    // weights (outputs, pieces, columns)
  Buffer<float> read_states;    // weights (2 outputs, 2 units): of the states now, and of those whose mean is read
  Buffer<double> bias;          // (outputs)
  Buffer<int64_t> chosen;       // summaries whose pairs are multiplied, (paired)
  Buffer<float> center, factor; // of their ranks, (paired)
  Buffer<float> read_pairs;     // weights (outputs, paired, paired)

  // One event. The outputs of the linear layer go to `out`, (outputs). Nothing is taken if they are not finite, or, then with
  // false, if the time is before the last one or too late.
  bool take(uint8_t* memory, StackState<float>& state, double time, const std::vector<Measured>& measured, double* out) const;

 private:
  void inputs(const OnlineSequence& sequence, double now, double after, const std::vector<Measured>& measured) const;
  // What the linear layer reads of the inputs, (columns).
  std::vector<float> summaries(const OnlineSequence& sequence, float kept, int64_t steps) const;
  // The ranks of the summaries whose pairs are multiplied, (paired).
  std::vector<float> ranks(const std::vector<float>& columns) const;
  void outputs(const OnlineSequence& sequence, const std::vector<float>& columns, int64_t steps, double* out) const;
};

}  // namespace phased
