// A trained estimator on one sequence, event by event: inputs, recurrent layer, summaries of the inputs, and linear layer.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "memory.h"
#include "stream.h"

namespace phased {

// How many of each: see phased/estimator/sequence.py, which has the same computation in numpy.
struct OnlineSizes {
  int64_t variables, features, columns, pieces, units, outputs;
};

// The memory of one sequence, which Python owns.
struct OnlineSequence {
  float *x, *columns, *read, *first;
  uint8_t* known;
  double *since, *totals, *sums;
  float *h, *c;
};

struct Measured {
  int64_t variable;
  float value;
};

// What all sequences of a model share. Sequences take turns: the layer has one working memory.
class OnlineModel {
 public:
  // start and slope (pieces, columns), read_pieces (outputs, pieces, columns), read_states (2 outputs, 2 units), bias (outputs).
  OnlineModel(const Stream<float>& layer, OnlineSizes sizes, double span, const float* start, const float* slope,
              const float* read_pieces, const float* read_states, const double* bias);

  const OnlineSizes& sizes() const { return sizes_; }

  // One event at time `now`, `gap` after the last one, at time `last`; times in median gaps. It is event number `steps`, from 1.
  // The outputs of the linear layer go to `out`, (outputs).
  void take(const OnlineSequence& sequence, double now, double gap, double last, int64_t steps,
            const std::vector<Measured>& measured, double* out);

 private:
  void inputs(const OnlineSequence& sequence, double now, double gap, const std::vector<Measured>& measured) const;
  void summaries(const OnlineSequence& sequence, int64_t steps) const;
  void outputs(const OnlineSequence& sequence, int64_t steps, double* out) const;

  OnlineSizes sizes_;
  double span_;
  Stream<float> layer_;
  Buffer<float> start_, slope_, read_pieces_, read_states_;
  Buffer<double> bias_;
  std::mutex lock_;
};

}  // namespace phased
