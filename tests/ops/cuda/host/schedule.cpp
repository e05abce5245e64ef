// The kernels of schedule.cu against plain loops. Arguments: units, sequences, steps, features, where times begin.
#define SHARED static
#include "schedule.cu"

using namespace phased;
using Numbers = std::vector<Real>;

struct Expected {
  int unit, row;
  double k;
};

int main(int, char** arguments) {
  const int units = std::atoi(arguments[1]), batch = std::atoi(arguments[2]), steps = std::atoi(arguments[3]),
            features = std::atoi(arguments[4]);
  const double begin = std::atof(arguments[5]);
  const int rows = batch * steps, words = (units + 31) / 32, pitch = (units + 3) / 4 * 4, blocks = (rows + kStretch - 1) / kStretch;
  constexpr int kGates = Cell::has_c ? 4 : 3;
  constexpr double kError = sizeof(Real) == 4 ? 1e-5 : 1e-12;

  // Gates of all kinds; times with a step of their own for every sequence, by sequence (batch, steps) or by step.
  std::vector<double> period(units), shift(units), ratio(units), time(rows);
  for (int unit = 0; unit < units; unit++) {
    period[unit] = std::exp(uniform(0.7, 4)), shift[unit] = uniform(-1, 2) * period[unit], ratio[unit] = uniform(0.01, 0.3);
    if (unit % 5 == 1) period[unit] = 4 << unit % 3, shift[unit] = unit % 4, ratio[unit] = 0.25;  // edges meet whole numbers
    if (unit % 7 == 2) shift[unit] = period[unit] * 1e12;
    if (unit % 11 == 3) ratio[unit] = 1;
    if (unit % 11 == 4) ratio[unit] = 1e-6;
    if (unit % 13 == 5) period[unit] = 1e-3;
    if (unit % 29 == 6) period[unit] = NAN;
    if (unit % 29 == 7) ratio[unit] = NAN;
    if (unit % 29 == 8) shift[unit] = INFINITY;
  }
  const bool by_step = rows % 2;
  const int time_batch = by_step ? 1 : steps, time_step = by_step ? batch : 1;
  for (int b = 0; b < batch; b++) {
    double t = begin * (b % 3);
    for (int j = 0; j < steps; j++) {
      t += b % 2 ? 1 : uniform(0, 3);
      time[b * time_batch + j * time_step] = j % 97 == 50 ? NAN : j % 89 == 60 ? INFINITY : t;
    }
  }
  std::vector<Index> lengths(batch);
  for (int b = 0; b < batch; b++) lengths[b] = b ? Index(generator() % (steps + 1)) : steps;

  const Numbers ih = drawn<Real>(size_t(kGates) * units * features), hh = drawn<Real>(size_t(kGates) * units * units),
                bias_ih = drawn<Real>(kGates * units), bias_hh = drawn<Real>(kGates * units);
  Numbers wh(units * 4 * pitch, NAN), wx(units * 4 * features + 4, NAN), bias(units * 4, NAN), zeros(units, NAN);
  std::vector<double> gates(PHASED_GATE * units, NAN);
  Packing packing{};
  packing.ih = ih.data(), packing.hh = hh.data(), packing.bias_ih = bias_ih.data(), packing.bias_hh = bias_hh.data();
  packing.period = period.data(), packing.shift = shift.data(), packing.ratio_on = ratio.data();
  packing.shortest = 1e-6, packing.longest = 1e9, packing.smallest = 1e-6;
  packing.units = units, packing.features = features, packing.pitch = pitch;
  packing.wh = wh.data(), packing.wx = wx.data(), packing.bias = bias.data(), packing.zeros = zeros.data();
  packing.gates = gates.data();

  for (const bool ragged : {false, true}) {
    std::vector<unsigned> mask(rows * words + 1, 0xdeadbeef);
    std::vector<Index> start(rows + 2, -1);
    std::vector<Index> memory(2 + blocks + 1, -1);
    Found* const found = reinterpret_cast<Found*>(memory.data());
    const Index* const given = ragged ? lengths.data() : nullptr;
    run_grid({unsigned(blocks + 2), 1, 1}, ragged ? 64 : 128, [&] {
      find_open(packing, time.data(), time_batch, time_step, given, batch, steps, mask.data(), start.data(), found);
    });

    for (int unit = 0; unit < units; unit++)
      for (int g = 0; g < 4; g++) {
        const Index from_x = gate_row(g, true, unit, units), from_h = gate_row(g, false, unit, units);
        for (int d = 0; d < features; d++)
          expect(wx[(unit * features + d) * 4 + g], from_x < 0 ? 0 : ih[from_x * features + d], "weight on x");
        for (int c = 0; c < pitch; c++)
          expect(wh[(unit * 4 + g) * pitch + c], from_h < 0 || c >= units ? 0 : hh[from_h * units + c], "weight on h");
      }

    std::vector<Expected> events;
    std::vector<Index> starts{0};
    Index most = 0;
    for (int row = 0; row < rows; row++) {
      const int b = row / steps, j = row % steps;
      for (int unit = 0; unit < 32 * words; unit++) {
        bool open = false;
        if (unit < units && (!ragged || j < lengths[b])) {
          const Gate gate = packing.gate(unit);
          const double t = time[b * time_batch + j * time_step], phi = phase(t, gate.period, gate.offset);
          open = !(phi >= gate.ratio_on);
          if (open) events.push_back({unit, row, openness(phi, gate.ratio_on, 0.0, false)});
        }
        expect(mask[row * words + unit / 32] >> unit % 32 & 1, open, "bit");
      }
      starts.push_back(Index(events.size()));
      most = std::max(most, starts[row + 1] - starts[row]);
      expect(double(start[row + 1]), double(starts[row + 1] - starts[row / kStretch * kStretch]), "start in its block");
    }
    expect(double(start[0]), 0, "first start"), expect(double(start[rows + 1]), -1, "beyond the starts");
    expect(mask[rows * words], 0xdeadbeef, "beyond the mask");

    Numbers x = drawn<Real>(size_t(rows) * features + 1);
    const Numbers products = drawn<Real>(size_t(rows) * units * 4);
    for (int kind = 0; kind < 4; kind++) {  // added up before or not; products given or not; capacity for all or not
      const bool added = kind & 1, multiplied = kind & 2, fits = kind != 2;
      std::vector<Index> own_start = start, own_memory = memory, slot(2, 0);
      Found* const own = reinterpret_cast<Found*>(own_memory.data());
      const Slot report{slot.data(), Index(1) << 50};
      if (added) {
        run_grid({1, 1, 1}, 64, [&] { add_up(own, blocks, report); });
        for (int block = 0; block < blocks; block++)
          expect(double(own->blocks()[block].before), double(starts[block * kStretch]), "prefix sum");
      }
      std::vector<Arrival> arrivals(events.size() + 1);
      std::memset(static_cast<void*>(arrivals.data()), 0xff, arrivals.size() * sizeof(Arrival));
      std::vector<int> unit_of(events.size() + 1, -1), row_of(events.size() + 1, -1);
      const Index room = Index(events.size()) - !fits;
      const int lanes = features < 2 ? 1 : added ? 8 : 4;
      const auto fill_up_to = [&](Index capacity) {
        run_grid({unsigned(blocks), 1, 1}, 128, [&] {
          fill(time.data(), time_batch, time_step, gates.data(), batch, steps, units, 0.0, 0, mask.data(), own_start.data(), own,
               x.data(), batch * features, features, features, wx.data(), bias.data(), multiplied ? products.data() : nullptr, lanes,
               unit_of.data(), row_of.data(), room, arrivals.data(), capacity, added, report);
        });
      };
      const auto start_before = own_start;
      if (!events.empty()) fill_up_to(Index(events.size()) - 1);  // too few: nothing but the numbers is written
      for (const Arrival& each : arrivals) expect(each.head.unit, -1, "an event beyond the capacity");
      for (const int unit : unit_of) expect(unit, -1, "a unit beyond the capacity");
      wrong += own_start != start_before;
      fill_up_to(Index(events.size()));
      for (int row = 0; row <= rows; row++) expect(double(own_start[row]), double(starts[row]), "start");
      expect(double(own->most), double(most), "most"), expect(double(own->all), double(events.size()), "all");
      expect(double(slot[0] - report.mark), double(most), "reported most");
      expect(double(slot[1] - report.mark), double(events.size()), "reported all");
      for (size_t e = 0; e < events.size(); e++) {
        const int unit = events[e].unit, row = events[e].row, b = row / steps, j = row % steps;
        expect(arrivals[e].head.unit, unit, "unit"), expect(arrivals[e].head.row, row, "row");
        expect(arrivals[e].head.k, Real(events[e].k), "openness");
        expect(unit_of[e], fits ? unit : -1, "unit on the tape"), expect(row_of[e], fits ? row : -1, "row on the tape");
        for (int g = 0; g < 4; g++) {
          double sum = bias[4 * unit + g];
          if (multiplied) sum += products[((size_t(j) * batch + b) * units + unit) * 4 + g];
          for (int d = 0; !multiplied && d < features; d++)
            sum += double(wx[(unit * features + d) * 4 + g]) * x[(size_t(j) * batch + b) * features + d];
          expect(arrivals[e].terms[g], sum, "terms", kError);
        }
      }
      expect(arrivals[events.size()].head.unit, -1, "beyond the events");
    }

    // Every unit in every row, with a leak.
    std::vector<Arrival> arrivals(size_t(rows) * units);
    const Slot none{nullptr, 0};
    run_grid({unsigned(blocks), 1, 1}, 128, [&] {
      fill(time.data(), time_batch, time_step, gates.data(), batch, steps, units, 0.01, 1, nullptr, nullptr, nullptr, x.data(),
           batch * features, features, features, wx.data(), bias.data(), nullptr, features > 1 ? 4 : 1, nullptr, nullptr, 0,
           arrivals.data(), 0, 0, none);
    });
    for (int row = 0; row < rows; row++)
      for (int unit = 0; unit < units; unit++) {
        const int b = row / steps, j = row % steps;
        const Arrival& own = arrivals[size_t(row) * units + unit];
        const Gate gate = packing.gate(unit);
        const double phi = phase(time[b * time_batch + j * time_step], gate.period, gate.offset);
        expect(own.head.unit, unit, "dense unit"), expect(own.head.row, row, "dense row");
        expect(own.head.k, Real(openness(phi, gate.ratio_on, 0.01, true)), "dense openness");
        for (int g = 0; g < 4; g++) {
          double sum = bias[4 * unit + g];
          for (int d = 0; d < features; d++)
            sum += double(wx[(unit * features + d) * 4 + g]) * x[(size_t(j) * batch + b) * features + d];
          expect(own.terms[g], sum, "dense terms", kError);
        }
      }
  }
  std::printf("%d wrong\n", wrong);
  return wrong ? 1 : 0;
}
