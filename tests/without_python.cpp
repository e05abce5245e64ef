// The core without Python: reads a problem from standard input and writes what the core computes from it to standard output.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "batch.h"

using namespace phased;

template <class T>
std::vector<T> read(int64_t count) {
  std::vector<T> values(count);
  if (std::fread(values.data(), sizeof(T), count, stdin) != size_t(count)) std::exit(2);
  return values;
}

template <class T>
void write(const std::vector<T>& values) {
  std::fwrite(values.data(), sizeof(T), values.size(), stdout);
}

template <class T>
int run(const Engine<T>& engine) {
  const auto n = read<int64_t>(7);  // cell, shape, batch, steps, features, units, threads
  const CellNumbers& cell = numbers_of(int(n[0]));
  const int64_t batch = n[2], steps = n[3], features = n[4], units = n[5], states = cell.has_c ? 2 : 1;
  const int64_t stacked = cell.rows * units;
  const double leak = read<double>(1)[0];
  const auto input = read<T>(batch * steps * features);  // (batch, steps, features)
  const auto time = read<double>(batch * steps);
  const auto lengths = read<int64_t>(batch);
  auto h = read<T>(batch * units), c = read<T>((states - 1) * batch * units);
  auto ih = read<T>(stacked * features), hh = read<T>(stacked * units), bias_ih = read<T>(stacked), bias_hh = read<T>(stacked);
  const auto period = read<double>(units), shift = read<double>(units), ratio_on = read<double>(units);
  const auto to_output = read<T>(steps * batch * units);
  const Problem<T> p{int(n[0]), int(n[1]), leak, batch, steps, features, units, input.data(), steps * features, features,
                     time.data(), lengths.data(), h.data(), states > 1 ? c.data() : nullptr, {ih.data(), hh.data(), bias_ih.data(), bias_hh.data()},
                     nullptr, n[6], Gates(period.data(), shift.data(), ratio_on.data(), units, {1e-12, 1e300, 1e-6})};
  std::vector<T> output(steps * batch * units), last_h(batch * units), last_c(c.size()), zeros(batch * units);
  std::vector<T> to_input(steps * batch * features), to_h(batch * units), to_c(c.size()), to_ih(ih.size()), to_hh(hh.size());
  std::vector<T> to_bias_ih(stacked), to_bias_hh(stacked), to_products(steps * batch * 4 * units);
  std::vector<double> to_gate(3 * units);
  const Output<T> results{output.data(), last_h.data(), last_c.data()};
  const Given<T> given{to_output.data(), units, batch * units, zeros.data(), zeros.data()};
  const Gradients<T> gradients{to_input.data(), to_h.data(), to_c.data(),
                               {to_ih.data(), to_hh.data(), to_bias_ih.data(), to_bias_hh.data()}, nullptr, to_gate.data()};
  if (leak > 0) {
    std::vector<T> tape(batch * steps * p.kept() * whole_units(units));
    forward_dense(engine, p, results, tape.data());
    backward_dense(engine, p, output.data(), tape.data(), given, to_products.data(), gradients);
  } else {
    const auto schedule = make_schedule(engine, p);
    std::vector<int64_t> start(batch * (steps + 1));
    std::vector<int32_t> unit(schedule.slots);
    std::vector<T> k(schedule.slots), tape(p.kept() * schedule.slots);
    std::vector<uint8_t> side(schedule.slots);
    const Saved<T> saved{start.data(), unit.data(), k.data(), side.data(), tape.data(), schedule.slots};
    forward(engine, p, schedule, results, saved);
    backward(engine, p, saved, output.data(), given, gradients);
  }
  write(output), write(last_h), write(to_h), write(to_gate), write(to_products), write(to_ih), write(to_hh), write(to_bias_ih);
  return 0;
}

int main() {
  return read<int64_t>(1)[0] == 8 ? run<double>(engines_baseline().twice) : run<float>(engines_baseline().single);
}
