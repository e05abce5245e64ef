// Inputs of a step of a sequence of measurements, computed from the inputs of the previous step. Batches and online sequences
// call the same function. phased/estimator/inputs.py contains the same computation in NumPy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "threads.h"

namespace phased {

struct Measured {
  int64_t variable;
  float value;
};

// Sizes of a row of inputs, in the order values, masks and ages of the variables, gap, time, and deviations, changes, rates and
// spreads of the numbers.
struct InputSizes {
  int64_t variables, numbers;

  int64_t width() const { return 3 * variables + 4 * numbers + 2; }
};

// State of a sequence in addition to its last row. since: time of the last measurement of each variable, in median gaps. count:
// number of measurements of each variable. mean, square: running mean, and sum of squared deviations, of each number.
struct InputState {
  double *since, *count, *mean, *square;
};

// Logarithms of 1 + x, remembered: variables that were last measured at the same step have the same age, and ages recur at
// regular times.
class Logarithms {
 public:
  float operator()(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof x);
    Known& known = known_[(bits * 2654435769u) >> (32 - kBits)];
    if (known.x != x) known = {x, std::log1p(x)};
    return known.y;
  }

 private:
  static constexpr int kBits = 10;
  struct Known {
    float x, y;
  };
  Known known_[1 << kBits] = {};
};

struct Inputs {
  InputSizes sizes;
  std::vector<int64_t> number;  // index of each variable among the numbers, or -1 (variables)
  double span;                  // median span, in median gaps
  double floor, most, soon;     // see phased/estimator/inputs.py

  // Computes the inputs of a step in place: `x` contains the row of the previous step, or zeros. now: time since the first step.
  // after: time since the previous step. Both are in median gaps.
  // log1p: returns the logarithm of 1 + x.
  template <class Log>
  void step(float* x, const InputState& state, double now, double after, const Measured* measured, int64_t count,
            Log&& log1p) const {
    const int64_t variables = sizes.variables, numbers = sizes.numbers;
    float *value = x, *mask = value + variables, *age = mask + variables, *times = age + variables;
    float *deviation = times + 2, *change = deviation + numbers, *rate = change + numbers, *spread = rate + numbers;
    const auto bounded = [&](double given) { return static_cast<float>(std::min(std::max(given, -most), most)); };
    std::fill_n(mask, variables, 0.0f);
    std::fill_n(change, 2 * numbers, 0.0f);
    for (const Measured* each = measured; each < measured + count; each++) {
      const int64_t v = each->variable, n = number[v];
      const double seen = state.count[v] += 1, apart = now - state.since[v];
      if (n >= 0) {
        const double given = each->value, from = given - state.mean[n];
        state.mean[n] += from / seen;
        state.square[n] += from * (given - state.mean[n]);
        const double own = std::sqrt(state.square[n] / seen + floor * floor);
        const double by = seen > 1 ? (given - value[v]) / own : 0;
        deviation[n] = bounded((given - state.mean[n]) / own);
        change[n] = bounded(by);
        rate[n] = bounded(by / (apart + soon));
        spread[n] = static_cast<float>(std::log(own));
      }
      value[v] = each->value;
      mask[v] = 1;
      state.since[v] = now;
    }
    for (int64_t v = 0; v < variables; v++) age[v] = log1p(static_cast<float>(now - state.since[v]));
    times[0] = static_cast<float>(std::log1p(after));
    times[1] = static_cast<float>(now / span);
  }
};

// Sequences whose inputs are written. The steps of sequence i are offset[i] to offset[i + 1], and the measurements of step s are
// entry[s] to entry[s + 1]. Step t of sequence chosen[i] is row first[i] + t * apart of `to`, with `stride` numbers per row. The
// numbers after the inputs are those of the first row of the sequence. Rows after the end of the sequence are zeros, up to `steps`
// rows.
struct InputBatch {
  int64_t sequences, stride, apart, steps, threads;
  const int64_t *chosen, *first, *offset, *entry;
  const double* time;  // since the first step of the sequence, in median gaps
  const int32_t* variable;
  const float* value;
  float* to;
};

inline void inputs(const Inputs& made, const InputBatch& batch) {
  const InputSizes& sizes = made.sizes;
  std::vector<int64_t> lengths(batch.sequences);
  for (int64_t i = 0; i < batch.sequences; i++) lengths[i] = batch.offset[batch.chosen[i] + 1] - batch.offset[batch.chosen[i]];
  const auto parts = share(lengths.data(), batch.sequences, batch.threads);
  in_parallel(parts.size(), [&](int64_t thread) {
    std::vector<double> memory;
    std::vector<Measured> measured;
    Logarithms logarithms;
    for (int64_t i : parts[thread]) {
      memory.assign(2 * (sizes.variables + sizes.numbers), 0.0);
      const InputState state{memory.data(), memory.data() + sizes.variables, memory.data() + 2 * sizes.variables,
                             memory.data() + 2 * sizes.variables + sizes.numbers};
      const int64_t begin = batch.offset[batch.chosen[i]];
      float *row = batch.to + batch.first[i] * batch.stride, *before = nullptr;
      for (int64_t s = begin; s < begin + lengths[i]; s++, row += batch.apart * batch.stride) {
        if (before)
          std::copy_n(before, batch.stride, row);
        else
          std::fill_n(row, sizes.width(), 0.0f);
        measured.clear();
        for (int64_t m = batch.entry[s]; m < batch.entry[s + 1]; m++) measured.push_back({batch.variable[m], batch.value[m]});
        made.step(row, state, batch.time[s], before ? batch.time[s] - batch.time[s - 1] : 0.0, measured.data(),
                  static_cast<int64_t>(measured.size()), logarithms);
        before = row;
      }
      for (int64_t s = lengths[i]; s < batch.steps; s++, row += batch.apart * batch.stride) std::fill_n(row, batch.stride, 0.0f);
    }
  });
}

}  // namespace phased
