// Inputs of a step of a sequence of measurements, computed from the inputs of the previous step. Batches and online sequences
// call the same function. phased/estimator/inputs.py contains the same computation in NumPy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

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

struct Inputs {
  InputSizes sizes;
  std::vector<int64_t> number;  // index of each variable among the numbers, or -1 (variables)
  double span;                  // median span, in median gaps
  double floor, most, soon;     // see phased/estimator/inputs.py

  // Computes the inputs of a step in place: `x` contains the row of the previous step, or zeros. now: time since the first step.
  // after: time since the previous step. Both are in median gaps.
  void step(float* x, const InputState& state, double now, double after, const Measured* measured, int64_t count) const {
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
    for (int64_t v = 0; v < variables; v++) age[v] = std::log1p(static_cast<float>(now - state.since[v]));
    times[0] = static_cast<float>(std::log1p(after));
    times[1] = static_cast<float>(now / span);
  }
};

// Concatenated sequences. The steps of sequence i are offset[i] to offset[i + 1], and the measurements of step s are entry[s] to
// entry[s + 1]. The inputs of step s are written to row s of `to`, with `stride` numbers per row.
struct InputBatch {
  int64_t sequences, stride;
  const int64_t *offset, *entry;
  const double* time;  // since the first step of the sequence, in median gaps
  const int32_t* variable;
  const float* value;
  float* to;
};

inline void inputs(const Inputs& made, const InputBatch& batch) {
  const InputSizes& sizes = made.sizes;
  std::vector<double> memory;
  std::vector<Measured> measured;
  for (int64_t i = 0; i < batch.sequences; i++) {
    memory.assign(2 * (sizes.variables + sizes.numbers), 0.0);
    const InputState state{memory.data(), memory.data() + sizes.variables, memory.data() + 2 * sizes.variables,
                           memory.data() + 2 * sizes.variables + sizes.numbers};
    for (int64_t s = batch.offset[i]; s < batch.offset[i + 1]; s++) {
      float* row = batch.to + s * batch.stride;
      const bool first = s == batch.offset[i];
      if (first)
        std::fill_n(row, sizes.width(), 0.0f);
      else
        std::copy_n(row - batch.stride, sizes.width(), row);
      measured.clear();
      for (int64_t m = batch.entry[s]; m < batch.entry[s + 1]; m++) measured.push_back({batch.variable[m], batch.value[m]});
      made.step(row, state, batch.time[s], first ? 0.0 : batch.time[s] - batch.time[s - 1], measured.data(),
                static_cast<int64_t>(measured.size()));
    }
  }
}

}  // namespace phased
