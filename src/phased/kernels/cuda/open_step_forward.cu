// Forwards, one step of a layer with many units, over its open events. A launch computes a step of all sequences, so that the weights
// of a unit, which come from GPU memory or the L2 cache, are read once for all sequences in which it is open.
#include "bits.h"
#include "steps.h"

namespace phased {

constexpr int kThreads = PHASED_THREADS;
static_assert(kThreads == kWarps * kLanes);

// Four columns of a row of h, which has no padding. Where rows are not whole fours, they are not aligned.
template <bool Whole>
__device__ __forceinline__ Four columns_of(const Real* row, int column, int units) {
  if (Whole) return load_four(row + column);
  Four found;
#pragma unroll
  for (int l = 0; l < 4; l++) {
    const Real value = row[column + l < units ? column + l : 0];  // loaded in any case: a branch would delay the other loads
    found.v[l] = column + l < units ? value : Real(0);
  }
  return found;
}

// Adds the products of a unit's weights with h of Count sequences, in Blocks blocks of columns from `column` on. All numbers are
// loaded before the first is added.
template <bool Whole, int Count, int Blocks>
__device__ __forceinline__ void add_columns(const Real* weights, int pitch, const Real* const rows[Count], int column, int units,
                                            Real sums[Count][4]) {
  Four w[Blocks][4], x[Blocks][Count];
#pragma unroll
  for (int n = 0; n < Blocks; n++) {
#pragma unroll
    for (int g = 0; g < 4; g++) w[n][g] = load_four(weights + g * pitch + column + n * 128 * kWarps);
#pragma unroll
    for (int s = 0; s < Count; s++) x[n][s] = columns_of<Whole>(rows[s], column + n * 128 * kWarps, units);
  }
#pragma unroll
  for (int n = 0; n < Blocks; n++)
#pragma unroll
    for (int s = 0; s < Count; s++)
#pragma unroll
      for (int g = 0; g < 4; g++)
#pragma unroll
        for (int l = 0; l < 4; l++) sums[s][g] += w[n][g].v[l] * x[n][s].v[l];
}

// The products of a unit's weights with h of Count sequences. A warp multiplies every kWarps-th block of columns; its sums go to `to`.
template <bool Whole, int Count>
__device__ __forceinline__ void multiply(const Forward& p, int unit, const Real* h, const Index* sequences, Four* to) {
  constexpr int kAtOnce = Count <= 2 && sizeof(Real) == 4 ? 2 : 1;
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, units = int(p.units), pitch = int(p.pitch);
  const Real* const weights = p.wh + Index(unit) * 4 * pitch;
  const Real* rows[Count];
#pragma unroll
  for (int s = 0; s < Count; s++) rows[s] = h + sequences[s] * units;
  Real sums[Count][4] = {};
  int column = 128 * warp + 4 * lane;
#pragma unroll 1
  for (; column + (kAtOnce - 1) * 128 * kWarps < pitch; column += kAtOnce * 128 * kWarps)
    add_columns<Whole, Count, kAtOnce>(weights, pitch, rows, column, units, sums);
#pragma unroll 1
  for (; column < pitch; column += 128 * kWarps) add_columns<Whole, Count, 1>(weights, pitch, rows, column, units, sums);
#pragma unroll
  for (int s = 0; s < Count; s++)
#pragma unroll
    for (int g = 0; g < 4; g++) {
      for (int apart = kLanes / 2; apart; apart /= 2) sums[s][g] += __shfl_xor_sync(kAll, sums[s][g], apart);
      if (lane == 0) to[s].v[g] = sums[s][g];
    }
}
template <int Count>
__device__ __forceinline__ void multiply(const Forward& p, int unit, const Real* h, const Index* sequences, Four* to) {
  if (p.units % 4 == 0) {
    multiply<true, Count>(p, unit, h, sequences, to);
  } else {
    multiply<false, Count>(p, unit, h, sequences, to);
  }
}

// The state of a unit in a sequence before a step: until the last step it is where the final state will be.
struct Held {
  Real h, c;

  __device__ __forceinline__ Held() {}
  __device__ __forceinline__ Held(const Forward& p, Index step, Index i) {
    const Real *const from_h = step ? p.final_h : p.initial_h, *const from_c = step ? p.final_c : p.initial_c;
    h = from_h ? from_h[i] : Real(0), c = Cell::has_c && from_c ? from_c[i] : Real(0);
  }
  __device__ __forceinline__ void write(const Forward& p, Index i) const {
    p.final_h[i] = h;
    if (Cell::has_c) p.final_c[i] = c;
  }
};

// A block for each unit; h before the step is the output of the last one. In each of its warps lane l knows in which of the
// sequences 32 l to 32 l + 31 the unit is open. They multiply h of as many sequences at a time as there are warps. Then a warp computes
// the cell of one of them.
extern "C" __global__ void __launch_bounds__(PHASED_THREADS, PHASED_OPEN_BLOCKS) open_step_forward(const Forward p, Index step) {
  __shared__ Four products[2][kWarps][kWarps];  // of this turn and the one before, which may still be read; by warp and sequence
  if (!p.is_called()) return;
  const int unit = int(blockIdx.x), units = int(p.units), words = (units + 31) / 32, word = unit / 32, bit = unit % 32;
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const Real* const h = step ? p.output + (step - 1) * p.batch * units : p.initial_h;
  const bool keeps = p.keeps();
  const auto is_open = [&](Index b) { return b < p.batch && (p.mask[(b * p.steps + step) * words + word] >> bit & 1); };
  int turn = 0;
  for (Index first = 0; first < p.batch; first += kLanes * kLanes) {
    unsigned left = 0;
    for (int l = 0; l < kLanes && first + l * kLanes < p.batch; l++) {
      const unsigned open = __ballot_sync(kAll, is_open(first + l * kLanes + lane));
      if (lane == l) left = open;
    }
    for (unsigned any; (any = __ballot_sync(kAll, left != 0)); turn ^= 1) {
      Index sequences[kWarps], own = 0;
      int some = 0;
#pragma unroll
      for (int s = 0; s < kWarps; s++) {
        const int l = any ? __ffs(any) - 1 : 0;
        const unsigned open = __shfl_sync(kAll, left, l);
        sequences[s] = open ? first + l * kLanes + __ffs(open) - 1 : sequences[0];
        if (open) some = s + 1;
        if (open && s == warp) own = sequences[s];
        if (lane == l) left &= left - 1;
        any = __ballot_sync(kAll, left != 0);
      }
      // Of the warp's own event, loaded early: its number, and what it is computed from.
      const Index row = own * p.steps + step, i = own * units + unit;
      const unsigned* const mask = p.mask + row * words;
      const Index event = warp < some ? p.start[row] + open_in(mask, word, lane) + __popc(mask[word] & ((1u << bit) - 1)) : 0;
      Arrival arrival;
      Held state;
      if (warp < some) arrival = p.arrivals[event], state = Held(p, step, i);
      Four* const to = products[turn][warp];
      if (!h) {
        if (lane < kWarps) to[lane] = Four{};
      } else if (some == 1) {
        multiply<1>(p, unit, h, sequences, to);
      } else if (some == 2) {
        multiply<2>(p, unit, h, sequences, to);
      } else {
        multiply<kWarps>(p, unit, h, sequences, to);
      }
      __syncthreads();
      if (warp < some) {
        Real sum = 0, a[4], w[3] = {}, record[kRecord];
        if (lane < 4)
          for (int n = 0; n < kWarps; n++) sum += products[turn][n][warp].v[lane];
        for (int g = 0; g < 4; g++) a[g] = __shfl_sync(kAll, sum, g) + arrival.terms[g];
        peepholes(p.peephole, units, unit, w);
        state.h = accept(a, arrival.head.k, state.h, state.c, w, state.c, record);  // all lanes alike
        if (lane == 0) {
          p.output[(step * p.batch + own) * units + unit] = state.h;
          state.write(p, i);
          if (keeps) p.tape[event].write(record);
        }
      }
    }
  }
  for (Index b = threadIdx.x; b < p.batch; b += kThreads)
    if (!is_open(b)) {
      const Held state(p, step, b * units + unit);
      p.output[(step * p.batch + b) * units + unit] = step < length_of(p, b) ? state.h : Real(0);
      if (step == 0) state.write(p, b * units + unit);
    }
}

}  // namespace phased
