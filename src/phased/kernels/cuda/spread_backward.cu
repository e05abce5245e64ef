// Backwards over open events of large layers, the mirror of spread_forward.cu.
//
// A block has its units' columns of the weights of all units. In a step the lanes of open units compute and publish the gradients to
// their products. Each warp reads those of its sequence, and multiplies them with its block's columns: that is what they add to the
// gradients to its units' h.
#include "spread.h"

namespace phased {

// The weights of a unit on h of the block's units.
struct OnOwn {
  Four weight[kOwn];
};
static_assert(sizeof(OnOwn) == PHASED_SPREAD_ROW_BYTES);

__device__ __forceinline__ void hold_columns(const Backward& p, OnOwn* weights, int base) {
  for (int i = threadIdx.x; i < int(p.units) * 4 * kOwn; i += blockDim.x) {
    const int own = i % kOwn, row = i / kOwn;
    weights[row / 4].weight[own].v[row % 4] = base + own < p.units ? p.wh[Index(row) * p.pitch + base + own] : Real(0);
  }
}

__device__ __forceinline__ bool are_written(const Four& four) {
  return is_written(four.v[0]) && is_written(four.v[1]) && is_written(four.v[2]) && is_written(four.v[3]);
}

// What a lane's events have added to the gradients to h: of[k] to that of unit k ^ lane % kOwn, as forwards.
struct Added {
  Real of[kOwn];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int k = 0; k < kOwn; k++) of[k] = 0;
  }
  __device__ __forceinline__ void add(const OnOwn& row, const Four& share, int own) {
#pragma unroll
    for (int k = 0; k < kOwn; k++) {
      const Four w = row.weight[k ^ own];
#pragma unroll
      for (int g = 0; g < 4; g++) of[k] += w.v[g] * share.v[g];
    }
  }
  // The sum over all lanes for unit lane % kOwn.
  __device__ __forceinline__ Real sum() {
#pragma unroll
    for (int apart = kOwn / 2; apart; apart /= 2)
#pragma unroll
      for (int k = 0; k < apart; k++) add_of(of[k], of[k + apart], apart);
#pragma unroll
    for (int apart = kOwn; apart < kLanes; apart *= 2) add_of(of[0], of[0], apart);
    return of[0];
  }
};

// Adds what the events of a row add, as soon as it is published.
__device__ __forceinline__ void receive(const Backward& p, Events events, const OnOwn* weights, Added& added, const Spread& at) {
  while (events.count > 0) {
    Four share[kTurns];
    bool written = false;
#pragma unroll
    for (int i = 0; i < kTurns; i++) {
      share[i] = Four{};
      if (i * kLanes + at.lane < events.count) share[i].v[0] = unwritten();
    }
    while (!written) {
#pragma unroll
      for (int i = 0; i < kTurns; i++)
        if (!are_written(share[i])) look_up_four(share[i].v, p.to_products + 4 * Index(events.begin + i * kLanes + at.lane));
      written = true;
#pragma unroll
      for (int i = 0; i < kTurns; i++) written = written && are_written(share[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kTurns; i++)
      if (i * kLanes + at.lane < events.count) added.add(weights[events.unit[i]], share[i], at.own);
    if (events.count <= kRound) break;
    events.load(p, events.begin + kRound, events.count - kRound, at.lane);
  }
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) spread_backward(const Backward p) {
  extern __shared__ __align__(16) unsigned char shared[];
  OnOwn* const weights = reinterpret_cast<OnOwn*>(shared);
  const Spread at(p);
  hold_columns(p, weights, at.base);
  __syncthreads();
  const int unit = at.base + at.own, steps = int(p.steps);
  const bool there = unit < p.units, writes = there && at.lane < kOwn;
  Real w[3] = {};
  if (there) peepholes(p.peephole, p.units, unit, w);
  for (int b = at.first + at.warp; b < at.end; b += at.warps) {
    const int length = there ? length_of(p, b) : 0, first = b * steps;
    const Index state = Index(b) * p.units + unit;
    Real to_h = there && p.to_final_h ? p.to_final_h[state] : Real(0);
    Real to_c = Cell::has_c && there && p.to_final_c ? p.to_final_c[state] : Real(0);
    const auto to_output = [&](int j) {
      return p.to_output && j >= 0 && j < length ? p.to_output[Index(j) * p.output_step + Index(b) * p.output_batch + unit] : Real(0);
    };
    Added added;
    added.clear();
    // The row of this step, and that of the next one as it is loaded.
    Loaded loaded;
    loaded.load(p, first + steps - 1, steps > 0, at.lane);
    Row now = loaded.row(at);
    loaded.load(p, first + steps - 2, steps > 1, at.lane);
    Record kept = {};
    if (now.event >= 0) kept = p.tape[now.event].read();
    Real from_output = to_output(steps - 1);
    Events events;
    events.load(p, now.begin, now.count, at.lane);
    for (int j = steps - 1; j >= 0; j--) {
      to_h += from_output;
      if (now.busy) {
        Real record[kRecord];
        kept.unpack(record);
        to_h += added.sum();
        added.clear();
        if (now.event >= 0) {
          const Shares share(record, w, to_h, to_c);
          if (writes) {
            publish_four(p.to_products + 4 * Index(now.event), share.products.v);
            share.write_others(p, now.event);
          }
        }
      }
      from_output = to_output(j - 1);
      now = loaded.row(at);
      if (now.event >= 0) kept = p.tape[now.event].read();
      loaded.load(p, first + j - 2, j >= 2, at.lane);
      receive(p, events, weights, added, at);
      events.load(p, now.begin, now.count, at.lane);
    }
    to_h += added.sum();
    if (writes && p.to_h) p.to_h[state] = to_h;
    if (writes && p.to_c) p.to_c[state] = to_c;
  }
}

}  // namespace phased
