#include "online.h"

#include "recent.h"

#include <algorithm>
#include <cmath>

namespace phased {
namespace {

template <class T>
Buffer<T> copied(const T* from, int64_t count) {
  Buffer<T> made(count);
  std::copy_n(from, count, made.get());
  return made;
}

float dot(const float* a, const float* b, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

// The weights of one piece times what each column has of it: 0 below its start, 1 above its end, and linear between them.
float piece(const float* weight, const float* columns, const float* start, const float* slope, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    const float cut = (columns[i] - start[i]) * slope[i];
    sum += weight[i] * std::min(std::max(cut, 0.0f), 1.0f);
  }
  return sum;
}

}  // namespace

OnlineModel::OnlineModel(const Stack<float>& layer, OnlineSizes sizes, double span, double rate, const float* start,
                         const float* slope, const float* read_pieces, const float* read_states, const double* bias,
                         const int64_t* chosen, const float* center, const float* factor, const float* read_pairs)
    : sizes_(sizes),
      span_(span),
      rate_(static_cast<float>(rate)),
      layer_(layer),
      start_(copied(start, sizes.pieces * sizes.columns)),
      slope_(copied(slope, sizes.pieces * sizes.columns)),
      read_pieces_(copied(read_pieces, sizes.outputs * sizes.pieces * sizes.columns)),
      read_states_(copied(read_states, 4 * sizes.outputs * sizes.units)),
      center_(copied(center, sizes.paired)),
      factor_(copied(factor, sizes.paired)),
      read_pairs_(copied(read_pairs, sizes.outputs * sizes.paired * sizes.paired)),
      bias_(copied(bias, sizes.outputs)),
      chosen_(chosen, chosen + sizes.paired) {}

void OnlineModel::take(const OnlineSequence& sequence, double now, double gap, double last, int64_t steps,
                       const std::vector<Measured>& measured, double* out) {
  const float& time = sequence.x[sizes_.features - 1];
  const float before = time;
  inputs(sequence, now, gap, measured);
  const float kept = std::exp(-rate_ * (time - before));
  std::unique_ptr<StackState<float>> state = states_.take([&] { return layer_.start(); });
  state->set(sequence.h, sequence.c, last);
  layer_.run(*state, sequence.x, nullptr, &now, 1, sequence.read);
  state->get(sequence.h, sequence.c);
  states_.give(std::move(state));
  summaries(sequence, kept, steps);
  outputs(sequence, steps, out);
}

// Last-known values, which of them are new, and their ages; then the gap, and the time since the first event.
void OnlineModel::inputs(const OnlineSequence& sequence, double now, double gap, const std::vector<Measured>& measured) const {
  const int64_t variables = sizes_.variables;
  float *value = sequence.x, *is_new = value + variables, *age = is_new + variables;
  std::fill_n(is_new, variables, 0.0f);
  for (const Measured& each : measured) {
    value[each.variable] = each.value;
    is_new[each.variable] = 1;
    sequence.since[each.variable] = now;
    if (!sequence.known[each.variable]) {
      sequence.known[each.variable] = 1;
      sequence.first[each.variable] = each.value;
    }
  }
  for (int64_t v = 0; v < variables; v++) age[v] = std::log1p(static_cast<float>(now - sequence.since[v]));
  age[variables] = static_cast<float>(std::log1p(gap));
  age[variables + 1] = static_cast<float>(now / span_);
}

void OnlineModel::summaries(const OnlineSequence& sequence, float kept, int64_t steps) const {
  const int64_t variables = sizes_.variables, features = sizes_.features;
  const float* x = sequence.x;
  float *last = sequence.columns, *mean = last + features, *highest = mean + features;
  float *lowest = highest + variables, *roughness = lowest + variables, *change = roughness + variables;
  const double count = static_cast<double>(steps);
  for (int64_t i = 0; i < features; i++) {
    last[i] = x[i];
    sequence.totals[i] += x[i];
    mean[i] = static_cast<float>(sequence.totals[i] / count);
  }
  const Recent<float> recent(sequence.recent, variables);
  recent.advance(x, x + variables, kept, variables);
  recent.write(highest, lowest, roughness, variables);
  for (int64_t v = 0; v < variables; v++) change[v] = x[v] - sequence.first[v];
  float *state = sequence.read, *greatest = state + sizes_.units;
  for (int64_t n = 0; n < sizes_.units; n++) greatest[n] = std::max(greatest[n], state[n]);
}

std::vector<float> OnlineModel::ranks(const float* columns) const {
  std::vector<float> found(sizes_.paired);
  for (int64_t i = 0; i < sizes_.paired; i++) {
    const int64_t at = chosen_[i];
    float sum = 0;
    for (int64_t p = 0; p < sizes_.pieces; p++) {
      const float cut = (columns[at] - start_[p * sizes_.columns + at]) * slope_[p * sizes_.columns + at];
      sum += std::min(std::max(cut, 0.0f), 1.0f);
    }
    found[i] = (sum - center_[i]) * factor_[i];
  }
  return found;
}

void OnlineModel::outputs(const OnlineSequence& sequence, int64_t steps, double* out) const {
  const int64_t columns = sizes_.columns, width = 2 * sizes_.units, paired = sizes_.paired;
  const std::vector<float> own = ranks(sequence.columns);
  for (int64_t o = 0; o < sizes_.outputs; o++) {
    // The mean of a product is the product of the mean: the products of mean states are summed over all events.
    sequence.sums[o] += dot(read_states_.get() + (sizes_.outputs + o) * width, sequence.read, width);
    double sum = bias_[o] + sequence.sums[o] / static_cast<double>(steps);
    sum += dot(read_states_.get() + o * width, sequence.read, width);
    for (int64_t p = 0; p < sizes_.pieces; p++) {
      const float* weight = read_pieces_.get() + (o * sizes_.pieces + p) * columns;
      sum += piece(weight, sequence.columns, start_.get() + p * columns, slope_.get() + p * columns, columns);
    }
    for (int64_t i = 0; i < paired; i++) sum += own[i] * dot(read_pairs_.get() + (o * paired + i) * paired, own.data(), paired);
    out[o] = sum;
  }
}

}  // namespace phased
