// The recurrence where every unit has an event at every step, of a small layer: with a leak. A thread has one row of weights,
// forwards of one of a unit's products and backwards of one column's share of them: its first columns are in registers and the
// rest in shared memory, so that no step reads weights from elsewhere. A block computes `ring` sequences at once, up to four, each
// with the same weights. The four threads of a unit compute its products for all of them, and then a cell each: thread i that of
// sequence i.
#include "steps.h"

namespace phased {

constexpr int kMostUnits = PHASED_SMALL;    // of a layer
constexpr int kHeldFours = PHASED_HELD_FOURS;  // fours of a row in a thread's registers
constexpr int kSharesPitch = kMostUnits + 4;  // rows of the four products begin on different banks

// A thread's row: `first` the address of its first number, numbers `apart` from each other.
struct Row {
  Four held[kHeldFours];
  Four* more;  // in shared memory, one of every thread side by side
  int fours, threads;

  __device__ __forceinline__ Row(unsigned char* shared, const Real* first, Index apart, int count, bool there)
      : more(reinterpret_cast<Four*>(shared) + threadIdx.x), fours((count + 3) / 4), threads(blockDim.x) {
    const auto read = [&](int q) {
      Four four = {};
      for (int l = 0; l < 4; l++)
        if (there && 4 * q + l < count) four.v[l] = first[(4 * q + l) * apart];
      return four;
    };
#pragma unroll
    for (int q = 0; q < kHeldFours; q++) held[q] = read(q);
    for (int q = kHeldFours; q < fours; q++) more[(q - kHeldFours) * threads] = read(q);
  }
  // The bytes before what else is in shared memory.
  static __device__ __forceinline__ int bytes(int count) {
    const int fours = (count + 3) / 4;
    return fours > kHeldFours ? (fours - kHeldFours) * int(blockDim.x * sizeof(Four)) : 0;
  }
  // Its products with S vectors, `pitch` numbers from each other.
  template <int S>
  __device__ __forceinline__ void times(const Real* vectors, int pitch, Real sums[S]) const {
    Real other[S] = {};
#pragma unroll
    for (int s = 0; s < S; s++) sums[s] = 0;
    const auto add = [&](const Four& weights, int q) {
#pragma unroll
      for (int s = 0; s < S; s++) {
        const Four x = load_four(vectors + s * pitch + 4 * q);
        sums[s] += weights.v[0] * x.v[0], other[s] += weights.v[1] * x.v[1];
        sums[s] += weights.v[2] * x.v[2], other[s] += weights.v[3] * x.v[3];
      }
    };
#pragma unroll
    for (int q = 0; q < kHeldFours; q++) add(held[q], q);
#pragma unroll 4
    for (int q = kHeldFours; q < fours; q++) add(more[(q - kHeldFours) * threads], q);
#pragma unroll
    for (int s = 0; s < S; s++) sums[s] += other[s];
  }
};

// One of S numbers in registers; 0 if there is none of this number.
template <int S>
__device__ __forceinline__ Real pick(const Real numbers[S], int which) {
  Real found = 0;
#pragma unroll
  for (int s = 0; s < S; s++) found = which == s ? numbers[s] : found;
  return found;
}

// What a thread has to do: unit, product, and the sequence whose cell it computes.
template <class P, int S>
struct Own {
  int unit, part, length, longest;
  Index b;
  bool there, computes;

  __device__ __forceinline__ Own(const P& p)
      : unit(threadIdx.x / 4), part(threadIdx.x % 4), length(0), longest(0), b(Index(blockIdx.x) * S + part) {
    there = unit < p.units, computes = there && part < S && b < p.batch;
    for (int s = 0; s < S; s++) {
      const Index other = Index(blockIdx.x) * S + s;
      const int steps = other < p.batch ? length_of(p, other) : 0;
      longest = steps > longest ? steps : longest;
    }
    if (computes) length = length_of(p, b);
  }
};

__device__ __forceinline__ void clear(Real* from, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) from[i] = 0;
}

template <int S>
__device__ __forceinline__ void run_small_forward(const Forward& p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Own<Forward, S> own(p);
  const int unit = own.unit, part = own.part, units = int(p.units);
  const Row row(shared, p.wh + (Index(unit) * 4 + part) * p.pitch, 1, units, own.there);
  Real* const copies = reinterpret_cast<Real*>(shared + Row::bytes(units));  // two of every sequence's h
  clear(copies, 2 * S * kMostUnits);
  __syncthreads();
  Real h = 0, c = 0, w[3] = {};
  if (own.computes) {
    h = p.initial_h ? p.initial_h[own.b * units + unit] : Real(0);
    c = p.initial_c ? p.initial_c[own.b * units + unit] : Real(0);
    copies[part * kMostUnits + unit] = h;
    peepholes(p.peephole, units, unit, w);
  }
  const Arrival* arrivals = p.arrivals + own.b * p.steps * units + unit;
  Real* out = p.output + own.b * units + unit;
  Arrival next = own.length > 0 ? arrivals[0] : Arrival{};
  __syncthreads();
  for (int j = 0; j < own.longest; j++, out += p.batch * units) {
    const Arrival event = next;
    if (j + 1 < own.length) next = arrivals[Index(j + 1) * units];
    Real sums[S], a[4] = {};
    row.times<S>(copies + j % 2 * S * kMostUnits, kMostUnits, sums);
    // A thread has one product of every sequence, and needs all four of one: it gives thread `part ^ apart` that one's.
#pragma unroll
    for (int apart = 0; apart < 4; apart++) {
      const int other = part ^ apart;
      const Real given = __shfl_xor_sync(kAll, pick<S>(sums, other), apart);
#pragma unroll
      for (int g = 0; g < 4; g++) a[g] = g == other ? given : a[g];
    }
    if (own.computes) {
      const bool in_time = j < own.length;
      Real new_c, record[kRecord] = {};  // zeros in padding
      if (in_time) {
        for (int g = 0; g < 4; g++) a[g] += event.terms[g];
        h = accept(a, event.head.k, h, c, w, new_c, record);
        c = new_c;
      }
      if (p.tape) p.tape[(own.b * p.steps + j) * units + unit].write(record);
      copies[((j + 1) % 2 * S + part) * kMostUnits + unit] = h;
      *out = in_time ? h : Real(0);
    }
    __syncthreads();
  }
  if (!own.computes) return;
  const Real nothing[kRecord] = {};
  for (Index j = own.longest; j < p.steps; j++, out += p.batch * units) {
    *out = 0;
    if (p.tape) p.tape[(own.b * p.steps + j) * units + unit].write(nothing);
  }
  p.final_h[own.b * units + unit] = h;
  if (Cell::has_c) p.final_c[own.b * units + unit] = c;
}

template <int S>
__device__ __forceinline__ void run_small_backward(const Backward& p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const Own<Backward, S> own(p);
  const int unit = own.unit, part = own.part, units = int(p.units);
  // What column `unit` of the weights of one product contributes to the gradient of h.
  const Row row(shared, p.wh + part * p.pitch + unit, 4 * p.pitch, units, own.there);
  Real* const shares = reinterpret_cast<Real*>(shared + Row::bytes(units));  // two steps' gradients to all products
  clear(shares, 2 * S * 4 * kSharesPitch);
  Real to_h = 0, to_c = 0, w[3] = {};
  if (own.computes) {
    to_h = p.to_final_h ? p.to_final_h[own.b * units + unit] : Real(0);
    to_c = Cell::has_c && p.to_final_c ? p.to_final_c[own.b * units + unit] : Real(0);
    peepholes(p.peephole, units, unit, w);
  }
  const Index first = own.b * p.steps * units + unit;
  Real next[kRecord] = {}, next_output = 0;
  const auto fetch = [&](int j) {
    if (j < 0 || j >= own.length) return;
    p.tape[first + Index(j) * units].read(next);
    if (p.to_output) next_output = p.to_output[j * p.output_step + own.b * p.output_batch + unit];
  };
  fetch(own.longest - 1);
  __syncthreads();
  for (int j = own.longest - 1; j >= 0; j--) {
    Real* const now = shares + j % 2 * S * 4 * kSharesPitch;
    const bool in_time = j < own.length;
    if (in_time) {
      to_h += next_output;
      const Shares share(next, w, to_h, to_c);
      share.write(p, first + Index(j) * units);
      for (int g = 0; g < 4; g++) now[(part * 4 + g) * kSharesPitch + unit] = share.products.v[g];
    }
    fetch(j - 1);
    __syncthreads();
    Real sums[S];
    row.times<S>(now + part * kSharesPitch, 4 * kSharesPitch, sums);
#pragma unroll
    for (int s = 0; s < S; s++)
      for (int apart = 1; apart < 4; apart *= 2) sums[s] += __shfl_xor_sync(kAll, sums[s], apart);
    if (in_time) to_h += pick<S>(sums, part);
  }
  if (!own.computes) return;
  if (p.to_h) p.to_h[own.b * units + unit] = to_h;
  if (p.to_c) p.to_c[own.b * units + unit] = to_c;
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) small_dense_forward(const Forward p) {
  switch (p.ring) {
    case 1: return run_small_forward<1>(p);
    case 2: return run_small_forward<2>(p);
    case 3: return run_small_forward<3>(p);
    default: return run_small_forward<4>(p);
  }
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) small_dense_backward(const Backward p) {
  switch (p.ring) {
    case 1: return run_small_backward<1>(p);
    case 2: return run_small_backward<2>(p);
    case 3: return run_small_backward<3>(p);
    default: return run_small_backward<4>(p);
  }
}

}  // namespace phased
