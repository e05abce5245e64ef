// What a step does to one event, forwards and backwards; and what the kernels of the recurrence are given.
#pragma once

#include "products.h"

namespace phased {

struct Forward {
  Index batch, steps, units, pitch;
  const Index *lengths, *start;
  const unsigned* mask;
  const Arrival* arrivals;
  const Real *wh, *peephole, *initial_h, *initial_c;
  Real *output, *final_h, *final_c, *tape;  // tape: (events, kRecord), or null
  Index ring;
};

struct Backward {
  Index batch, steps, units, pitch;
  const Index *lengths, *start;
  const int *unit, *row;
  const Real *tape, *wh, *peephole;
  const Real* to_output;  // or null; row j of sequence b at j * output_step + b * output_batch
  Index output_step, output_batch;
  const Real *to_final_h, *to_final_c;
  Real *to_products, *to_others;  // (events, 4); (events, 1), to the openness, or (events, 4) with the three peepholes behind it
  Real *to_h, *to_c;
  Index ring;
};

// The cell of one event: its new h; new c goes to `new_c`. One thread writes the tape.
__device__ __forceinline__ Real accept(const Forward& p, Real a[4], const Real terms[4], Real k, Real h, Real c, int unit, Index event, bool write,
                                       Real& new_c) {
  Real w[3] = {}, keep[Cell::kept], proposed_h, proposed_c;
  for (int g = 0; g < 4; g++) a[g] += terms[g];
  if (p.peephole) {
    for (int i = 0; i < 3; i++) w[i] = p.peephole[i * p.units + unit];
    Cell::template propose<true, Real>(a, h, c, w, proposed_h, proposed_c, keep);
  } else {
    Cell::template propose<false, Real>(a, h, c, w, proposed_h, proposed_c, keep);
  }
  new_c = k * proposed_c + (1 - k) * c;
  if (p.tape && write) {
    Real record[kRecord] = {};
    for (int f = 0; f < Cell::kept; f++) record[f] = keep[f];
    record[kRecord - 2] = h, record[kRecord - 1] = k;
    Real* to = p.tape + kRecord * event;
    for (int i = 0; i < kRecord; i += 4) store_four(to + i, Four{record[i], record[i + 1], record[i + 2], record[i + 3]});
  }
  return k * proposed_h + (1 - k) * h;
}

__device__ __forceinline__ void read_record(const Real* from, Real record[kRecord]) {
  for (int i = 0; i < kRecord; i += 4) {
    const Four four = load_four(from + i);
    for (int l = 0; l < 4; l++) record[i + l] = four.v[l];
  }
}

// From the gradients to an event's h and c: those to its products, and what is left of h and c before it. One thread writes the rest.
__device__ __forceinline__ void adjoin(const Backward& p, const Real record[kRecord], int unit, Index event, Real& to_h, Real& to_c, Real a[4],
                                       bool write) {
  Real w[3] = {}, to_w[3], to_h_before, to_c_before, to_k;
  if (p.peephole)
    for (int i = 0; i < 3; i++) w[i] = p.peephole[i * p.units + unit];
  Cell::template adjoint<Real>(record, record[kRecord - 2], record[kRecord - 1], to_h, to_c, w, a, to_h_before, to_c_before, to_k, to_w);
  to_h = to_h_before, to_c = to_c_before;
  if (!write) return;
  store_four(p.to_products + 4 * event, Four{a[0], a[1], a[2], a[3]});
  if (p.peephole) {
    store_four(p.to_others + 4 * event, Four{to_k, to_w[0], to_w[1], to_w[2]});
  } else {
    p.to_others[event] = to_k;
  }
}

// Rows of the output's gradient, asked for some steps ahead. A thread copies, and later reads, its own columns: it need not wait for others.
constexpr int kAhead = 4;

struct GradientRows {
  const Backward& p;
  Real* ring;
  Index b;
  int thread;

  __device__ __forceinline__ void ask(int j) const {
    if (p.to_output && j >= 0)
      for (int q = thread; q < p.units; q += kHelperThreads)
        copy_ahead(ring + j % kAhead * p.pitch + q, p.to_output + j * p.output_step + b * p.output_batch + q, sizeof(Real));
    end_of_copies();
  }
  __device__ __forceinline__ Real at(int j, int q) const { return p.to_output && j >= 0 ? ring[j % kAhead * p.pitch + q] : Real(0); }

  // The gradients to start with: those to the final state, and the last step's output.
  __device__ __forceinline__ void begin(int length, Real* to_h, Real* to_c) const {
    for (int i = 0; i < kAhead; i++) ask(length - 1 - i);
    wait_for_copies<0>();
    for (int q = thread; q < p.units; q += kHelperThreads) {
      to_h[q] = p.to_final_h[b * p.units + q] + at(length - 1, q);
      to_c[q] = Cell::has_c ? p.to_final_c[b * p.units + q] : Real(0);
    }
    ask(length - 1 - kAhead);
  }
  __device__ __forceinline__ void end(const Real* to_h, const Real* to_c) const {
    for (int q = thread; q < p.units; q += kHelperThreads) {
      p.to_h[b * p.units + q] = to_h[q];
      if (Cell::has_c) p.to_c[b * p.units + q] = to_c[q];
    }
  }
};

// Two copies of h: a step reads one and writes the other. Both end in zeros, for lanes that have no columns.
struct Copies {
  Real *h, *other, *c;

  static __device__ __forceinline__ int wide(int pitch) { return (pitch + kColumns - 1) / kColumns * kColumns; }
  __device__ __forceinline__ void swap() {
    Real* const read = h;
    h = other, other = read;
  }
  __device__ __forceinline__ void begin(const Forward& p, Index b, int thread, int threads) const {
    for (int q = thread; q < wide(p.pitch); q += threads) h[q] = other[q] = q < p.units ? p.initial_h[b * p.units + q] : Real(0);
    for (int q = thread; q < p.units; q += threads) c[q] = Cell::has_c ? p.initial_c[b * p.units + q] : Real(0);
  }
  // The final state, and zeros for what is left of the output.
  __device__ __forceinline__ void end(const Forward& p, Index b, int length, int thread) const {
    for (int q = thread; q < p.units; q += kHelperThreads) {
      p.final_h[b * p.units + q] = h[q];
      if (Cell::has_c) p.final_c[b * p.units + q] = c[q];
      for (Index j = length; j < p.steps; j++) p.output[(j * p.batch + b) * p.units + q] = 0;
    }
  }
};

#define PHASED_FORWARD(name, body)                                                                                                          \
  extern "C" __global__ void __launch_bounds__(PHASED_THREADS) name(                                                                        \
      Index batch, Index steps, Index units, Index pitch, const Index* lengths, const Index* start, const unsigned* mask,                   \
      const Arrival* arrivals, const Real* wh, const Real* peephole, const Real* initial_h, const Real* initial_c, Real* output,            \
      Real* final_h, Real* final_c, Real* tape, Index ring) {                                                                               \
    body({batch, steps, units, pitch, lengths, start, mask, arrivals, wh, peephole, initial_h, initial_c, output, final_h, final_c, tape,   \
          ring});                                                                                                                           \
  }

#define PHASED_BACKWARD(name, body)                                                                                                         \
  extern "C" __global__ void __launch_bounds__(PHASED_THREADS) name(                                                                        \
      Index batch, Index steps, Index units, Index pitch, const Index* lengths, const Index* start, const int* unit, const int* row,        \
      const Real* tape, const Real* wh, const Real* peephole, const Real* to_output, Index output_step, Index output_batch,                 \
      const Real* to_final_h, const Real* to_final_c, Real* to_products, Real* to_others, Real* to_h, Real* to_c, Index ring) {             \
    body({batch, steps, units, pitch, lengths, start, unit, row, tape, wh, peephole, to_output, output_step, output_batch, to_final_h,      \
          to_final_c, to_products, to_others, to_h, to_c, ring});                                                                           \
  }

}  // namespace phased
