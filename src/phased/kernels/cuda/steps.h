// One event in a step, forwards and backwards; and the arguments of the recurrence's kernels: `ring` events of a sequence are in
// shared memory at a time, and no step has more than `most`.
#pragma once

#include "products.h"

namespace phased {

struct Forward {
  Index batch, steps, units, pitch;
  const Index *lengths, *start;
  const unsigned* mask;
  const Arrival* arrivals;
  const Real *wh, *peephole, *initial_h, *initial_c;  // the state may be null: zeros
  Real *output, *final_h, *final_c;
  Record* tape;  // (room,), or null; room: its capacity
  const Index* found;  // [1]: how many events there are; or null: one for every unit in every row
  Index room;
  // Where blocks compute the same sequences (spread.h), else null: the events' units, and what they add to h; all its bits are set.
  const int* unit;
  Real* exchange;
  Index least, below, largest, ring, most;

  // Whether the kernel computes this batch. The host may have guessed how many events there are in all, and at most in a step; if
  // there are more, it launches kernels again.
  __device__ __forceinline__ bool is_called() const {
    return phased::is_called(found, least, below) && (!found || found[0] <= largest);
  }

  // Whether there is a tape with capacity for all events.
  __device__ __forceinline__ bool keeps() const { return tape && (!found || found[1] <= room); }
};

struct Backward {
  Index batch, steps, units, pitch;
  const Index *lengths, *start;
  const unsigned* mask;
  const int *unit, *row;
  const Record* tape;
  const Real *wh, *peephole;
  const Real* to_output;  // or null; row j of sequence b at j * output_step + b * output_batch
  Index output_step, output_batch;
  const Real *to_final_h, *to_final_c;  // or null
  Real *to_products, *to_others;  // (events, 4); (events, 1), to the openness, or (events, 4) followed by the three peepholes
  Real *to_h, *to_c;  // or null
  const Index* found;  // as forwards
  Index least, below, ring, most;

  __device__ __forceinline__ bool is_called() const { return phased::is_called(found, least, below); }
};

// A sequence's length. Lengths in GPU memory have not been checked before.
template <class P>
__device__ __forceinline__ int length_of(const P& p, Index b) {
  const Index length = p.lengths ? p.lengths[b] : p.steps;
  return static_cast<int>(length < 0 ? 0 : length > p.steps ? p.steps : length);
}

// A unit's peephole weights, where there are any.
__device__ __forceinline__ void peepholes(const Real* from, Index units, int unit, Real w[3]) {
  if (kPeephole)
    for (int i = 0; i < 3; i++) w[i] = from[i * units + unit];
}

// The cell of one event, from its products `a` and its peepholes `w`: its new h; new c goes to `new_c`, what a backward pass
// needs to `record`.
__device__ __forceinline__ Real accept(const Real a[4], Real k, Real h, Real c, const Real w[3], Real& new_c,
                                       Real record[kRecord]) {
  Real proposed_h, proposed_c;
  Cell::template propose<kPeephole, Real>(a, h, c, w, proposed_h, proposed_c, record);
  for (int i = Cell::kept; i < kRecord - 2; i++) record[i] = 0;
  record[kRecord - 2] = h, record[kRecord - 1] = k;
  new_c = k * proposed_c + (1 - k) * c;
  return k * proposed_h + (1 - k) * h;
}

// The gradients of an event: to its products, to its openness and its peepholes.
struct Shares {
  Four products, others;

  // From the gradients to its h and c, which are replaced by those to h and c before it.
  __device__ __forceinline__ Shares(const Real record[kRecord], const Real w[3], Real& to_h, Real& to_c) {
    Real to_h_before, to_c_before;
    Cell::template adjoint<Real>(record, record[kRecord - 2], record[kRecord - 1], to_h, to_c, w, products.v, to_h_before,
                                 to_c_before, others.v[0], others.v + 1);
    to_h = to_h_before, to_c = to_c_before;
  }
  __device__ __forceinline__ void write(const Backward& p, Index event) const {
    store_four(p.to_products + 4 * event, products);
    write_others(p, event);
  }
  __device__ __forceinline__ void write_others(const Backward& p, Index event) const {
    if (kPeephole) {
      store_four(p.to_others + 4 * event, others);
    } else {
      p.to_others[event] = others.v[0];
    }
  }
};

// Rows of the output's gradient, fetched some steps ahead, in the groups of copies that the caller ends. A thread has pairs of
// columns. It copies, and later reads, its own: it needs no barrier.
constexpr int kAhead = PHASED_AHEAD;
static_assert(kAhead == Staging::kLate + 1);

struct GradientRows {
  const Backward& p;
  Real* ring;
  Index b;
  int thread;

  // Calls work(q) for all columns of the thread.
  template <class Work>
  __device__ __forceinline__ void each_column(const Work& work) const {
    for (int q = 2 * thread; q < p.units; q += 2 * kHelperThreads) {
      work(q);
      if (q + 1 < p.units) work(q + 1);
    }
  }
  __device__ __forceinline__ void issue(int j) const {
    if (!p.to_output || j < 0) return;
    const Real* const row = p.to_output + j * p.output_step + b * p.output_batch;
    each_column([&](int q) { copy_ahead(ring + j % kAhead * p.pitch + q, row + q, sizeof(Real)); });
  }
  __device__ __forceinline__ Two at(int j, int q) const {
    return p.to_output && j >= 0 ? load_two(ring + j % kAhead * p.pitch + q) : Two{};
  }

  // The gradients to start with: those to the final state, and the last step's output.
  __device__ __forceinline__ void begin(int length, Real* to_h, Real* to_c) const {
    for (int i = 0; i < kAhead; i++) issue(length - 1 - i);
    end_of_copies();
    wait_for_copies<0>();
    each_column([&](int q) {
      to_h[q] = (p.to_final_h ? p.to_final_h[b * p.units + q] : Real(0)) + at(length - 1, q & ~1).v[q & 1];
      to_c[q] = Cell::has_c && p.to_final_c ? p.to_final_c[b * p.units + q] : Real(0);
    });
    issue(length - 1 - kAhead);
  }
  // Adds the output's gradient at step j, and the sums of so many warps, in rows of `pitch` numbers.
  __device__ __forceinline__ void add(int j, Real* to_h, const Real* partial, int pitch, int many) const {
    for (int q = 2 * thread; q < p.units; q += 2 * kHelperThreads) {  // a last column may have no other: there is room for one
      Two sum = load_two(to_h + q) + at(j, q);
#pragma unroll
      for (int w = 0; w < kWarps; w++)
        if (w < many) sum = sum + load_two(partial + w * pitch + q);
      *reinterpret_cast<Two*>(to_h + q) = sum;
    }
  }
  __device__ __forceinline__ void end(const Real* to_h, const Real* to_c) const {
    each_column([&](int q) {
      if (p.to_h) p.to_h[b * p.units + q] = to_h[q];
      if (p.to_c) p.to_c[b * p.units + q] = to_c[q];
    });
  }
};

// Two copies of h: a step reads one and writes the other. Both end in zeros, for lanes without columns.
struct Copies {
  Real *h, *other, *c;

  static __device__ __forceinline__ int wide(int pitch) { return (pitch + kColumns - 1) / kColumns * kColumns; }
  __device__ __forceinline__ void swap() {
    Real* const read = h;
    h = other, other = read;
  }
  __device__ __forceinline__ void begin(const Forward& p, Index b, int thread, int threads) const {
    for (int q = thread; q < wide(p.pitch); q += threads)
      h[q] = other[q] = p.initial_h && q < p.units ? p.initial_h[b * p.units + q] : Real(0);
    for (int q = thread; q < p.units; q += threads) c[q] = p.initial_c ? p.initial_c[b * p.units + q] : Real(0);
  }
  // Writes the final state, and zeros to the rest of the output.
  __device__ __forceinline__ void end(const Forward& p, Index b, int length, int thread) const {
    for (int q = thread; q < p.units; q += kHelperThreads) {
      p.final_h[b * p.units + q] = h[q];
      if (Cell::has_c) p.final_c[b * p.units + q] = c[q];
      for (Index j = length; j < p.steps; j++) p.output[(j * p.batch + b) * p.units + q] = 0;
    }
  }
};

}  // namespace phased
