// The kernel PHASED_KERNEL of PHASED_SOURCE against plain loops; with PHASED_WAY 1 it is a backward pass. PHASED_KIND: a team of warps
// for each sequence (0); units spread over blocks, which run at once in processes of their own (1); a launch or two for each step (2);
// a block for all units, which all have events at every step (3). Arguments: units, sequences, steps, sequences of a block (groups of
// blocks where units are spread, splits of the units where steps are launched), the kernel's ring, whether all that may be null is, and
// how many events a step may have.
#if PHASED_KIND == 2 && !PHASED_WAY
#define SHARED static
#else
#define SHARED
#endif
#define QUOTED(name) #name
#define FILE_OF(name) QUOTED(name)
#include FILE_OF(PHASED_SOURCE)

using namespace phased;
using Numbers = std::vector<float>;

constexpr bool kTeams = PHASED_KIND == 0, kSpread = PHASED_KIND == 1, kSingle = PHASED_KIND == 2, kDense = PHASED_KIND == 3;
constexpr double kError = kDense ? 2e-5 : 1e-4;
constexpr double kTape = PHASED_TAPE == 1 ? 4e-3 : PHASED_TAPE == 2 ? 5e-4 : 2e-5;  // how far numbers on it are rounded
constexpr int kOthers = kPeephole ? 4 : 1, kForget = 1;                             // f of an LSTM, z of a GRU

// Whether a number of an event's record is between 0 and 1: the gates (i, f and o of an LSTM, r and z of a GRU) and the openness.
bool is_share(int i) { return i < 2 || (Cell::has_c && i == 3) || i == kRecord - 1; }

// All numbers keep their digits on the tape, and the gate that multiplies the state also those of what is missing to 1.
void check_tape() {
  for (const float value : {0.0f, 1e-5f, 0.3f, 0.5f, 0.50001f, 0.9f, 0.998f, 0.9999f, 0.99999f, 1.0f}) {
    float numbers[kRecord] = {}, kept[kRecord];
    for (float& each : numbers) each = value;
    Record record;
    record.write(numbers), record.read(kept);
    for (int i = 0; i < kRecord; i++) {
      const double whole = std::fabs(kept[i] - value), rest = std::fabs((1 - kept[i]) - (1 - value));
      if (whole > kTape * value + 1e-7 || (i == kForget && rest > kTape * (1 - value) + 1e-7)) wrong++;
    }
  }
}

// A sequence's open units, step by step: none, few, more than a pass has, or all; all in five steps, from its sixth on. Where units
// are many, the first never opens.
struct OpenUnits {
  std::vector<Index> start{0}, lengths;
  std::vector<int> unit, row;
  std::vector<unsigned> mask;  // (rows, words)

  OpenUnits(int units, int batch, int steps, int never) : mask(size_t(batch) * steps * ((units + 31) / 32)) {
    const double chances[] = {0, 0.05, 0.05, 0.15, 0.4, 1};
    for (int b = 0; b < batch; b++) {
      lengths.push_back(b == 1 ? 0 : b == 2 ? 1 : b % 3 ? generator() % (steps + 1) : steps);
      for (int j = 0; j < steps; j++) {
        const double chance = kDense || j / 5 % 28 == 1 ? 1 : chances[generator() % 6];
        for (int u = 0; u < units && (kDense || j < lengths[b]); u++)
          if (u != never && uniform(0, 1) < chance) {
            unit.push_back(u), row.push_back(b * steps + j);
            mask[(b * steps + j) * ((units + 31) / 32) + u / 32] |= 1u << u % 32;
          }
        start.push_back(Index(unit.size()));
      }
    }
  }
};

int main(int, char** arguments) {
  const auto number = [&](int i) { return std::atoi(arguments[i]); };
  const int units = number(1), batch = number(2), steps = number(3), together = number(4), null = number(6);
  const int pitch = (units + 3) / 4 * 4, never = (kSpread || kSingle) && units > 1 ? 0 : -1;
  const size_t states = size_t(batch) * units;
  generator.seed(units * 1000 + batch * 10 + together);
  check_tape();
  const OpenUnits given(units, batch, steps, never);
  const size_t events = given.unit.size();
  Numbers weights(size_t(units) * 4 * pitch, 0);
  for (int r = 0; r < 4 * units; r++)  // those of a unit that never opens are not used
    for (int column = 0; column < units; column++)
      weights[r * pitch + column] = r / 4 == never ? NAN : float(uniform(-1, 1) / std::sqrt(units));
  const Numbers own = drawn<float>(3 * units);
  const float* const peephole = kPeephole ? own.data() : nullptr;
  const Index found[2] = {number(7), Index(events)};
  const auto describe = [&](auto& p) {
    p.batch = batch, p.steps = steps, p.units = units, p.pitch = pitch, p.lengths = given.lengths.data();
    p.start = given.start.data(), p.mask = given.mask.data(), p.unit = given.unit.data(), p.wh = weights.data();
    p.peephole = peephole, p.ring = number(5), p.most = number(7), p.found = kDense ? nullptr : found;
    p.least = Index(events), p.below = Index(events) + 1;
  };
  const auto launch = [&](const auto& kernel) {
    if constexpr (kSpread) run_together(together * ((units + 7) / 8), PHASED_THREADS, kernel, shared, sizeof(shared));
    else run((batch + together - 1) / together, kDense ? (4 * units + 31) / 32 * 32 : together * kTeam, kernel);
  };

#if PHASED_WAY
  Numbers records = drawn<float>(kRecord * events);
  std::vector<Record> tape(events);
  for (size_t e = 0; e < events; e++) {
    for (int i = 0; i < kRecord; i++)
      if (is_share(i)) records[kRecord * e + i] = std::fabs(std::sin(records[kRecord * e + i]));
    tape[e].write(&records[kRecord * e]), tape[e].read(&records[kRecord * e]);
  }
  const Numbers to_output = drawn<float>(states * steps), to_final_h = drawn<float>(states), to_final_c = drawn<float>(states);
  float *const to_h = visible<float>(states), *const to_c = visible<float>(states);
  Backward p{};
  describe(p), p.row = given.row.data(), p.tape = tape.data();
  p.to_products = visible<float>(4 * events), p.to_others = visible<float>(kOthers * events);
  if (!null) {
    p.to_output = to_output.data(), p.output_step = Index(states), p.output_batch = units;
    p.to_final_h = to_final_h.data(), p.to_final_c = Cell::has_c ? to_final_c.data() : nullptr;
  }
  if (!null || kSingle) p.to_h = to_h, p.to_c = Cell::has_c ? to_c : nullptr;
#if PHASED_KIND == 2
  for (size_t i = 0; i < states; i++) to_h[i] = null ? 0 : to_final_h[i], to_c[i] = null ? 0 : to_final_c[i];
  float *const shares = visible<float>(4 * states), *const before = visible<float>(together * states);
  const Place3 of_sums = {unsigned(units + 127) / 128, unsigned(together), unsigned(batch + kTogether - 1) / kTogether};
  const Place3 of_cells = {unsigned(units + PHASED_THREADS - 1) / PHASED_THREADS, unsigned(batch) / 2 + 1, 1};
  for (int j = steps - 1; j >= (null ? 0 : -1); j--) {
    run_grid(of_cells, PHASED_THREADS, [&] { open_step_cells(p, j, j == steps - 1 ? nullptr : before, together, shares); });
    std::fill(before, before + together * states, NAN);
    if (j >= 0) run_grid(of_sums, PHASED_THREADS, [&] { open_step_sums(p, j, shares, before); }, shared, sizeof(shared));
    std::fill(shares, shares + 4 * states, NAN);
  }
#else
  if (kTeams) {  // another kernel's batch: nothing is written
    p.least = p.below, p.below++;
    launch([&] { PHASED_KERNEL(p); });
    for (size_t i = 0; i < 4 * events; i++) wrong += !std::isnan(p.to_products[i]);
    p.below = p.least, p.least--;
  }
  launch([&] { PHASED_KERNEL(p); });
  if (kTeams) {  // twice the same bits
    const Numbers first(p.to_products, p.to_products + 4 * events);
    launch([&] { PHASED_KERNEL(p); });
    for (size_t i = 0; i < 4 * events; i++) wrong += first[i] != p.to_products[i];
  }
#endif
  for (int b = 0; b < batch; b++) {
    std::vector<double> h(units, 0);
    Numbers c(units, 0);
    for (int u = 0; u < units && !null; u++) h[u] = to_final_h[b * units + u], c[u] = Cell::has_c ? to_final_c[b * units + u] : 0;
    for (int j = int(given.lengths[b]) - 1; j >= 0; j--) {
      for (int u = 0; u < units && !null; u++) h[u] += to_output[j * states + b * units + u];
      std::vector<double> add(units, 0);
      for (Index e = given.start[b * steps + j]; e < given.start[b * steps + j + 1]; e++) {
        const int u = given.unit[e];
        float w[3] = {}, h_now = float(h[u]);
        peepholes(peephole, units, u, w);
        const Shares share(&records[kRecord * e], w, h_now, c[u]);
        h[u] = h_now;
        for (int g = 0; g < 4; g++) {
          expect(p.to_products[4 * e + g], share.products.v[g], "gradient to the products", kError);
          for (int column = 0; column < units; column++)
            add[column] += double(weights[(u * 4 + g) * pitch + column]) * share.products.v[g];
        }
        for (int i = 0; i < kOthers; i++) expect(p.to_others[kOthers * e + i], share.others.v[i], "gradient to the others", kError);
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
    arrivals[e].head = {given.unit[e], given.row[e], float(uniform(0, 1))};
    for (float& term : arrivals[e].terms) term = float(uniform(-2, 2));
  }
  Forward p{};
  describe(p), p.arrivals = arrivals.data(), p.room = Index(events) - null, p.largest = number(7);
  p.output = visible<float>(states * steps), p.final_h = visible<float>(states), p.exchange = visible<float>(events);
  p.final_c = Cell::has_c ? visible<float>(states) : nullptr, p.tape = visible<Record>(events);
  if (!null) p.initial_h = h0.data(), p.initial_c = Cell::has_c ? c0.data() : nullptr;
#if PHASED_KIND == 2
  for (int j = 0; j < steps; j++) run_grid({unsigned(units), 1, 1}, PHASED_THREADS, [&] { open_step_forward(p, j); });
#else
  if (kTeams) {  // another kernel's batch: nothing is written
    p.least = p.below, p.below++;
    launch([&] { PHASED_KERNEL(p); });
    for (size_t i = 0; i < states * steps; i++) wrong += !std::isnan(p.output[i]);
    p.below = p.least, p.least--;
  }
  launch([&] { PHASED_KERNEL(p); });
#endif
  for (int b = 0; b < batch; b++) {
    Numbers h(units, 0), c(units, 0);
    for (int u = 0; u < units && !null; u++) h[u] = h0[b * units + u], c[u] = Cell::has_c ? c0[b * units + u] : 0;
    for (int j = 0; j < steps; j++) {
      const bool there = j < given.lengths[b];
      const Numbers before = h;
      for (Index e = given.start[b * steps + j]; e < given.start[b * steps + j + 1]; e++) {
        const int u = given.unit[e];
        float a[4], w[3] = {}, record[kRecord] = {}, kept[kRecord];
        for (int g = 0; g < 4; g++) {
          double sum = arrivals[e].terms[g];
          for (int column = 0; column < units; column++) sum += double(weights[(u * 4 + g) * pitch + column]) * before[column];
          a[g] = float(sum);
        }
        peepholes(peephole, units, u, w);
        if (there) h[u] = accept(a, arrivals[e].head.k, before[u], c[u], w, c[u], record);
        p.tape[e].read(kept);
        for (int i = 0; i < kRecord && (!null || kDense); i++) expect(kept[i], record[i], "tape", there ? kTape + kError : 0);
      }
      for (int u = 0; u < units; u++) expect(p.output[j * states + b * units + u], there ? h[u] : 0, "output", kError);
    }
    for (int u = 0; u < units; u++) {
      expect(p.final_h[b * units + u], h[u], "final h", kError);
      if (Cell::has_c) expect(p.final_c[b * units + u], c[u], "final c", kError);
    }
  }
  unsigned char clean[sizeof(Record)];
  std::memset(clean, 0xff, sizeof(clean));
  for (size_t e = 0; e < events && null && !kDense; e++) wrong += std::memcmp(&p.tape[e], clean, sizeof(clean)) != 0;  // no room
#endif
  std::printf("%d wrong\n", wrong);
  return wrong ? 1 : 0;
}
