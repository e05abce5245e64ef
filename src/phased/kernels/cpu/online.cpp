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

// Returns a piece of a summary: 0 below the start, 1 above the end, and linear in between. NaN stays NaN.
inline float piece_of(float summary, float start, float slope) {
  const float cut = (summary - start) * slope;
  return cut < 0 ? 0.0f : cut > 1 ? 1.0f : cut;
}

// Returns the sum over all columns of weight times piece.
float piece(const float* weight, const float* columns, const float* start, const float* slope, int64_t count) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) sum += weight[i] * piece_of(columns[i], start[i], slope[i]);
  return sum;
}

}  // namespace

void Dense::operator()(const float* read, int64_t count, float* to) const {
  for (int64_t n = 0; n < bias.size(); n++) to[n] = std::max(dot(weight.get() + n * count, read, count) + bias[n], 0.0f);
}

bool OnlineModel::take(uint8_t* memory, StackState<float>& state, double time, const std::vector<Measured>& measured,
                       double* out) const {
  const auto doubles = [&](int part) { return reinterpret_cast<double*>(memory + places[part]); };
  const auto floats = [&](int part) { return reinterpret_cast<float*>(memory + places[part]); };
  const OnlineSequence sequence{
      doubles(0), {doubles(1), doubles(2), doubles(3), doubles(4)}, doubles(5), doubles(6), floats(7), floats(8), floats(9), floats(10),
      reinterpret_cast<int16_t*>(memory + places[12]), reinterpret_cast<int32_t*>(memory + places[11])};
  double* clock = sequence.clock;
  const bool begun = clock[2] > 0;
  const double now = begun ? (time - clock[0]) / gap : 0, after = begun ? now - (clock[1] - clock[0]) / gap : 0;
  if (!(std::fabs(time) <= latest) || (begun && time < clock[1]) || now > reach) return false;
  const std::vector<uint8_t> known(memory, memory + places.back());
  StackState<float> before(state);

  if (!begun) clock[0] = time;
  clock[1] = time, clock[2] += 1;
  const int64_t steps = static_cast<int64_t>(clock[2]), since = sizes.features() - 1;
  const float last = sequence.x[since];
  for (const Measured& each : measured)
    if (sequence.inputs.count[each.variable] == 0) sequence.first[each.variable] = each.value;
  inputs.step(sequence.x, sequence.inputs, now, after, measured.data(), static_cast<int64_t>(measured.size()),
              [](float x) { return std::log1p(x); });
  const std::vector<float> columns = summaries(sequence, std::exp(-rate * (sequence.x[since] - last)), steps);
  std::copy_n(bias.get(), sizes.outputs, out);
  if (shares) {
    shares->step(sequence.x, sequence.ring, sequence.counts, steps - 1);
    shares->read(sequence.counts, steps, read_shares.get(), sizes.outputs, out);
  }
  read_summaries(columns, out);
  if (recurrent) read_network(state, sequence, columns, now, steps, out);
  if (!std::isfinite(std::accumulate(out, out + sizes.outputs, 0.0))) {
    std::copy(known.begin(), known.end(), memory);
    state = std::move(before);
  }
  return true;
}

std::vector<float> OnlineModel::summaries(const OnlineSequence& sequence, float kept, int64_t steps) const {
  const int64_t variables = sizes.variables, features = sizes.features();
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
  std::copy_n(x + sizes.width(), sizes.statics, change + variables);
  return columns;
}

std::vector<float> OnlineModel::encoded(const OnlineSequence& sequence, const std::vector<float>& columns) const {
  std::vector<float> found(sizes.units);
  if (!sizes.every_step) {
    encoder(sequence.x, sizes.read(), found.data());
    return found;
  }
  std::vector<float> read(sizes.read());
  for (int64_t i = 0; i < sizes.columns(); i++) read[i] = piece_of(columns[i], start[i], slope[i]);
  std::copy_n(sequence.x + sizes.features(), 4 * sizes.numbers, read.data() + sizes.columns());
  encoder(read.data(), sizes.read(), found.data());
  return found;
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

void OnlineModel::read_network(StackState<float>& state, const OnlineSequence& sequence, const std::vector<float>& columns,
                               double now, int64_t steps, double* out) const {
  const int64_t units = sizes.units;
  const std::vector<float> input = encoded(sequence, columns);
  float *last = sequence.read, *greatest = last + units;
  layer.run(state, input.data(), nullptr, &now, 1, last);
  std::vector<float> states(sizes.states()), made(units);
  for (int64_t n = 0; n < units; n++) {
    greatest[n] = std::max(greatest[n], last[n]);
    sequence.sums[n] += last[n];
    states[units + n] = static_cast<float>(sequence.sums[n] / static_cast<double>(steps));
  }
  std::copy_n(last, units, states.data());
  std::copy_n(greatest, units, states.data() + 2 * units);
  if (sizes.every_step) std::copy(input.begin(), input.end(), states.data() + 3 * units);
  hidden(states.data(), sizes.states(), made.data());
  for (int64_t o = 0; o < sizes.outputs; o++) out[o] += dot(read_states.get() + o * units, made.data(), units);
}

void OnlineModel::read_summaries(const std::vector<float>& columns, double* out) const {
  const int64_t count = sizes.columns(), paired = sizes.paired;
  const std::vector<float> own = ranks(columns);
  for (int64_t o = 0; o < sizes.outputs; o++) {
    for (int64_t p = 0; p < sizes.pieces; p++) {
      const float* weight = read_pieces.get() + (o * sizes.pieces + p) * count;
      out[o] += piece(weight, columns.data(), start.get() + p * count, slope.get() + p * count, count);
    }
    for (int64_t i = 0; i < paired; i++) out[o] += own[i] * dot(read_pairs.get() + (o * paired + i) * paired, own.data(), paired);
  }
}

}  // namespace phased
