// Backwards over open events of large layers, the mirror of spread_forward.cu.
//
// A block has its units' columns of the weights of all units in shared memory. In a step the threads of open units compute and
// publish the gradients to their products. Each block multiplies those of all blocks, sequence by sequence, with its columns: that
// is what they add to the gradients to its units' h.
#include "spread.h"

namespace phased {

// The shared memory of a block: what a step adds to the gradients to h of its units, by steps; and what each warp has read. After it
// the weights of all units on its own.
struct SpreadBackwardMemory {
  Real sums[2][kSequences][kOwn];
  Four shares[kTeams][kEach][kRound];
};
struct OnOwn {
  Four weight[kOwn];
};
static_assert(sizeof(SpreadBackwardMemory) == PHASED_SPREAD_BACKWARD_BYTES + kOwn * PHASED_SPREAD_SUMS_BYTES &&
              sizeof(OnOwn) == kOwn * sizeof(Four));

__device__ __forceinline__ bool are_written(const Four& four) {
  return is_written(four.v[0]) && is_written(four.v[1]) && is_written(four.v[2]) && is_written(four.v[3]);
}

// What the events of some sequences in a step add to the gradients to h of the block's units: sums[n] in the first kOwn lanes. Lane
// kOwn i + u has every kParts-th event from i on, and unit u.
constexpr int kParts = kLanes / kOwn;

__device__ __forceinline__ void sum_up(const Backward& p, Ahead& ahead, Four (*shares)[kRound], const OnOwn* weights, Real sums[kEach],
                                       int lane) {
  const int part = lane / kOwn, own = lane % kOwn;
  Events(&events)[kEach] = ahead.now;
  bool more;
#pragma unroll
  for (int n = 0; n < kEach; n++) sums[n] = 0;
  ahead.wait<4>(p.to_products, lane);
  do {
    Four share[kEach][kTurns];
    bool written = false;
#pragma unroll
    for (int n = 0; n < kEach; n++)
#pragma unroll
      for (int i = 0; i < kTurns; i++) {
        share[n][i] = Four{};
        if (i * kLanes + lane < events[n].count) share[n][i].v[0] = unwritten();
      }
    while (!written) {
#pragma unroll
      for (int n = 0; n < kEach; n++)
#pragma unroll
        for (int i = 0; i < kTurns; i++)
          if (!are_written(share[n][i]))
            look_up_four(share[n][i].v, p.to_products + 4 * Index(events[n].begin + i * kLanes + lane));
      written = true;
#pragma unroll
      for (int n = 0; n < kEach; n++)
#pragma unroll
        for (int i = 0; i < kTurns; i++) written = written && are_written(share[n][i]);
    }
#pragma unroll
    for (int n = 0; n < kEach; n++)
#pragma unroll
      for (int i = 0; i < kTurns; i++) shares[n][i * kLanes + lane] = share[n][i];
    __syncwarp();
    more = false;
#pragma unroll
    for (int n = 0; n < kEach; n++) {
#pragma unroll
      for (int i = 0; i < kTurns; i++)
        for (int first = 0; first < kLanes && i * kLanes + first < events[n].count; first += 8) {  // the last may be zeros
#pragma unroll
          for (int e = first; e < first + 8; e += kParts) {
            const Four weight = weights[__shfl_sync(kAll, events[n].unit[i], e + part)].weight[own];
            const Four by = shares[n][i * kLanes + e + part];
#pragma unroll
            for (int g = 0; g < 4; g++) sums[n] += by.v[g] * weight.v[g];
          }
        }
      events[n].go_on();
      more = more || events[n].count > 0;
    }
    __syncwarp();
    if (more) {
#pragma unroll
      for (int n = 0; n < kEach; n++) events[n].load(p, lane);
    }
  } while (more);
#pragma unroll
  for (int n = 0; n < kEach; n++)
    for (int apart = kOwn; apart < kLanes; apart *= 2) sums[n] += __shfl_xor_sync(kAll, sums[n], apart);
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) spread_backward(const Backward p) {
  extern __shared__ __align__(16) unsigned char shared[];
  SpreadBackwardMemory& memory = *reinterpret_cast<SpreadBackwardMemory*>(shared);
  OnOwn* const weights = reinterpret_cast<OnOwn*>(&memory + 1);
  const Spread at(p);
  const int own = threadIdx.x % kOwn, unit = at.unit, steps = int(p.steps);
  const bool computes = at.sequence < kSequences;
  for (int i = threadIdx.x; i < int(p.units) * kOwn; i += blockDim.x) {
    const int column = unit - own + i % kOwn;
    for (int g = 0; g < 4; g++)
      weights[i / kOwn].weight[i % kOwn].v[g] = column < p.units ? p.wh[(Index(i / kOwn) * 4 + g) * p.pitch + column] : Real(0);
  }
  __syncthreads();
  Real w[3] = {};
  if (unit < p.units) peepholes(p.peephole, p.units, unit, w);
  const int b = at.first + at.sequence;
  const bool has_rows = computes && b < at.end, there = has_rows && unit < p.units;
  const int length = there ? length_of(p, b) : 0;
  const Index state = Index(b) * p.units + unit;
  Real to_h = there && p.to_final_h ? p.to_final_h[state] : Real(0);
  Real to_c = Cell::has_c && there && p.to_final_c ? p.to_final_c[state] : Real(0);
  const auto to_output = [&](int j) {
    return p.to_output && j >= 0 && j < length ? p.to_output[Index(j) * p.output_step + Index(b) * p.output_batch + unit] : Real(0);
  };
  // The thread's events of this step and of the next one, and what is known of the one after them.
  Lookup lookup;
  lookup.load(p, b * steps + steps - 1, has_rows && steps > 0, unit);
  int event = lookup.event(unit);
  Real record[kRecord];
  if (event >= 0) p.tape[event].read(record);
  lookup.load(p, b * steps + steps - 2, has_rows && steps > 1, unit);
  int next = lookup.event(unit);
  lookup.load(p, b * steps + steps - 3, has_rows && steps > 2, unit);
  Real from_output = to_output(steps - 1);
  const int summed = at.first + at.warp * kEach;
  Ahead ahead;
  ahead.look(p, summed, at.end, steps - 1), ahead.take(p, at.lane), ahead.look(p, summed, at.end, steps - 2);
  for (int j = steps - 1; j >= 0; j--) {
    to_h += from_output;
    if (event >= 0) {
      const Shares share(record, w, to_h, to_c);
      publish_four(p.to_products + 4 * Index(event), share.products.v);
      share.write_others(p, event);
    }
    from_output = to_output(j - 1);
    event = next;
    if (event >= 0) p.tape[event].read(record);
    next = lookup.event(unit);
    lookup.load(p, b * steps + j - 3, has_rows && j >= 3, unit);
    Real sums[kEach];
    sum_up(p, ahead, memory.shares[at.warp], weights, sums, at.lane);
#pragma unroll
    for (int n = 0; n < kEach; n++)
      if (at.lane < kOwn) memory.sums[j % 2][at.warp * kEach + n][at.lane] = sums[n];
    ahead.take(p, at.lane), ahead.look(p, summed, at.end, j - 2);
    __syncthreads();
    if (computes) to_h += memory.sums[j % 2][at.sequence][own];
  }
  if (there && p.to_h) p.to_h[state] = to_h;
  if (there && p.to_c) p.to_c[state] = to_c;
}

}  // namespace phased
