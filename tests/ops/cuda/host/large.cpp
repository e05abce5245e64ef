// Kernels of large layers against plain loops, forwards or, with PHASED_WAY 1, backwards: those of spread_*.cu, whose blocks are at once
// in processes of their own, or, with PHASED_SINGLE 1, those of open_step_*.cu, a launch or two for each step. Arguments: units,
// sequences, steps, groups of blocks or splits of the units, and whether all that may be null is.
#if PHASED_SINGLE && !PHASED_WAY
#define SHARED static
#else
#define SHARED
#endif
#include "grid.h"

#if PHASED_SINGLE && PHASED_WAY
#include "open_step_backward.cu"
#elif PHASED_SINGLE
#include "open_step_forward.cu"
#elif PHASED_WAY
#include "spread_backward.cu"
#else
#include "spread_forward.cu"
#endif

#include "plain.h"
#include "shares.h"

using namespace phased;
using Numbers = std::vector<float>;

constexpr double kError = 1e-4, kTape = PHASED_TAPE == 1 ? 4e-3 : PHASED_TAPE == 2 ? 5e-4 : 2e-5;  // how far the tape is rounded

int main(int, char** arguments) {
  const int units = std::atoi(arguments[1]), batch = std::atoi(arguments[2]), steps = std::atoi(arguments[3]),
            groups = std::atoi(arguments[4]), null = std::atoi(arguments[5]);
#if PHASED_SINGLE
  const int blocks = units;
#else
  const int blocks = (units + kOwn - 1) / kOwn;
#endif
  const int pitch = (units + 3) / 4 * 4, words = (units + 31) / 32;
  const size_t states = size_t(batch) * units;
  generator.seed(units * 1000 + batch);

  // Open units: none, few, or all of a step except the first, which never opens if there are others. Sequences may have no step, or
  // fewer than others.
  const int never = units > 1 ? 0 : -1;
  std::vector<Index> start{0}, lengths;
  std::vector<unsigned> mask(size_t(batch) * steps * words, 0);
  std::vector<int> unit, row;
  for (int b = 0; b < batch; b++) {
    lengths.push_back(b == 1 ? 0 : b % 3 ? generator() % (steps + 1) : steps);
    for (int j = 0; j < steps; j++) {
      const double chances[] = {0, 0.05, 0.15, 0.4, 1}, chance = chances[generator() % 5];
      for (int u = 0; u < units && j < lengths[b]; u++)
        if (u != never && uniform(0, 1) < chance) {
          unit.push_back(u), row.push_back(b * steps + j);
          mask[size_t(b * steps + j) * words + u / 32] |= 1u << u % 32;
        }
      start.push_back(Index(unit.size()));
    }
  }
  const size_t events = unit.size();
  Numbers weights(size_t(units) * 4 * pitch, 0);
  for (int r = 0; r < 4 * units; r++)  // those of a unit that never opens are not used
    for (int column = 0; column < units; column++)
      weights[r * pitch + column] = r / 4 == never ? NAN : float(uniform(-1, 1) / std::sqrt(units));
  const Numbers own = drawn<float>(3 * units);
  const float* const peephole = kPeephole ? own.data() : nullptr;
  const auto describe = [&](auto& p) {
    p.batch = batch, p.steps = steps, p.units = units, p.pitch = pitch, p.lengths = lengths.data(), p.start = start.data();
    p.mask = mask.data(), p.unit = unit.data(), p.wh = weights.data(), p.peephole = peephole, p.ring = blocks, p.most = units;
  };

#if PHASED_WAY
  const int others = kPeephole ? 4 : 1;
  Numbers records = drawn<float>(kRecord * events);
  std::vector<Record> tape(events);
  for (size_t e = 0; e < events; e++) {
    for (int i = 0; i < kRecord; i++)
      if (is_share(i)) records[kRecord * e + i] = std::fabs(std::sin(records[kRecord * e + i]));
    tape[e].write(&records[kRecord * e]), tape[e].read(&records[kRecord * e]);
  }
  const Numbers to_output = drawn<float>(states * steps), to_final_h = drawn<float>(states), to_final_c = drawn<float>(states);
  Backward p{};
  describe(p), p.tape = tape.data();
  p.to_products = visible<float>(4 * events), p.to_others = visible<float>(others * events);
  float *const to_h = visible<float>(states), *const to_c = visible<float>(states);
  if (!null) {
    p.to_output = to_output.data(), p.output_step = Index(states), p.output_batch = units;
    p.to_final_h = to_final_h.data(), p.to_final_c = Cell::has_c ? to_final_c.data() : nullptr;
    p.to_h = to_h, p.to_c = Cell::has_c ? to_c : nullptr;
  }
#if PHASED_SINGLE
  p.to_h = to_h, p.to_c = Cell::has_c ? to_c : nullptr;
  for (size_t i = 0; i < states; i++) to_h[i] = null ? 0 : to_final_h[i], to_c[i] = null ? 0 : to_final_c[i];
  float *const shares = visible<float>(4 * states), *const given = visible<float>(groups * states);
  const Place3 of_sums = {unsigned(units + 127) / 128, unsigned(groups), unsigned(batch + kTogether - 1) / kTogether};
  const Place3 of_cells = {unsigned(units + PHASED_THREADS - 1) / PHASED_THREADS, unsigned(batch) / 2 + 1, 1};
  for (int j = steps - 1; j >= (null ? 0 : -1); j--) {
    const float* const before = j == steps - 1 ? nullptr : given;
    run_grid(of_cells, PHASED_THREADS, [&] { open_step_cells(p, j, before, groups, shares); });
    std::fill(given, given + groups * states, NAN);
    if (j >= 0) run_grid(of_sums, PHASED_THREADS, [&] { open_step_sums(p, j, shares, given); }, shared, sizeof(shared));
    std::fill(shares, shares + 4 * states, NAN);
  }
#else
  run_together(groups * blocks, PHASED_THREADS, [&] { spread_backward(p); }, shared, sizeof(shared));
#endif
  for (int b = 0; b < batch; b++) {
    std::vector<double> h(units, 0);
    Numbers c(units, 0);
    for (int u = 0; u < units && !null; u++) h[u] = to_final_h[b * units + u], c[u] = Cell::has_c ? to_final_c[b * units + u] : 0;
    for (int j = int(lengths[b]) - 1; j >= 0; j--) {
      for (int u = 0; u < units && !null; u++) h[u] += to_output[j * states + b * units + u];
      std::vector<double> add(units, 0);
      for (Index e = start[b * steps + j]; e < start[b * steps + j + 1]; e++) {
        const int u = unit[e];
        float w[3] = {}, h_now = float(h[u]);
        peepholes(peephole, units, u, w);
        const Shares share(&records[kRecord * e], w, h_now, c[u]);
        h[u] = h_now;
        for (int g = 0; g < 4; g++) {
          expect(p.to_products[4 * e + g], share.products.v[g], "gradient to the products", kError);
          for (int column = 0; column < units; column++)
            add[column] += double(weights[(u * 4 + g) * pitch + column]) * share.products.v[g];
        }
        for (int i = 0; i < others; i++) expect(p.to_others[others * e + i], share.others.v[i], "gradient to the others", kError);
      }
      for (int u = 0; u < units; u++) h[u] += add[u];
    }
    for (int u = 0; u < units && !null; u++) {
      expect(to_h[b * units + u], h[u], "gradient to h", kError);
      if (Cell::has_c) expect(to_c[b * units + u], c[u], "gradient to c", kError);
    }
  }
#else
  const Numbers h0 = drawn<float>(states), c0 = drawn<float>(states);
  std::vector<Arrival> arrivals(events);
  for (size_t e = 0; e < events; e++) {
    arrivals[e].head = {unit[e], row[e], float(uniform(0, 1))};
    for (int g = 0; g < 4; g++) arrivals[e].terms[g] = float(uniform(-1, 1));
  }
  const Index found[2] = {units, Index(events)};
  Forward p{};
  describe(p), p.arrivals = arrivals.data(), p.found = found, p.room = Index(events) - null, p.below = Index(events) + 1, p.largest = units;
  p.output = visible<float>(states * steps), p.final_h = visible<float>(states), p.exchange = visible<float>(events);
  p.final_c = Cell::has_c ? visible<float>(states) : nullptr, p.tape = visible<Record>(events);
  if (!null) p.initial_h = h0.data(), p.initial_c = Cell::has_c ? c0.data() : nullptr;
#if PHASED_SINGLE
  for (int j = 0; j < steps; j++) run_grid({unsigned(blocks), 1, 1}, PHASED_THREADS, [&] { open_step_forward(p, j); });
#else
  run_together(groups * blocks, PHASED_THREADS, [&] { spread_forward(p); }, shared, sizeof(shared));
#endif
  for (int b = 0; b < batch; b++) {
    Numbers h(units, 0), c(units, 0);
    for (int u = 0; u < units && !null; u++) h[u] = h0[b * units + u], c[u] = Cell::has_c ? c0[b * units + u] : 0;
    for (int j = 0; j < steps; j++) {
      const Numbers before = h;
      for (Index e = start[b * steps + j]; e < start[b * steps + j + 1]; e++) {
        const int u = unit[e];
        const PlainEvent plain(weights, pitch, peephole, arrivals[e], before, c[u]);
        float kept[kRecord];
        h[u] = plain.h, c[u] = plain.c;
        p.tape[e].read(kept);
        for (int i = 0; i < kRecord && !null; i++) expect(kept[i], plain.record[i], "tape", kTape + kError);
        unsigned char clean[sizeof(Record)];
        std::memset(clean, 0xff, sizeof(clean));
        if (null) wrong += std::memcmp(&p.tape[e], clean, sizeof(clean)) != 0;  // no room: not written
      }
      const bool there = j < lengths[b];
      for (int u = 0; u < units; u++) expect(p.output[j * states + b * units + u], there ? h[u] : 0, "output", kError);
    }
    for (int u = 0; u < units; u++) {
      expect(p.final_h[b * units + u], h[u], "final h", kError);
      if (Cell::has_c) expect(p.final_c[b * units + u], c[u], "final c", kError);
    }
  }
#endif
  std::printf("%d wrong\n", wrong);
  return wrong ? 1 : 0;
}
