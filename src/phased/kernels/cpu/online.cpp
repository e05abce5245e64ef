#include "online.h"

#include "recent.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

bool OnlineModel::take(uint8_t* memory, StackState<float>& state, double time, const std::vector<Measured>& measured,
                       double* out) const {
  const auto doubles = [&](int part) { return reinterpret_cast<double*>(memory + places[part]); };
  const auto floats = [&](int part) { return reinterpret_cast<float*>(memory + places[part]); };
  const OnlineSequence sequence{doubles(0), doubles(1), doubles(2), doubles(3),        floats(4),
                                floats(5),  floats(6),  floats(7),  memory + places[8]};
  double* clock = sequence.clock;
  const bool begun = clock[2] > 0;
  const double now = begun ? (time - clock[0]) / gap : 0, after = begun ? now - state.last : 0;
  if (!(std::fabs(time) <= latest) || (begun && time < clock[1]) || now > reach) return false;
  const std::vector<uint8_t> known(memory, memory + places[9]);
  StackState<float> before(state);

  if (!begun) clock[0] = time;
  clock[1] = time, clock[2] += 1;
  const float last = sequence.x[sizes.features - 1];
  inputs(sequence, now, after, measured);
  const float kept = std::exp(-rate * (sequence.x[sizes.features - 1] - last));
  layer.run(state, sequence.x, nullptr, &now, 1, sequence.read);
  const int64_t steps = static_cast<int64_t>(clock[2]);
  outputs(sequence, summaries(sequence, kept, steps), steps, out);
  if (!std::isfinite(std::accumulate(out, out + sizes.outputs, 0.0))) {
    std::copy(known.begin(), known.end(), memory);
    state = std::move(before);
  }
  return true;
}

// Last-known values, which of them are new, and their ages; then the gap, and the time since the first event.
void OnlineModel::inputs(const OnlineSequence& sequence, double now, double after, const std::vector<Measured>& measured) const {
  const int64_t variables = sizes.variables;
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
  age[variables] = static_cast<float>(std::log1p(after));
  age[variables + 1] = static_cast<float>(now / span);
}

std::vector<float> OnlineModel::summaries(const OnlineSequence& sequence, float kept, int64_t steps) const {
  const int64_t variables = sizes.variables, features = sizes.features;
  const float* x = sequence.x;
  std::vector<float> columns(sizes.columns());
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
  std::copy_n(x + features, sizes.statics, change + variables);
  float *state = sequence.read, *greatest = state + sizes.units;
  for (int64_t n = 0; n < sizes.units; n++) greatest[n] = std::max(greatest[n], state[n]);
  return columns;
}

std::vector<float> OnlineModel::ranks(const std::vector<float>& columns) const {
  std::vector<float> found(sizes.paired);
  for (int64_t i = 0; i < sizes.paired; i++) {
    const int64_t at = chosen[i];
    float sum = 0;
    for (int64_t p = at; p < start.size(); p += sizes.columns()) sum += piece_of(columns[at], start[p], slope[p]);
    found[i] = (sum - center[i]) * factor[i];
  }
  return found;
}

void OnlineModel::outputs(const OnlineSequence& sequence, const std::vector<float>& columns, int64_t steps, double* out) const {
  const int64_t count = sizes.columns(), width = 2 * sizes.units, paired = sizes.paired;
  const std::vector<float> own = ranks(columns);
  for (int64_t o = 0; o < sizes.outputs; o++) {
    // The mean of a product is the product of the mean: the products of mean states are summed over all events.
    sequence.sums[o] += dot(read_states.get() + (sizes.outputs + o) * width, sequence.read, width);
    double sum = bias[o] + sequence.sums[o] / static_cast<double>(steps);
    sum += dot(read_states.get() + o * width, sequence.read, width);
    for (int64_t p = 0; p < sizes.pieces; p++) {
      const float* weight = read_pieces.get() + (o * sizes.pieces + p) * count;
      sum += piece(weight, columns.data(), start.get() + p * count, slope.get() + p * count, count);
    }
    for (int64_t i = 0; i < paired; i++) sum += own[i] * dot(read_pairs.get() + (o * paired + i) * paired, own.data(), paired);
    out[o] = sum;
  }
}

}  // namespace phased
