#include "online.h"

#include "recent.h"

#include <algorithm>
#include <cmath>

namespace phased {
namespace {

float dot(const float* a, const float* b, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) sum += a[i] * b[i];
  return sum;
}

// The weights of one piece times what each column has of it.
float piece(const float* weight, const float* columns, const float* start, const float* slope, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) sum += weight[i] * piece_of(columns[i], start[i], slope[i]);
  return sum;
}

}  // namespace

OnlineModel::OnlineModel(const Stack<float>& layer, OnlineSizes sizes, std::vector<int64_t> places, double span, double rate,
                         const float* start, const float* slope, const float* read_pieces, const float* read_states,
                         const double* bias, const int64_t* chosen, const float* center, const float* factor,
                         const float* read_pairs)
    : sizes_(sizes),
      places_(std::move(places)),
      span_(span),
      rate_(static_cast<float>(rate)),
      layer_(layer),
      start_(start, sizes.pieces * sizes.columns()),
      slope_(slope, sizes.pieces * sizes.columns()),
      read_pieces_(read_pieces, sizes.outputs * sizes.pieces * sizes.columns()),
      read_states_(read_states, 4 * sizes.outputs * sizes.units),
      center_(center, sizes.paired),
      factor_(factor, sizes.paired),
      read_pairs_(read_pairs, sizes.outputs * sizes.paired * sizes.paired),
      bias_(bias, sizes.outputs),
      chosen_(chosen, chosen + sizes.paired) {}

void OnlineModel::take(uint8_t* memory, StackState<float>& state, double now, double gap, int64_t steps,
                       const std::vector<Measured>& measured, double* out) const {
  const auto doubles = [&](int part) { return reinterpret_cast<double*>(memory + places_[part]); };
  const auto floats = [&](int part) { return reinterpret_cast<float*>(memory + places_[part]); };
  const OnlineSequence sequence{doubles(0), doubles(1), doubles(2), floats(3),
                                floats(4),  floats(5),  floats(6),  memory + places_[7]};
  const float& time = sequence.x[sizes_.features - 1];
  const float before = time;
  inputs(sequence, now, gap, measured);
  layer_.run(state, sequence.x, nullptr, &now, 1, sequence.read);
  outputs(sequence, summaries(sequence, std::exp(-rate_ * (time - before)), steps), steps, out);
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

std::vector<float> OnlineModel::summaries(const OnlineSequence& sequence, float kept, int64_t steps) const {
  const int64_t variables = sizes_.variables, features = sizes_.features;
  const float* x = sequence.x;
  std::vector<float> columns(sizes_.columns());
  float *last = columns.data(), *mean = last + features, *highest = mean + features;
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
  std::copy_n(x + features, sizes_.statics, change + variables);
  float *state = sequence.read, *greatest = state + sizes_.units;
  for (int64_t n = 0; n < sizes_.units; n++) greatest[n] = std::max(greatest[n], state[n]);
  return columns;
}

std::vector<float> OnlineModel::ranks(const std::vector<float>& columns) const {
  std::vector<float> found(sizes_.paired);
  for (int64_t i = 0; i < sizes_.paired; i++) {
    const int64_t at = chosen_[i];
    float sum = 0;
    for (int64_t p = at; p < start_.size(); p += sizes_.columns()) sum += piece_of(columns[at], start_[p], slope_[p]);
    found[i] = (sum - center_[i]) * factor_[i];
  }
  return found;
}

void OnlineModel::outputs(const OnlineSequence& sequence, const std::vector<float>& columns, int64_t steps, double* out) const {
  const int64_t count = sizes_.columns(), width = 2 * sizes_.units, paired = sizes_.paired;
  const std::vector<float> own = ranks(columns);
  for (int64_t o = 0; o < sizes_.outputs; o++) {
    // The mean of a product is the product of the mean: the products of mean states are summed over all events.
    sequence.sums[o] += dot(read_states_.get() + (sizes_.outputs + o) * width, sequence.read, width);
    double sum = bias_[o] + sequence.sums[o] / static_cast<double>(steps);
    sum += dot(read_states_.get() + o * width, sequence.read, width);
    for (int64_t p = 0; p < sizes_.pieces; p++) {
      const float* weight = read_pieces_.get() + (o * sizes_.pieces + p) * count;
      sum += piece(weight, columns.data(), start_.get() + p * count, slope_.get() + p * count, count);
    }
    for (int64_t i = 0; i < paired; i++) sum += own[i] * dot(read_pairs_.get() + (o * paired + i) * paired, own.data(), paired);
    out[o] = sum;
  }
}

}  // namespace phased
