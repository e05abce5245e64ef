// The kernels of sums.cu, sorted_sums.cu and unit_sums.cu, and what adds up their sums, against plain loops. Arguments: units, sequences,
// steps, features, splits of the rows, warps of a block.
#define SHARED
#include "sums.cu"
#include "sorted_sums.cu"
#include "unit_sums.cu"
#include "weights.cu"

using namespace phased;
using Numbers = std::vector<Real>;

static void expect_all(const Numbers& found, const std::vector<double>& expected, const char* what, double error) {
  for (size_t i = 0; i < expected.size(); i++) expect(found[i], expected[i], what, error);
}

int main(int, char** arguments) {
  const int units = std::atoi(arguments[1]), batch = std::atoi(arguments[2]), steps = std::atoi(arguments[3]),
            features = std::atoi(arguments[4]), splits = std::atoi(arguments[5]), warps = std::atoi(arguments[6]);
  const int rows = batch * steps, words = (units + 31) / 32, columns = units + features + 1;
  constexpr int kGates = Cell::has_c ? 4 : 3;
  constexpr double kError = sizeof(Real) == 4 ? 1e-4 : 1e-11;

  std::vector<double> gates(PHASED_GATE * units), time(rows);
  for (int unit = 0; unit < units; unit++) {
    const double tau = uniform(2, 30), shift = uniform(-10, 40), offset = rest_of(shift, tau);
    Gate{tau, shift, uniform(0.3, 1), offset, 1 / tau, offset / tau}.store(gates.data(), units, unit);
  }
  for (int row = 0; row < rows; row++) time[row] = row % steps * 1.3 + row / steps;  // (batch, steps)

  // Events: none in padding, whose input is NaN; some rows with all units, and runs of rows.
  std::vector<Index> lengths(batch), start{0};
  std::vector<unsigned> mask(rows * words, 0);
  std::vector<int> unit_of, row_of;
  Numbers x = drawn<Real>(size_t(rows) * features + 1);  // (batch, steps, features)
  for (int b = 0; b < batch; b++) {
    lengths[b] = b % 3 == 1 ? Index(generator() % (steps + 1)) : steps;
    for (int j = 0; j < steps; j++) {
      const int row = b * steps + j;
      for (int unit = 0; unit < units; unit++) {
        const bool open = j < lengths[b] && (j % 41 == 7 || (generator() % 100 < 6) || (j / 8 + unit) % 23 == 0);
        if (!open) continue;
        mask[row * words + unit / 32] |= 1u << unit % 32;
        unit_of.push_back(unit), row_of.push_back(row);
      }
      start.push_back(Index(unit_of.size()));
      for (int d = 0; j >= lengths[b] && d < features; d++) x[size_t(row) * features + d] = NAN;
    }
  }
  const Index events = start[rows];
  const Numbers to_products = drawn<Real>(4 * events + 4), initial = drawn<Real>(size_t(batch) * units + 1), zeros(units + 1, 0);
  const Numbers output = drawn<Real>(size_t(rows) * units + 1);

  for (int kind = 0; kind < 16; kind++) {
    const bool wide = kind & 1, peephole = kind & 2;
    const bool sorts = kind & 8;
    late = kind & 4;
    const int ring = !sorts ? 2 + (kind % 3 != 0) : kind % 3 ? int(events) + 1 : 37 + int(events) / 6;  // all events at once, or some
    const int pitch = (PHASED_SUM_COLUMNS + wide) * 32, others = peephole ? 4 : 1, odd = peephole;  // an initial state that is not aligned
    const Real* const first_h = wide ? initial.data() + odd : zeros.data();
    const Index initial_batch = wide ? units : 0;
    const unsigned groups = sorts ? 1 : (units + warps * kOwn - 1) / (warps * kOwn);
    const int of_blocks = 3, gate_blocks = sorts ? splits : of_blocks;
    Numbers sums(size_t(splits) * units * 4 * columns, NAN);
    Summing p{};
    p.to_products = to_products.data(), p.unit = unit_of.data(), p.row = row_of.data(), p.mask = mask.data(), p.start = start.data(), p.output = output.data();
    p.initial_h = first_h, p.initial_batch = initial_batch, p.x = x.data(), p.x_step = features, p.x_batch = Index(steps) * features;
    p.features = features, p.batch = batch, p.steps = steps, p.units = units, p.ring = ring, p.sums = sums.data();
    const Numbers to_others = drawn<Real>(others * events + 1);
    std::vector<double> partial(size_t(gate_blocks) * kGateSums * units, NAN);
    const GateSumming gating{to_others.data(), time.data(), steps, 1, gates.data(), !wide, peephole, partial.data()};
    const unsigned of_columns = (columns + pitch - 1) / pitch;
    const size_t of_tile = 32 * pitch * sizeof(Real) + warps * kOwn * 32 * sizeof(Four) + 33 * 8 + 32 * words * 4;
    const size_t bytes = sorts ? warps * 32 * 24 + 2 * ring + 4 * (units + 2) + 2 * warps * units : ring * of_tile;
    const Index found[2] = {0, events};
    p.found = found, p.least = events + 1, p.below = events + 2;  // another kernel's batch
    const auto work = [&] {
      if (sorts) wide ? wide_sorted_sums(p, gating) : sorted_sums(p, gating);
      else wide ? wide_event_sums(p) : event_sums(p);
    };
    run_grid({groups, of_columns, unsigned(splits)}, warps * 32, work, shared, sizeof(shared));
    for (const Real sum : sums) wrong += !std::isnan(sum);
    p.least = events;
    run_grid(
        {groups, of_columns, unsigned(splits)}, warps * 32,
        work, shared, sizeof(shared));
    if (bytes > sizeof(shared)) wrong++;
    for (size_t i = bytes; i < sizeof(shared); i++) wrong += shared[i] != 0xff;  // beyond what the host side allocates

    if (!sorts) {
      run_grid(
          {unsigned(of_blocks), 1, 1}, 2 * 32,
          [&] { gate_sums(gating, start.data(), unit_of.data(), row_of.data(), batch, steps, units, found, events, events + 1); },
          shared, sizeof(shared));
    }

    Numbers ih(size_t(kGates) * units * features + 1, NAN), hh(size_t(kGates) * units * units, NAN), bias_ih(kGates * units, NAN),
        bias_hh(kGates * units, NAN), of_peephole(3 * units, NAN);
    std::vector<double> period(units, NAN), shift(units, NAN), ratio(units, NAN);
    const Unpacking unpacking{units,         features,     ih.data(),    hh.data(),    bias_ih.data(), bias_hh.data(), gates.data(),
                              period.data(), shift.data(), ratio.data(), peephole ? of_peephole.data() : nullptr};
    run_grid({3, 1, 1}, 64, [&] { unpack(sums.data(), splits, partial.data(), gate_blocks, unpacking, nullptr, 0, 0); });

    std::vector<double> want(size_t(units) * 4 * columns, 0), of_gates(kGateSums * units, 0);
    for (Index e = 0; e < events; e++) {
      const int unit = unit_of[e], row = row_of[e], b = row / steps, j = row % steps;
      const Real* const h = j ? output.data() + (size_t(j - 1) * batch + b) * units : first_h + b * initial_batch;
      for (int column = 0; column < columns; column++) {
        const double z = column < units ? h[column] : column < columns - 1 ? x[size_t(row) * features + column - units] : 1;
        for (int g = 0; g < 4; g++) want[(unit * 4 + g) * columns + column] += to_products[4 * e + g] * z;
      }
      const Gate gate = Gate::load(gates.data(), units, unit);
      const double phi = phase(time[row], gate.period, gate.offset), k = openness(phi, gate.ratio_on, 0.0, !wide);
      const double to_k = to_others[others * e], to_phase = to_k * slope_to_phase(phi, gate.ratio_on, 0.0, !wide);
      of_gates[unit] += to_phase * (time[row] - gate.shift), of_gates[units + unit] += to_phase;
      of_gates[2 * units + unit] += to_k * slope_to_ratio(phi, k, gate.ratio_on, !wide);
      for (int i = 0; peephole && i < 3; i++) of_gates[(3 + i) * units + unit] += to_others[4 * e + 1 + i];
    }
    // A warp for each unit, whose events are sorted before.
    std::vector<Index> by_unit(events), first_of(units + 1, 0);
    std::iota(by_unit.begin(), by_unit.end(), Index(0));
    std::stable_sort(by_unit.begin(), by_unit.end(), [&](Index a, Index b) { return unit_of[a] < unit_of[b]; });
    for (const int unit : unit_of) first_of[unit + 1]++;
    std::partial_sum(first_of.begin(), first_of.end(), first_of.begin());
    Numbers of_units(want.size(), NAN);
    p.sums = of_units.data();
    const auto of_unit = [&] {
      wide ? wide_unit_sums(p, by_unit.data(), first_of.data()) : unit_sums(p, by_unit.data(), first_of.data());
    };
    const unsigned blocks = (units + kUnitWarps - 1) / kUnitWarps;
    if (!sorts) {
      run_grid({blocks, of_columns, 1}, kUnitWarps * 32, of_unit, shared, sizeof(shared));
      expect_all(of_units, want, "sums of a unit", kError);
    }
    for (int unit = 0; unit < units; unit++) {
      for (int g = 0; g < 4; g++) {
        const double* const own = &want[(unit * 4 + g) * columns];
        const Index from_x = gate_row(g, true, unit, units), from_h = gate_row(g, false, unit, units);
        for (int c = 0; from_h >= 0 && c < units; c++) expect(hh[from_h * units + c], own[c], "gradient to hh", kError);
        for (int d = 0; from_x >= 0 && d < features; d++)
          expect(ih[from_x * features + d], own[units + d], "gradient to ih", kError);
        if (from_x >= 0) expect(bias_ih[from_x], own[columns - 1], "gradient to bias_ih", kError);
        if (from_h >= 0) expect(bias_hh[from_h], own[columns - 1], "gradient to bias_hh", kError);
      }
      const Gate gate = Gate::load(gates.data(), units, unit);
      const double slope = -2 / (gate.ratio_on * gate.period);
      expect(period[unit], of_gates[unit] * slope / gate.period, "gradient to period", 1e-10);
      expect(shift[unit], of_gates[units + unit] * slope, "gradient to shift", 1e-10);
      expect(ratio[unit], of_gates[2 * units + unit] / gate.ratio_on, "gradient to ratio_on", 1e-10);
      for (int i = 0; peephole && i < 3; i++)
        expect(of_peephole[i * units + unit], of_gates[(3 + i) * units + unit], "gradient to a peephole", kError);
    }

    if (sorts) continue;
    // The gates' sums where all units have events.
    const Numbers dense_others = drawn<Real>(size_t(others) * rows * units);
    std::vector<double> dense(size_t(of_blocks) * kGateSums * units, NAN), dense_want(kGateSums * units, 0);
    run_grid({unsigned(of_blocks), 1, 1}, 64, [&] {
      dense_gate_sums(dense_others.data(), time.data(), steps, 1, wide ? lengths.data() : nullptr, gates.data(), batch, steps, units,
                      0.01, 0, peephole, dense.data());
    });
    for (int row = 0; row < rows; row++)
      for (int unit = 0; unit < units; unit++) {
        if (wide && row % steps >= lengths[row / steps]) continue;
        const size_t e = size_t(row) * units + unit;
        const Gate gate = Gate::load(gates.data(), units, unit);
        const double phi = phase(time[row], gate.period, gate.offset), k = openness(phi, gate.ratio_on, 0.01, false);
        const double to_k = dense_others[others * e], to_phase = to_k * slope_to_phase(phi, gate.ratio_on, 0.01, false);
        dense_want[unit] += to_phase * (time[row] - gate.shift), dense_want[units + unit] += to_phase;
        dense_want[2 * units + unit] += to_k * slope_to_ratio(phi, k, gate.ratio_on, false);
        for (int i = 0; peephole && i < 3; i++) dense_want[(3 + i) * units + unit] += dense_others[4 * e + 1 + i];
      }
    for (int i = 0; i < kGateSums * units; i++) {
      double sum = 0;
      for (int block = 0; block < of_blocks; block++) sum += dense[size_t(block) * kGateSums * units + i];
      expect(sum, dense_want[i], "dense sums of gates", 1e-10);
    }
  }

  // Gradient to the input, through weights (units, features, 4).
  const Numbers wx = drawn<Real>(size_t(units) * features * 4 + 4);
  Numbers to_input(size_t(rows) * features + 1, NAN);
  run_grid({3, 1, 1}, 64, [&] {
    input_gradient(to_products.data(), start.data(), unit_of.data(), wx.data(), batch, steps, units, features, to_input.data());
  });
  std::vector<double> want(size_t(rows) * features, 0);
  for (Index e = 0; e < events; e++)
    for (int d = 0; d < features; d++)
      for (int g = 0; g < 4; g++) {
        const int row = row_of[e];
        want[(size_t(row % steps) * batch + row / steps) * features + d] +=
            double(to_products[4 * e + g]) * wx[(size_t(unit_of[e]) * features + d) * 4 + g];
      }
  expect_all(to_input, want, "gradient to the input", kError);
  expect(to_input[size_t(rows) * features], NAN, "beyond the input's gradient");

  // With all units' events in every row: the input of every unit, zeros in padding, and the gradient to the input.
  for (const bool whole : {false, true}) {  // without an initial state and lengths, or with both
    Numbers inputs(size_t(rows) * columns + 1, NAN), shares = drawn<Real>(size_t(rows) * units * 4 + 4);
    const Numbers given = shares;
    run_grid({3, 1, 1}, 64, [&] {
      dense_rows(output.data(), whole ? initial.data() : nullptr, x.data(), features, Index(steps) * features, features,
                 whole ? lengths.data() : nullptr, batch, steps, units, inputs.data(), shares.data());
    });
    for (int row = 0; row < rows; row++) {
      const int b = row / steps, j = row % steps;
      const bool padding = whole && j >= lengths[b];
      for (int column = 0; column < columns; column++) {
        Real value = column == columns - 1 ? Real(1) : Real(0);
        if (column < units && j) value = output[(size_t(j - 1) * batch + b) * units + column];
        if (column < units && !j && whole) value = initial[size_t(b) * units + column];
        if (column >= units && column < columns - 1) value = x[size_t(row) * features + column - units];
        expect(inputs[size_t(row) * columns + column], padding ? 0 : value, "input of every unit");
      }
      for (int i = 0; i < 4 * units; i++) {
        const size_t at = size_t(row) * 4 * units + i;
        expect(shares[at], padding ? 0 : given[at], "gradients in padding");
      }
    }
    expect(inputs[size_t(rows) * columns], NAN, "beyond the input of every unit");
    std::fill(to_input.begin(), to_input.end(), NAN);
    run_grid({3, 1, 1}, 64, [&] {
      input_gradient(shares.data(), nullptr, nullptr, wx.data(), batch, steps, units, features, to_input.data());
    });
    std::fill(want.begin(), want.end(), 0);
    for (int row = 0; row < rows; row++)
      for (int unit = 0; unit < units; unit++)
        for (int d = 0; d < features; d++)
          for (int g = 0; g < 4; g++)
            want[(size_t(row % steps) * batch + row / steps) * features + d] +=
                double(shares[(size_t(row) * units + unit) * 4 + g]) * wx[(size_t(unit) * features + d) * 4 + g];
    expect_all(to_input, want, "gradient to the input of all units", kError);
  }
  std::printf("%d wrong\n", wrong);
  return wrong ? 1 : 0;
}
