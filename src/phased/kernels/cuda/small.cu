// The recurrence where every unit has an event at every step, of a small layer: with a leak. All weights are in registers and
// shared memory, so that no step reads them from elsewhere. A block computes `ring` sequences at once, up to four, each with the same
// weights. Four threads have a unit. In a step each multiplies its part of the weights with all sequences; then they exchange their
// sums, and compute a cell each: thread i that of sequence i.
#include "steps.h"

namespace phased {

constexpr int kMostUnits = PHASED_SMALL;    // of a layer
constexpr int kHeldFours = PHASED_HELD_FOURS;  // fours of weights in a thread's registers
constexpr int kSharesPitch = kMostUnits + 8;  // rows of the four products: threads that read several at once use different banks

// A thread's weights: of every fourth four of a vector's numbers, from `offset` on, for four sums.
struct Held {
  Four held[kHeldFours];
  Four* more;  // in shared memory, one of every thread side by side
  int turns, threads, offset;

  // read(four, sum): the weights for a sum of the numbers that a four of the vector has.
  template <class Read>
  __device__ __forceinline__ Held(unsigned char* shared, int count, int offset, const Read& read)
      : more(reinterpret_cast<Four*>(shared) + threadIdx.x), turns((count + 15) / 16), threads(blockDim.x), offset(offset) {
#pragma unroll
    for (int i = 0; i < kHeldFours; i++) held[i] = read(i / 4 * 4 + offset, i % 4);
    for (int i = kHeldFours; i < 4 * turns; i++) more[(i - kHeldFours) * threads] = read(i / 4 * 4 + offset, i % 4);
  }
  // The bytes before what else is in shared memory.
  static __device__ __forceinline__ int bytes(int count) {
    const int fours = (count + 15) / 16 * 4;
    return fours > kHeldFours ? (fours - kHeldFours) * int(blockDim.x * sizeof(Four)) : 0;
  }
  // The four sums for each of S vectors, `pitch` numbers from each other.
  template <int S>
  __device__ __forceinline__ void times(const Real* vectors, int pitch, Real sums[4][4]) const {
#pragma unroll
    for (int i = 0; i < 16; i++) sums[i / 4][i % 4] = 0;
    const auto add = [&](int turn, const Four weights[4]) {
#pragma unroll
      for (int s = 0; s < S; s++) {
        const Four x = load_four(vectors + s * pitch + 4 * (4 * turn + offset));
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int l = 0; l < 4; l++) sums[s][i] += weights[i].v[l] * x.v[l];
      }
    };
#pragma unroll
    for (int turn = 0; turn < kHeldFours / 4; turn++) add(turn, held + 4 * turn);
#pragma unroll 2
    for (int turn = kHeldFours / 4; turn < turns; turn++) {
      Four weights[4];
#pragma unroll
      for (int i = 0; i < 4; i++) weights[i] = more[(4 * turn + i - kHeldFours) * threads];
      add(turn, weights);
    }
  }
};

// Of two numbers, the one that the lane keeps, plus what lane `lane ^ apart` gives of it: lanes with this bit set keep the second.
__device__ __forceinline__ Real halved(Real one, Real two, int apart) {
  const bool second = threadIdx.x & apart;
  return (second ? two : one) + __shfl_xor_sync(kAll, second ? one : two, apart);
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
  // All four products of the unit, with a quarter of the columns of h.
  const Held weights(shared, units, part, [&](int four, int g) {
    return own.there && 4 * four < p.pitch ? load_four(p.wh + (Index(unit) * 4 + g) * p.pitch + 4 * four) : Four{};
  });
  Real* const copies = reinterpret_cast<Real*>(shared + Held::bytes(units));  // two of every sequence's h
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
    Real sums[4][4], a[4];
    weights.times<S>(copies + j % 2 * S * kMostUnits, kMostUnits, sums);
    // The sums of all four threads: thread i has the products of sequence i.
#pragma unroll
    for (int g = 0; g < 4; g++) {
#pragma unroll
      for (int s = 0; s < (S > 1 ? 2 : 1); s++) sums[s][g] = halved(sums[s][g], sums[s + 2][g], 2);
      a[g] = halved(sums[0][g], sums[1][g], 1);
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
  // For sixteen threads four columns of h, and for each thread one product of a quarter of the units.
  const int beside = threadIdx.x % 16 / 4, columns = unit - beside;
  const Held weights(shared, units, beside, [&](int four, int i) {
    Four found = {};
    for (int l = 0; l < 4; l++)
      if (4 * four + l < units && columns + i < units) found.v[l] = p.wh[(Index(4 * four + l) * 4 + part) * p.pitch + columns + i];
    return found;
  });
  Real* const shares = reinterpret_cast<Real*>(shared + Held::bytes(units));  // two steps' gradients to all products
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
    Real sums[4][4];
    weights.times<S>(now + part * kSharesPitch, 4 * kSharesPitch, sums);
    // The sums of all sixteen threads: thread i of a unit has that of its column for sequence i.
#pragma unroll
    for (int s = 0; s < S; s++) {
#pragma unroll
      for (int i = 0; i < 2; i++) sums[s][i] = halved(sums[s][i], sums[s][i + 2], 8);
      sums[s][0] = halved(sums[s][0], sums[s][1], 4);
    }
#pragma unroll
    for (int s = 0; s < (S > 1 ? 2 : 1); s++) sums[s][0] = halved(sums[s][0], sums[s + 2][0], 2);
    const Real sum = halved(sums[0][0], sums[1][0], 1);
    if (in_time) to_h += sum;
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
