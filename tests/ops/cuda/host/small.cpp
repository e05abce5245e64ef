// The kernels of small.cu, against plain loops. Arguments: units, sequences, steps, sequences of a block.
#define SHARED
#include "grid.h"

#include <cmath>

#include "small.cu"

#include "checks.h"

// All numbers keep their digits on the tape, and the gate that multiplies the state also those of what is missing to 1.
void check_tape() {
  const int forget = 1;  // f of an LSTM, z of a GRU
  const float values[] = {0, 1e-5f, 0.3f, 0.5f, 0.50001f, 0.9f, 0.998f, 0.9999f, 0.99999f, 1};
  for (const float value : values) {
    float numbers[kRecord] = {}, kept[kRecord];
    for (float& each : numbers) each = value;
    Record record;
    record.write(numbers), record.read(kept);
    for (int i = 0; i < kRecord; i++) {
      const float whole = std::fabs(kept[i] - value), rest = std::fabs((1 - kept[i]) - (1 - value));
      if (whole > kTape * value + 1e-7f || (i == forget && rest > kTape * (1 - value) + 1e-7f)) wrong++;
    }
  }
}

int main(int, char** arguments) {
  check_tape();
  const int units = std::atoi(arguments[1]), batch = std::atoi(arguments[2]), steps = std::atoi(arguments[3]),
            together = std::atoi(arguments[4]), pitch = (units + 3) / 4 * 4;
  const int count = (4 * units + 31) / 32 * 32, grid = (batch + together - 1) / together, others = kPeephole ? 4 : 1;
  const size_t states = size_t(batch) * units, events = states * steps;

  Numbers weights(size_t(units) * 4 * pitch, 0);
  const Numbers dense = drawn(size_t(units) * 4 * units, 1 / std::sqrt(float(units)));
  for (int row = 0; row < 4 * units; row++)
    for (int column = 0; column < units; column++) weights[row * pitch + column] = dense[row * units + column];
  const Numbers terms = drawn(4 * events), openness = drawn(events), h0 = drawn(states), c0 = drawn(states), own = drawn(3 * units);
  std::vector<Arrival> arrivals(events);
  for (size_t e = 0; e < events; e++) {
    arrivals[e].head.k = std::fabs(std::sin(openness[e]));
    for (int g = 0; g < 4; g++) arrivals[e].terms[g] = terms[4 * e + g];
  }
  std::vector<Index> lengths(batch);
  for (int b = 0; b < batch; b++) lengths[b] = b ? generator() % (steps + 1) : steps;
  const float* peephole = kPeephole ? own.data() : nullptr;

  Numbers output = unwritten(events), final_h = unwritten(states), final_c = unwritten(states);
  std::vector<Record> tape(events);
  std::memset(static_cast<void*>(tape.data()), 0xff, events * sizeof(Record));
  Forward p{};
  p.batch = batch, p.steps = steps, p.units = units, p.pitch = pitch, p.lengths = lengths.data(), p.arrivals = arrivals.data();
  p.wh = weights.data(), p.peephole = peephole, p.initial_h = h0.data(), p.initial_c = c0.data(), p.output = output.data();
  p.final_h = final_h.data(), p.final_c = final_c.data(), p.tape = tape.data(), p.ring = together, p.most = units;
  run(grid, count, [&] { small_dense_forward(p); });

  Numbers records(kRecord * events, 0);
  for (int b = 0; b < batch; b++) {
    Numbers h(&h0[b * units], &h0[b * units] + units), c(&c0[b * units], &c0[b * units] + units);
    for (int j = 0; j < steps; j++) {
      Numbers new_h = h, new_c = c;
      for (int unit = 0; unit < units; unit++) {
        const size_t e = (size_t(b) * steps + j) * units + unit;
        const float found = output[(size_t(j) * batch + b) * units + unit];
        if (j >= lengths[b]) {
          expect(found, 0, "padding");
          float kept[kRecord];
          tape[e].read(kept);
          for (const float number : kept) expect(number, 0, "tape of padding");
          continue;
        }
        float a[4], w[3] = {};
        for (int g = 0; g < 4; g++) {
          double sum = arrivals[e].terms[g];
          for (int column = 0; column < units; column++) sum += double(weights[(unit * 4 + g) * pitch + column]) * h[column];
          a[g] = float(sum);
        }
        peepholes(peephole, units, unit, w);
        new_h[unit] = accept(a, arrivals[e].head.k, h[unit], c[unit], w, new_c[unit], &records[kRecord * e]);
        expect(found, new_h[unit], "output");
        float kept[kRecord];
        tape[e].read(kept);
        for (int i = 0; i < kRecord; i++) expect(kept[i], records[kRecord * e + i], "tape", kTape);
      }
      h = new_h, c = new_c;
    }
    for (int unit = 0; unit < units; unit++) {
      expect(final_h[b * units + unit], h[unit], "final h");
      if (Cell::has_c) expect(final_c[b * units + unit], c[unit], "final c");
    }
  }

  // The backward pass is held to what it reads: the records as the tape rounds them.
  for (size_t e = 0; e < events; e++) tape[e].write(&records[kRecord * e]), tape[e].read(&records[kRecord * e]);
  const Numbers to_output = drawn(events), to_final_h = drawn(states), to_final_c = drawn(states);
  Numbers to_products = unwritten(4 * events), to_others = unwritten(others * events), to_h = unwritten(states),
          to_c = unwritten(states);
  Backward q{};
  q.batch = batch, q.steps = steps, q.units = units, q.pitch = pitch, q.lengths = lengths.data(), q.tape = tape.data();
  q.wh = weights.data(), q.peephole = peephole, q.to_output = to_output.data(), q.output_step = Index(states);
  q.output_batch = units, q.to_final_h = to_final_h.data(), q.to_final_c = to_final_c.data();
  q.to_products = to_products.data(), q.to_others = to_others.data(), q.to_h = to_h.data();
  q.to_c = Cell::has_c ? to_c.data() : nullptr, q.ring = together, q.most = units;
  run(grid, count, [&] { small_dense_backward(q); });

  for (int b = 0; b < batch; b++) {
    Numbers h(&to_final_h[b * units], &to_final_h[b * units] + units), c(units, 0);
    if (Cell::has_c) c.assign(&to_final_c[b * units], &to_final_c[b * units] + units);
    for (int j = int(lengths[b]) - 1; j >= 0; j--) {
      Numbers shares(4 * units);
      for (int unit = 0; unit < units; unit++) {
        const size_t e = (size_t(b) * steps + j) * units + unit;
        float w[3] = {};
        peepholes(peephole, units, unit, w);
        h[unit] += to_output[j * states + b * units + unit];
        const Shares share(&records[kRecord * e], w, h[unit], c[unit]);
        for (int g = 0; g < 4; g++) {
          shares[4 * unit + g] = share.products.v[g];
          expect(to_products[4 * e + g], share.products.v[g], "gradient to the products");
        }
        for (int i = 0; i < others; i++) expect(to_others[others * e + i], share.others.v[i], "gradient to the others");
      }
      for (int column = 0; column < units; column++) {
        double sum = 0;
        for (int row = 0; row < 4 * units; row++) sum += double(weights[row * pitch + column]) * shares[row];
        h[column] += float(sum);
      }
    }
    for (int unit = 0; unit < units; unit++) {
      expect(to_h[b * units + unit], h[unit], "gradient to h");
      if (Cell::has_c) expect(to_c[b * units + unit], c[unit], "gradient to c");
    }
  }
  std::printf("%d wrong\n", wrong);
  return wrong ? 1 : 0;
}
