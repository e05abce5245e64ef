// A kernel of grouped_forward.cu, held_forward.cu (with PHASED_KIND 1), streamed_forward.cu (with 2), or those backwards (with
// PHASED_WAY 1), against plain loops. Arguments: units, sequences, steps, sequences of a block, units with weights
// in shared memory or, for other kernels than grouped ones, events of a sequence there, whether all that may be null is, and how many
// events a step may have.
#define SHARED
#include "grid.h"

#include <cmath>

#if PHASED_KIND == 2 && PHASED_WAY
#include "streamed_backward.cu"
#define KERNEL streamed_backward
#elif PHASED_KIND == 2
#include "streamed_forward.cu"
#define KERNEL streamed_forward
#elif PHASED_KIND && PHASED_WAY
#include "held_backward.cu"
#define KERNEL held_backward
#elif PHASED_KIND
#include "held_forward.cu"
#define KERNEL held_forward
#elif PHASED_WAY
#include "grouped_backward.cu"
#define KERNEL grouped_backward
#else
#include "grouped_forward.cu"
#define KERNEL grouped_forward
#endif

#include "checks.h"
#include "plain.h"
#include "shares.h"

// A sequence's open units, step by step: none, few, more than a pass has, or all; all in five steps, from its sixth on.
struct Events {
  std::vector<Index> start{0}, lengths;
  std::vector<int> unit, row;
  std::vector<unsigned> mask;  // (rows, words)

  Events(int units, int batch, int steps) : mask(size_t(batch) * steps * ((units + 31) / 32)) {
    for (int b = 0; b < batch; b++) {
      lengths.push_back(b == 1 ? 0 : b == 2 ? 1 : b % 3 ? generator() % (steps + 1) : steps);
      for (int j = 0; j < steps; j++) {
        const double chances[] = {0, 0.05, 0.05, 0.15, 0.4, 1}, chance = j / 5 % 28 == 1 ? 1 : chances[generator() % 6];
        for (int u = 0; u < units && j < lengths[b]; u++)
          if (generator() % 1000 < 1000 * chance) {
            unit.push_back(u), row.push_back(b * steps + j);
            mask[(b * steps + j) * ((units + 31) / 32) + u / 32] |= 1u << u % 32;
          }
        start.push_back(Index(unit.size()));
      }
    }
  }
};

int main(int, char** arguments) {
  const int units = std::atoi(arguments[1]), batch = std::atoi(arguments[2]), steps = std::atoi(arguments[3]),
            teams_of_block = std::atoi(arguments[4]), rows = std::atoi(arguments[5]), null = std::atoi(arguments[6]),
            most = std::atoi(arguments[7]);
  const int pitch = (units + 3) / 4 * 4, grid = (batch + teams_of_block - 1) / teams_of_block;
  generator.seed(units * 1000 + batch * 10 + teams_of_block);
  const size_t states = size_t(batch) * units;
  const Events given(units, batch, steps);
  const size_t events = given.unit.size();

  Numbers weights(size_t(units) * 4 * pitch, 0);
  const Numbers dense = drawn(size_t(units) * 4 * units, 1 / std::sqrt(float(units)));
  for (int r = 0; r < 4 * units; r++)
    for (int column = 0; column < units; column++) weights[r * pitch + column] = dense[r * units + column];
  const Numbers own = drawn(3 * units);
  const float* peephole = kPeephole ? own.data() : nullptr;
  const auto of_step = [&](int b, int j) { return std::pair(given.start[b * steps + j], given.start[b * steps + j + 1]); };

#if PHASED_WAY
  const int others = kPeephole ? 4 : 1;
  Numbers records = drawn(kRecord * events);
  std::vector<Record> tape(events);
  for (size_t e = 0; e < events; e++) {
    for (int i = 0; i < kRecord; i++)
      if (is_share(i)) records[kRecord * e + i] = std::fabs(std::sin(records[kRecord * e + i]));
    tape[e].write(&records[kRecord * e]), tape[e].read(&records[kRecord * e]);
  }
  const Numbers to_output = drawn(states * steps), to_final_h = drawn(states), to_final_c = drawn(states);
  Numbers to_products = unwritten(4 * events), to_others = unwritten(others * events), to_h = unwritten(states),
          to_c = unwritten(states);
  Backward p{};
  p.batch = batch, p.steps = steps, p.units = units, p.pitch = pitch, p.lengths = given.lengths.data();
  p.start = given.start.data(), p.mask = given.mask.data(), p.unit = given.unit.data(), p.row = given.row.data(), p.tape = tape.data();
  p.wh = weights.data(), p.peephole = peephole, p.to_products = to_products.data(), p.to_others = to_others.data();
  p.ring = rows, p.most = most;
  if (!null) {
    p.to_output = to_output.data(), p.output_step = Index(states), p.output_batch = units;
    p.to_final_h = to_final_h.data(), p.to_final_c = Cell::has_c ? to_final_c.data() : nullptr;
    p.to_h = to_h.data(), p.to_c = Cell::has_c ? to_c.data() : nullptr;
  }
  const Index counted[2] = {most, Index(events)};
  p.found = counted, p.least = Index(events) + 1, p.below = Index(events) + 2;  // another kernel's batch
  run(grid, teams_of_block * kTeam, [&] { KERNEL(p); });
  for (Real number : to_products) wrong += !std::isnan(number);
  p.least = Index(events), p.below = Index(events) + 1;
  run(grid, teams_of_block * kTeam, [&] { KERNEL(p); });
  const Numbers first_products = to_products;
  run(grid, teams_of_block * kTeam, [&] { KERNEL(p); });
  for (size_t i = 0; i < first_products.size(); i++) wrong += first_products[i] != to_products[i];

  for (int b = 0; b < batch; b++) {
    std::vector<double> h(units, 0);
    Numbers c(units, 0);
    for (int u = 0; u < units && !null; u++) h[u] = to_final_h[b * units + u], c[u] = Cell::has_c ? to_final_c[b * units + u] : 0;
    for (int j = int(given.lengths[b]) - 1; j >= 0; j--) {
      for (int u = 0; u < units && !null; u++) h[u] += to_output[j * states + b * units + u];
      std::vector<double> add(units, 0);
      const auto [from, to] = of_step(b, j);
      for (Index e = from; e < to; e++) {
        const int u = given.unit[e];
        float w[3] = {}, h_now = float(h[u]);
        peepholes(peephole, units, u, w);
        const Shares share(&records[kRecord * e], w, h_now, c[u]);
        h[u] = h_now;
        for (int g = 0; g < 4; g++) {
          expect(to_products[4 * e + g], share.products.v[g], "gradient to the products", 1e-4f);
          for (int column = 0; column < units; column++)
            add[column] += double(weights[(u * 4 + g) * pitch + column]) * share.products.v[g];
        }
        for (int i = 0; i < others; i++) expect(to_others[others * e + i], share.others.v[i], "gradient to the others", 1e-4f);
      }
      for (int u = 0; u < units; u++) h[u] += add[u];
    }
    for (int u = 0; u < units && !null; u++) {
      expect(to_h[b * units + u], float(h[u]), "gradient to h", 1e-4f);
      if (Cell::has_c) expect(to_c[b * units + u], c[u], "gradient to c", 1e-4f);
    }
  }
#else
  const Numbers terms = drawn(4 * events), openness = drawn(events), h0 = drawn(states), c0 = drawn(states);
  std::vector<Arrival> arrivals(events);
  for (size_t e = 0; e < events; e++) {
    arrivals[e].head = {given.unit[e], given.row[e], std::fabs(std::sin(openness[e]))};
    for (int g = 0; g < 4; g++) arrivals[e].terms[g] = terms[4 * e + g];
  }
  Numbers output = unwritten(states * steps), final_h = unwritten(states), final_c = unwritten(states);
  std::vector<Record> tape(events);
  std::memset(static_cast<void*>(tape.data()), 0xff, events * sizeof(Record));
  const Index found[2] = {units, Index(events)};
  Forward p{};
  p.batch = batch, p.steps = steps, p.units = units, p.pitch = pitch, p.lengths = given.lengths.data();
  p.start = given.start.data(), p.mask = given.mask.data(), p.arrivals = arrivals.data(), p.wh = weights.data(), p.peephole = peephole;
  p.output = output.data(), p.final_h = final_h.data(), p.final_c = Cell::has_c ? final_c.data() : nullptr;
  p.tape = tape.data(), p.found = found, p.room = Index(events) - null, p.ring = rows, p.most = most, p.largest = units;
  if (!null) p.initial_h = h0.data(), p.initial_c = Cell::has_c ? c0.data() : nullptr;
  p.least = Index(events) + 1, p.below = Index(events) + 2;  // another kernel's batch
  run(grid, teams_of_block * kTeam, [&] { KERNEL(p); });
  for (Real number : output) wrong += !std::isnan(number);
  p.least = Index(events), p.below = Index(events) + 1;
  run(grid, teams_of_block * kTeam, [&] { KERNEL(p); });

  for (int b = 0; b < batch; b++) {
    Numbers h(units, 0), c(units, 0);
    for (int u = 0; u < units && !null; u++) h[u] = h0[b * units + u], c[u] = Cell::has_c ? c0[b * units + u] : 0;
    for (int j = 0; j < steps; j++) {
      const Numbers before = h;
      const auto [from, to] = of_step(b, j);
      for (Index e = from; e < to; e++) {
        const int u = given.unit[e];
        const PlainEvent plain(weights, pitch, peephole, arrivals[e], before, c[u]);
        float kept[kRecord];
        h[u] = plain.h, c[u] = plain.c;
        tape[e].read(kept);
        for (int i = 0; i < kRecord && !null; i++) expect(kept[i], plain.record[i], "tape", kTape + 1e-4f);
      }
      const bool there = j < given.lengths[b];
      for (int u = 0; u < units; u++) expect(output[j * states + b * units + u], there ? h[u] : 0, "output", 1e-4f);
    }
    for (int u = 0; u < units; u++) {
      expect(final_h[b * units + u], h[u], "final h", 1e-4f);
      if (Cell::has_c) expect(final_c[b * units + u], c[u], "final c", 1e-4f);
    }
  }
  unsigned char clean[sizeof(Record)];
  std::memset(clean, 0xff, sizeof(clean));
  for (size_t e = 0; e < events && null; e++) wrong += std::memcmp(&tape[e], clean, sizeof(clean)) != 0;  // no room: not written
#endif
  std::printf("%d wrong\n", wrong);
  return wrong ? 1 : 0;
}
