#include "batch.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "gate.h"
#include "threads.h"

namespace phased {
namespace {

// The layer of a problem, with the packed weights that it points to.
template <class T>
struct PackedLayer {
  const Buffer<T> weights;
  const Layer<T> layer;

  explicit PackedLayer(const Problem<T>& p)
      : weights(pack(p.cell, p.units, p.features, p.weights)), layer(p.layer(weights.get())) {}

  // Element q of the weights of unit n in product g.
  T at(int64_t n, int64_t g, int64_t q) const { return weights[(n * kProducts + g) * layer.width + q]; }
};

// Sums over a unit's events: for period, shift and ratio_on, and for the three peepholes.
constexpr int64_t kSums = kGateParameters + kPeepholes;

// Rows of `tall` doubles that a dense pass works with: the gates, with harmless values where there is no unit; their slopes; and
// the sums.
template <class T>
struct DenseGate {
  enum Row : int64_t { period, shift, ratio_on, origin, to_phase, to_ratio, sums, rows = sums + kSums };

  Buffer<double> values;
  int64_t tall;
  DenseGate(const Problem<T>& p, int64_t tall) : values(rows * tall), tall(tall) {
    for (int64_t n = 0; n < tall; n++) {
      at(period)[n] = n < p.units ? p.gates.period()[n] : 1;
      at(shift)[n] = n < p.units ? rest_of(p.gates.shift()[n], p.gates.period()[n]) : 0;
      at(ratio_on)[n] = n < p.units ? p.gates.ratio_on()[n] : 1;
      at(origin)[n] = n < p.units ? p.gates.shift()[n] : 0;
    }
  }
  double* at(int64_t row) const { return values.get() + row * tall; }

  // With the given memory: the scratch of a pass. `z` and `c` are for forward passes, `to_z` and `to_c` for backward passes.
  DenseScratch<T> scratch(T* z, T* c, T* products, T* k, T* to_z, T* to_c) const {
    return {z, c, products, k, at(period), at(shift), at(ratio_on), at(origin), at(to_phase), at(to_ratio), at(sums), to_z, to_c};
  }
};

// Sequence b's rows of a (steps, batch, columns) array.
template <class T>
Rows<T> rows_of(int64_t batch, int64_t b, T* array, int64_t columns) {
  return {array + b * columns, batch * columns};
}

// Zeros in the padding of sequence b.
template <class T>
void clear_padding(const Problem<T>& p, int64_t b, T* array, int64_t columns) {
  const Rows<T> rows = rows_of(p.batch, b, array, columns);
  for (int64_t j = p.lengths[b]; j < p.steps; j++) std::fill_n(rows[j], columns, T(0));
}

template <class T>
struct ScratchMemory {
  Buffer<T> z, c, products;
  explicit ScratchMemory(const Layer<T>& layer) : z(layer.width), c(layer.units), products(kProducts * (layer.units + kLanes)) {}
  Scratch<T> get() const { return {z.get(), c.get(), products.get()}; }

  // The initial state of sequence b, in place.
  void begin(const Problem<T>& p, int64_t b) const {
    std::fill(z.get(), z.get() + z.size(), T(0));
    std::copy(p.h + b * p.units, p.h + (b + 1) * p.units, z.get());
    z[p.units + p.features] = 1;
    if (p.c) std::copy(p.c + b * p.units, p.c + (b + 1) * p.units, c.get());
  }
  // Writes the final state, and zeros to the output of the padding.
  void end(const Problem<T>& p, int64_t b, const Output<T>& to) const {
    std::copy(z.get(), z.get() + p.units, to.h + b * p.units);
    if (p.c) std::copy(c.get(), c.get() + p.units, to.c + b * p.units);
    clear_padding(p, b, to.output, p.units);
  }
};

template <class T>
Rows<const T> input_rows(const Problem<T>& p, int64_t b) {
  return {p.input + b * p.input_batch, p.input_step};
}

// Where each sequence's slots begin: one for each of its events, and spare ones for the last vector.
inline std::vector<int64_t> slot_starts(const int64_t* start, int64_t batch, int64_t steps, const int64_t* lengths) {
  std::vector<int64_t> first(batch + 1, 0);
  for (int64_t b = 0; b < batch; b++) first[b + 1] = first[b] + start[b * (steps + 1) + lengths[b]] + kLanes;
  return first;
}

// The sums of all threads, in the memory of the first.
template <class T>
const T* add_up(const std::vector<Buffer<T>>& totals) {
  for (size_t thread = 1; thread < totals.size(); thread++)
    for (int64_t i = 0; i < totals[0].size(); i++) totals[0][i] += totals[thread][i];
  return totals[0].get();
}

// Gradients to gates and peepholes from their sums, (kSums, units).
template <class T>
void finish_sums(const Problem<T>& p, const double* sums, const Gradients<T>& to) {
  std::copy_n(sums, kGateParameters * p.units, to.gate);
  finish_gate(p.gates.period(), p.gates.ratio_on(), p.units, to.gate);
  const double* const of_peepholes = sums + kGateParameters * p.units;
  for (int64_t i = 0; to.peephole && i < kPeepholes * p.units; i++) to.peephole[i] = static_cast<T>(of_peepholes[i]);
}

}  // namespace

void check_lengths(const int64_t* lengths, int64_t batch, int64_t steps) {
  for (int64_t b = 0; b < batch; b++)
    if (lengths[b] < 0 || lengths[b] > steps)
      throw std::invalid_argument("lengths must be in [0, " + std::to_string(steps) + "], the steps of input, got " +
                                  std::to_string(lengths[b]) + ". Pass the number of steps of each sequence that are data.");
}

template <class T>
Schedule<T> make_schedule(const Engine<T>& engine, const Problem<T>& p) {
  Schedule<T> schedule;
  schedule.sequences.resize(p.batch);
  const Layer<T> layer = p.layer(nullptr);
  const auto shares = share(p.lengths, p.batch, p.threads);
  in_parallel(shares.size(), [&](int64_t thread) {
    const LookedMemory looked(p.units, kCandidates);
    for (int64_t b : shares[thread]) {
      auto& sequence = schedule.sequences[b];
      const int64_t steps = p.lengths[b];
      sequence.start = Buffer<int64_t>(steps + 1);
      double ratio = 0;  // a first guess of the capacity: the open share of all unit steps, and a fifth more
      for (int64_t n = 0; n < p.units; n++) ratio += p.gates.ratio_on()[n] <= 1 ? p.gates.ratio_on()[n] : 1;  // 1 for NaN too
      int64_t room = static_cast<int64_t>(1.2 * ratio * steps) + 2 * padded_units(p.units);
      for (int64_t step = 0; step < steps; room *= 2) {
        sequence.unit.grow(room), sequence.k.grow(room), sequence.side.grow(room);
        step = engine.schedule(layer, looked.get(), p.time + b * p.steps, step, steps, sequence.start.get(), sequence.unit.get(),
                               sequence.k.get(), sequence.side.get(), room);
      }
    }
  });
  for (int64_t b = 0; b < p.batch; b++) schedule.slots += schedule.sequences[b].start[p.lengths[b]] + kLanes;
  return schedule;
}

template <class T>
void forward(const Engine<T>& engine, const Problem<T>& p, const Schedule<T>& schedule, const Output<T>& to,
             const Saved<T>& saved) {
  const PackedLayer<T> packed(p);
  const Layer<T>& layer = packed.layer;
  large_pages(to.output, p.steps * p.batch * p.units);
  large_pages(saved.tape, p.kept() * saved.slots);
  for (int64_t b = 0; b < p.batch; b++) {
    int64_t* start = saved.start + b * (p.steps + 1);
    std::copy_n(schedule.sequences[b].start.get(), p.lengths[b] + 1, start);
    std::fill(start + p.lengths[b] + 1, start + p.steps + 1, start[p.lengths[b]]);
  }
  const auto first = slot_starts(saved.start, p.batch, p.steps, p.lengths);
  const auto shares = share(p.lengths, p.batch, p.threads);
  in_parallel(shares.size(), [&](int64_t thread) {
    const ScratchMemory<T> scratch(layer);
    for (int64_t b : shares[thread]) {
      const auto& sequence = schedule.sequences[b];
      const int64_t events = sequence.start[p.lengths[b]], slot = first[b];
      std::copy_n(sequence.unit.get(), events, saved.unit + slot);
      std::copy_n(sequence.k.get(), events, saved.k + slot);
      std::copy_n(sequence.side.get(), events, saved.side + slot);
      std::fill_n(saved.unit + slot + events, kLanes, 0);
      std::fill_n(saved.k + slot + events, kLanes, T(0));
      std::fill_n(saved.side + slot + events, kLanes, uint8_t(0));
      for (int64_t at = slot + events; at < slot + events + kLanes; at++)
        for (int64_t f = 0; f < p.kept(); f++) saved.tape[f * saved.slots + at] = 0;
      scratch.begin(p, b);
      engine.forward[p.cell](layer, scratch.get(), input_rows(p, b), rows_of(p.batch, b, to.output, p.units),
                                               p.lengths[b],
                                               {sequence.start.get(), sequence.unit.get(), sequence.k.get(), sequence.side.get(),
                                                saved.tape + slot, saved.slots},
                                               {nullptr, nullptr});
      scratch.end(p, b, to);
    }
  });
}

template <class T>
void count_open(const Engine<T>& engine, const Problem<T>& p, int64_t* counts) {
  const Layer<T> layer = p.layer(nullptr);
  std::fill_n(counts, p.batch * p.units, int64_t(0));
  const auto shares = share(p.lengths, p.batch, p.threads);
  in_parallel(shares.size(), [&](int64_t thread) {
    const PieceMemory<T> piece(p.units);
    for (int64_t b : shares[thread])
      piece.each(engine, layer, p.time + b * p.steps, p.lengths[b], [&](int64_t, int64_t steps) {
        for (int64_t e = 0; e < piece.start[steps]; e++) counts[b * p.units + piece.unit[e]]++;
      });
  });
}

template <class T>
void infer(const Engine<T>& engine, const Problem<T>& p, const Output<T>& to) {
  large_pages(to.output, p.steps * p.batch * p.units);
  const PackedLayer<T> packed(p);
  const Layer<T>& layer = packed.layer;
  const auto shares = share(p.lengths, p.batch, p.threads);
  in_parallel(shares.size(), [&](int64_t thread) {
    const ScratchMemory<T> scratch(layer);
    const PieceMemory<T> piece(p.units);
    for (int64_t b : shares[thread]) {
      scratch.begin(p, b);
      piece.each(engine, layer, p.time + b * p.steps, p.lengths[b], [&](int64_t step, int64_t steps) {
        Rows<const T> x = input_rows(p, b);
        Rows<T> out = rows_of(p.batch, b, to.output, p.units);
        x.first += step * x.stride, out.first += step * out.stride;
        engine.forward[p.cell](layer, scratch.get(), x, out, steps, piece.events(), {nullptr, nullptr});
      });
      scratch.end(p, b, to);
    }
  });
}

template <class T>
void backward(const Engine<T>& engine, const Problem<T>& p, const Saved<T>& saved, const T* output, const Given<T>& given,
              const Gradients<T>& to) {
  if (to.input) large_pages(to.input, p.steps * p.batch * p.features);
  const PackedLayer<T> packed(p);
  const Layer<T>& layer = packed.layer;
  const auto first = slot_starts(saved.start, p.batch, p.steps, p.lengths);
  const auto shares = share(p.lengths, p.batch, p.threads);
  std::vector<Buffer<T>> weights(shares.size());
  std::vector<Buffer<double>> sums(shares.size());
  in_parallel(shares.size(), [&](int64_t thread) {
    weights[thread] = Buffer<T>(p.units * kProducts * layer.width);
    sums[thread] = Buffer<double>(kSums * p.units);
    double* const of_gates = sums[thread].get();
    int64_t most = 0;  // events in a block
    for (int64_t b : shares[thread]) {
      const int64_t* start = saved.start + b * (p.steps + 1);
      for (int64_t end = p.lengths[b]; end > 0; end -= kBlock)
        most = std::max(most, start[end] - start[std::max<int64_t>(0, end - kBlock)]);
    }
    const Buffer<T> z(std::min(kBlock, std::max<int64_t>(1, p.steps)) * layer.width), to_z(layer.width), to_c(p.units),
        products(kProducts * (most + kLanes));
    const Buffer<int32_t> step(most), order(most);
    const Buffer<int64_t> starts(p.units + 1);
    for (int64_t b : shares[thread]) {
      std::fill(to_z.get(), to_z.get() + to_z.size(), T(0));
      std::copy_n(given.to_h + b * p.units, p.units, to_z.get());
      if (p.c) std::copy_n(given.to_c + b * p.units, p.units, to_c.get());
      const int64_t slot = first[b];
      const Rows<T> to_input = to.input ? rows_of(p.batch, b, to.input, p.features) : Rows<T>{nullptr, 0};
      Rows<const T> to_rows{given.to_output ? given.to_output + b * given.output_batch : nullptr, given.output_step};
      engine.backward[p.cell](
          layer, {z.get(), to_z.get(), to_c.get(), products.get(), step.get(), order.get(), starts.get()}, input_rows(p, b),
          rows_of(p.batch, b, output, p.units), p.h + b * p.units, p.time + b * p.steps, p.lengths[b],
          {saved.start + b * (p.steps + 1), saved.unit + slot, saved.k + slot, saved.side + slot, saved.tape + slot, saved.slots},
          to_rows, to_input, {weights[thread].get(), of_gates + kGateParameters * p.units, of_gates});
      std::copy_n(to_z.get(), p.units, to.h + b * p.units);
      if (p.c) std::copy_n(to_c.get(), p.units, to.c + b * p.units);
      if (to.input) clear_padding(p, b, to.input, p.features);
    }
  });
  unpack(p.cell, p.units, p.features, add_up(weights), to.weights);
  finish_sums(p, add_up(sums), to);
}

template <class T>
void forward_dense(const Engine<T>& engine, const Problem<T>& p, const Output<T>& to, T* tape) {
  const PackedLayer<T> packed(p);
  const Layer<T>& layer = packed.layer;
  const int64_t tall = whole_panels<T>(p.units), taped = p.kept() * whole_units(p.units);  // taped: values of a step
  large_pages(to.output, p.steps * p.batch * p.units);
  if (tape) large_pages(tape, p.steps * p.batch * taped);
  const Buffer<T> matrix = panels<T>(p.units + p.features + 1, dense_columns<T>(p.units), [&](int64_t q, int64_t column) {
    const int64_t g = column / whole_units(p.units), n = column % whole_units(p.units);
    return g < kProducts && n < p.units ? packed.at(n, g, q) : T(0);
  });
  const auto shares = share(p.lengths, p.batch, p.threads);
  in_parallel(shares.size(), [&](int64_t thread) {
    const auto& mine = shares[thread];
    const int64_t count = mine.size();
    const Buffer<T> z(count * layer.width), c(count * tall), products(count * dense_columns<T>(p.units)), k(tall);
    const DenseGate<T> gates(p, tall);
    std::vector<DenseSequence<T>> sequences;
    for (int64_t i = 0; i < count; i++) {
      const int64_t b = mine[i];
      std::copy_n(p.h + b * p.units, p.units, z.get() + i * layer.width);
      z[i * layer.width + p.units + p.features] = 1;
      if (p.c) std::copy_n(p.c + b * p.units, p.units, c.get() + i * tall);
      sequences.push_back({p.lengths[b],
                           p.time + b * p.steps,
                           input_rows(p, b),
                           rows_of(p.batch, b, to.output, p.units),
                           p.h + b * p.units,
                           tape ? tape + b * p.steps * taped : nullptr,
                           {nullptr, 0},
                           {nullptr, 0}});
    }
    engine.forward_dense[p.cell](layer, p.leak, matrix.get(), tall, sequences.data(), count,
                                                   gates.scratch(z.get(), c.get(), products.get(), k.get(), nullptr, nullptr));
    for (int64_t i = 0; i < count; i++) {
      const int64_t b = mine[i];
      std::copy_n(z.get() + i * layer.width, p.units, to.h + b * p.units);
      if (p.c) std::copy_n(c.get() + i * tall, p.units, to.c + b * p.units);
      clear_padding(p, b, to.output, p.units);
      if (tape) std::fill_n(tape + (b * p.steps + p.lengths[b]) * taped, (p.steps - p.lengths[b]) * taped, T(0));
    }
  });
}

template <class T>
void backward_dense(const Engine<T>& engine, const Problem<T>& p, const T* output, const T* tape, const Given<T>& given,
                    T* to_products, const Gradients<T>& to) {
  const PackedLayer<T> packed(p);
  const Layer<T>& layer = packed.layer;
  const int64_t tall = whole_panels<T>(p.units), taped = p.kept() * whole_units(p.units), columns = kProducts * p.units;
  large_pages(to_products, p.steps * p.batch * columns);
  const Buffer<T> matrix =
      panels<T>(columns, p.units, [&](int64_t row, int64_t q) { return packed.at(row % p.units, row / p.units, q); });
  const auto shares = share(p.lengths, p.batch, p.threads);
  std::vector<Buffer<double>> totals(shares.size());
  in_parallel(shares.size(), [&](int64_t thread) {
    const auto& mine = shares[thread];
    const int64_t count = mine.size();
    totals[thread] = Buffer<double>(kSums * p.units);
    const Buffer<T> products(count * columns), k(tall), to_z(count * tall), to_c(count * tall);
    const DenseGate<T> gates(p, tall);
    std::vector<DenseSequence<T>> sequences;
    for (int64_t i = 0; i < count; i++) {
      const int64_t b = mine[i];
      std::copy_n(given.to_h + b * p.units, p.units, to_z.get() + i * tall);
      if (p.c) std::copy_n(given.to_c + b * p.units, p.units, to_c.get() + i * tall);
      Rows<const T> to_rows{given.to_output ? given.to_output + b * given.output_batch : nullptr, given.output_step};
      sequences.push_back({p.lengths[b], p.time + b * p.steps, input_rows(p, b),
                           rows_of(p.batch, b, const_cast<T*>(output), p.units), p.h + b * p.units,
                           const_cast<T*>(tape) + b * p.steps * taped, to_rows, rows_of(p.batch, b, to_products, columns)});
    }
    engine.backward_dense[p.cell](
        layer, p.leak, matrix.get(), tall, sequences.data(), count,
        gates.scratch(nullptr, nullptr, products.get(), k.get(), to_z.get(), to_c.get()));
    for (int64_t i = 0; i < kSums; i++) std::copy_n(gates.at(gates.sums + i), p.units, totals[thread].get() + i * p.units);
    for (int64_t i = 0; i < count; i++) {
      const int64_t b = mine[i];
      std::copy_n(to_z.get() + i * tall, p.units, to.h + b * p.units);
      if (p.c) std::copy_n(to_c.get() + i * tall, p.units, to.c + b * p.units);
      clear_padding(p, b, to_products, columns);
    }
  });
  finish_sums(p, add_up(totals), to);
}

#define PHASED_INSTANCES(T)                                                                                                     \
  template Schedule<T> make_schedule(const Engine<T>&, const Problem<T>&);                                                      \
  template void forward(const Engine<T>&, const Problem<T>&, const Schedule<T>&, const Output<T>&, const Saved<T>&);            \
  template void infer(const Engine<T>&, const Problem<T>&, const Output<T>&);                                                   \
  template void count_open(const Engine<T>&, const Problem<T>&, int64_t*);                                                      \
  template void backward(const Engine<T>&, const Problem<T>&, const Saved<T>&, const T*, const Given<T>&, const Gradients<T>&); \
  template void forward_dense(const Engine<T>&, const Problem<T>&, const Output<T>&, T*);                                       \
  template void backward_dense(const Engine<T>&, const Problem<T>&, const T*, const T*, const Given<T>&, T*, const Gradients<T>&);
PHASED_INSTANCES(float)
PHASED_INSTANCES(double)

}  // namespace phased
