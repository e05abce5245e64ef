// A trained estimator on one sequence, event by event: inputs, recurrent layer, summaries of the inputs, and linear layer.
#pragma once

#include <cstdint>
#include <vector>

#include "memory.h"
#include "stream.h"

namespace phased {

// How many of each: see phased/estimator/online_model.py, which has the same computation in numpy.
struct OnlineSizes {
  int64_t variables, features, statics, pieces, units, outputs, paired;

  int64_t columns() const { return 2 * features + 4 * variables + statics; }
};

// What is known of one sequence beside the state of the layer.
struct OnlineSequence {
  double *since, *totals, *sums;
  float *x, *read, *recent, *first;
  uint8_t* known;
};

struct Measured {
  int64_t variable;
  float value;
};

// What all sequences of a model share. The stack has to outlive it.
class OnlineModel {
 public:
  // `places`: where in the memory of a sequence each part of an OnlineSequence begins, in bytes. start and slope (pieces, columns),
  // read_pieces (outputs, pieces, columns), read_states (2 outputs, 2 units), bias (outputs); of the summaries whose pairs are
  // multiplied: which they are (paired), centre and factor of their ranks (paired), and weights (outputs, paired, paired).
  // `rate`: how fast extremes are forgotten, see recent.h.
  OnlineModel(const Stack<float>& layer, OnlineSizes sizes, std::vector<int64_t> places, double span, double rate,
              const float* start, const float* slope, const float* read_pieces, const float* read_states, const double* bias,
              const int64_t* chosen, const float* center, const float* factor, const float* read_pairs);

  const OnlineSizes& sizes() const { return sizes_; }

  // One event at time `now`, `gap` after the last one, in median gaps. It is event number `steps`, from 1. The outputs of the
  // linear layer go to `out`, (outputs).
  void take(uint8_t* memory, StackState<float>& state, double now, double gap, int64_t steps,
            const std::vector<Measured>& measured, double* out) const;

 private:
  void inputs(const OnlineSequence& sequence, double now, double gap, const std::vector<Measured>& measured) const;
  // What the linear layer reads of the inputs, (columns).
  std::vector<float> summaries(const OnlineSequence& sequence, float kept, int64_t steps) const;
  // The ranks of the summaries whose pairs are multiplied, (paired).
  std::vector<float> ranks(const std::vector<float>& columns) const;
  void outputs(const OnlineSequence& sequence, const std::vector<float>& columns, int64_t steps, double* out) const;

  OnlineSizes sizes_;
  std::vector<int64_t> places_;
  double span_;
  float rate_;
  const Stack<float>& layer_;
  Buffer<float> start_, slope_, read_pieces_, read_states_, center_, factor_, read_pairs_;
  Buffer<double> bias_;
  std::vector<int64_t> chosen_;
};

}  // namespace phased
