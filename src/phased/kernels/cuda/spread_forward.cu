// Forwards over open events of large layers, whose units are spread over the multiprocessors (spread.h).
//
// A warp has the products of all weights of its block's units with h of its sequence, for open and closed units. In a step it reads
// by how much each open unit of the layer has changed its h, and adds what that changes in the products.
#include "spread.h"

namespace phased {

// The weights of a block's units on h of all units.
struct OfOwn {
  Four weight[kOwn];
};
static_assert(sizeof(OfOwn) == PHASED_SPREAD_ROW_BYTES);

__device__ __forceinline__ void hold_rows(const Forward& p, OfOwn* weights, int base) {
  for (int i = threadIdx.x; i < kOwn * int(p.pitch / 4); i += blockDim.x) {
    const int own = i % kOwn, column = i / kOwn * 4;
    Four w[4] = {};
#pragma unroll
    for (int g = 0; g < 4; g++)
      if (base + own < p.units) w[g] = load_four(p.wh + (Index(base + own) * 4 + g) * p.pitch + column);
#pragma unroll
    for (int l = 0; l < 4; l++) weights[column + l].weight[own] = {w[0].v[l], w[1].v[l], w[2].v[l], w[3].v[l]};
  }
}

// What a lane's events have added to the products: of[k] to those of unit k ^ lane % kOwn, so that lanes which read rows of weights
// together read them from different banks.
struct Added {
  Four of[kOwn];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int k = 0; k < kOwn; k++) of[k] = Four{};
  }
  __device__ __forceinline__ void add(const OfOwn& row, Real change, int own) {
#pragma unroll
    for (int k = 0; k < kOwn; k++) {
      const Four w = row.weight[k ^ own];
#pragma unroll
      for (int g = 0; g < 4; g++) of[k].v[g] += w.v[g] * change;
    }
  }
  // The sum over all lanes of product lane / kOwn of unit lane % kOwn. Each exchange halves the numbers that a lane has.
  __device__ __forceinline__ Real sum(int lane) {
#pragma unroll
    for (int apart = kOwn / 2; apart; apart /= 2)
#pragma unroll
      for (int k = 0; k < apart; k++)
#pragma unroll
        for (int g = 0; g < 4; g++) add_of(of[k].v[g], of[k + apart].v[g], apart);
    const bool upper = lane & 16, odd = lane & 8;
    const Real* const all = of[0].v;
    Real two[2];
#pragma unroll
    for (int g = 0; g < 2; g++) two[g] = (upper ? all[g + 2] : all[g]) + __shfl_xor_sync(kAll, upper ? all[g] : all[g + 2], 16);
    return (odd ? two[1] : two[0]) + __shfl_xor_sync(kAll, odd ? two[0] : two[1], 8);
  }
};

// Adds the changes of a row's events, as soon as they are published.
__device__ __forceinline__ void receive(const Forward& p, Events events, const OfOwn* weights, Added& added, const Spread& at) {
  while (events.count > 0) {
    Real change[kTurns];
    bool written = false;
#pragma unroll
    for (int i = 0; i < kTurns; i++) change[i] = i * kLanes + at.lane < events.count ? unwritten() : Real(0);
    while (!written) {
#pragma unroll
      for (int i = 0; i < kTurns; i++)
        if (!is_written(change[i])) change[i] = look_up(p.exchange + events.begin + i * kLanes + at.lane);
      written = true;
#pragma unroll
      for (int i = 0; i < kTurns; i++) written = written && is_written(change[i]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kTurns; i++)
      if (i * kLanes + at.lane < events.count) added.add(weights[events.unit[i]], change[i], at.own);
    if (events.count <= kRound) break;
    events.load(p, events.begin + kRound, events.count - kRound, at.lane);
  }
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) spread_forward(const Forward p) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (!p.is_called()) return;
  OfOwn* const weights = reinterpret_cast<OfOwn*>(shared);
  const Spread at(p);
  hold_rows(p, weights, at.base);
  __syncthreads();
  const int unit = at.base + at.own, steps = int(p.steps), gate = at.lane / kOwn;
  const bool keeps = p.keeps(), there = unit < p.units, writes = there && gate == 0;
  Real w[3] = {};
  if (there) peepholes(p.peephole, p.units, unit, w);
  for (int b = at.first + at.warp; b < at.end; b += at.warps) {
    const int length = length_of(p, b), first = b * steps;
    const Index state = Index(b) * p.units + unit;
    Real h = there && p.initial_h ? p.initial_h[state] : Real(0), c = there && p.initial_c ? p.initial_c[state] : Real(0);
    double product = 0;  // `gate` of the lane's unit
    Added added;
    added.clear();
    for (int v = at.lane; p.initial_h && v < p.units; v += kLanes)
      added.add(weights[v], p.initial_h[Index(b) * p.units + v], at.own);
    // The row of this step, and that of the next one as it is loaded.
    Loaded loaded;
    loaded.load(p, first, steps > 0, at.lane);
    Row now = loaded.row(at);
    loaded.load(p, first + 1, steps > 1, at.lane);
    Real k = 0, term = 0;  // of the lane's event: its openness, and what input and bias add to the product
    if (now.event >= 0) k = p.arrivals[now.event].head.k, term = p.arrivals[now.event].terms[gate];
    Events before = {};  // of the step before this one
    for (int j = 0; j < steps; j++) {
      receive(p, before, weights, added, at);
      if (now.busy) {
        product += added.sum(at.lane);
        added.clear();
        const Real sum = static_cast<Real>(product) + term;
        Real a[4], new_c, record[kRecord];
#pragma unroll
        for (int g = 0; g < 4; g++) a[g] = __shfl_sync(kAll, sum, g * kOwn + at.own);
        if (now.event >= 0) {
          const Real new_h = accept(a, k, h, c, w, new_c, record);
          if (writes) publish(p.exchange + now.event, new_h - h);
          h = new_h, c = new_c;
          if (writes && keeps) p.tape[now.event].write(record);
        }
      }
      if (writes) p.output[(Index(j) * p.batch + b) * p.units + unit] = j < length ? h : Real(0);
      before.load(p, now.begin, now.count, at.lane);
      now = loaded.row(at);
      if (now.event >= 0) k = p.arrivals[now.event].head.k, term = p.arrivals[now.event].terms[gate];
      loaded.load(p, first + j + 2, j + 2 < steps, at.lane);
    }
    if (writes) {
      p.final_h[state] = h;
      if (Cell::has_c) p.final_c[state] = c;
    }
  }
}

}  // namespace phased
