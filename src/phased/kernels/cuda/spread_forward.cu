// Forwards over open events of large layers, whose units are spread over the multiprocessors (spread.h).
//
// One or two warps have a unit, each with its part of the columns of its weights in registers. In a step they multiply them with h
// of every sequence in which the unit is open; then the threads of these sequences compute the cell, and publish the new h. A block
// has h of all units in shared memory, and before the next step it reads what has changed.
#include "spread.h"

namespace phased {

// The shared memory of a block.
struct SpreadForwardMemory {
  Four products[kHalves][kSequences][kOwn];
  Real h[kSequences][kHalves * kSlice];
  unsigned open[2][kSequences * kOwn / 32];  // by steps: a bit for each unit in each sequence
};
static_assert(sizeof(SpreadForwardMemory) ==
              PHASED_SPREAD_FORWARD_BYTES + kHalves * kBlocks * PHASED_SPREAD_ROWS_BYTES + kOwn * PHASED_SPREAD_BITS_BYTES);

// A warp's part of a unit's rows of weights.
struct Half {
  Four w[4][kBlocks];

  __device__ __forceinline__ Half(const Forward& p, int unit, int first, int lane) {
#pragma unroll
    for (int g = 0; g < 4; g++)
#pragma unroll
      for (int n = 0; n < kBlocks; n++) {
        const int column = first + 128 * n + 4 * lane;
        w[g][n] = unit < p.units && column < p.pitch ? load_four(p.wh + (Index(unit) * 4 + g) * p.pitch + column) : Four{};
      }
  }
  // Adds the products with the lane's columns of a row of h.
  __device__ __forceinline__ void add_to(Real sum[4], const Real* h, int lane) const {
#pragma unroll
    for (int n = 0; n < kBlocks; n++) {
      const Four x = load_four(h + 128 * n + 4 * lane);
#pragma unroll
      for (int g = 0; g < 4; g++)
#pragma unroll
        for (int l = 0; l < 4; l++) sum[g] += w[g][n].v[l] * x.v[l];
    }
  }
};

// The sums over all lanes of two times four numbers: in lane 16 i + 4 g that of number g of the i-th. Each exchange but the last two
// halves the numbers that a lane has.
__device__ __forceinline__ Real sums_of(const Real one[4], const Real two[4], int lane) {
  const bool second = lane & 16, upper = lane & 8, odd = lane & 4;
  Real own[4];
#pragma unroll
  for (int g = 0; g < 4; g++) own[g] = (second ? two[g] : one[g]) + __shfl_xor_sync(kAll, second ? one[g] : two[g], 16);
#pragma unroll
  for (int g = 0; g < 2; g++) own[g] = (upper ? own[g + 2] : own[g]) + __shfl_xor_sync(kAll, upper ? own[g] : own[g + 2], 8);
  Real all = (odd ? own[1] : own[0]) + __shfl_xor_sync(kAll, odd ? own[0] : own[1], 4);
  all += __shfl_xor_sync(kAll, all, 2);
  return all + __shfl_xor_sync(kAll, all, 1);
}

// The products of a warp's unit in all sequences where it is open, two at a time.
__device__ __forceinline__ void multiply(SpreadForwardMemory& memory, const Half& half, int step, int warp, int lane) {
  const int own = warp / kHalves, side = warp % kHalves;
  // A lane looks up whether the unit is open in its sequence.
  unsigned left = __ballot_sync(kAll, memory.open[step % 2][lane * kOwn / 32] >> (lane * kOwn % 32 + own) & 1);
  while (left) {
    const int one = __ffs(left) - 1;
    left &= left - 1;
    const int two = left ? __ffs(left) - 1 : one;
    left &= left - 1;
    Real of_one[4] = {}, of_two[4] = {};
    half.add_to(of_one, memory.h[one] + side * kSlice, lane);
    half.add_to(of_two, memory.h[two] + side * kSlice, lane);
    const Real sum = sums_of(of_one, of_two, lane);
    if (lane % 4 == 0) memory.products[side][lane < 16 ? one : two][own].v[lane / 4 % 4] = sum;
  }
}

// Reads the new h of a step's events, in rows of `h`, as soon as it is published.
__device__ __forceinline__ void receive(const Forward& p, Ahead& ahead, Real (*h)[kHalves * kSlice], int lane) {
  ahead.wait<1>(p.exchange, lane);
  bool more;
  do {
    Real number[kEach][kTurns];
    bool written = false;
#pragma unroll
    for (int n = 0; n < kEach; n++)
#pragma unroll
      for (int i = 0; i < kTurns; i++) number[n][i] = i * kLanes + lane < ahead.now[n].count ? unwritten() : Real(0);
    while (!written) {
#pragma unroll
      for (int n = 0; n < kEach; n++)
#pragma unroll
        for (int i = 0; i < kTurns; i++)
          if (!is_written(number[n][i])) number[n][i] = look_up(p.exchange + ahead.now[n].begin + i * kLanes + lane);
      written = true;
#pragma unroll
      for (int n = 0; n < kEach; n++)
#pragma unroll
        for (int i = 0; i < kTurns; i++) written = written && is_written(number[n][i]);
    }
    more = false;
#pragma unroll
    for (int n = 0; n < kEach; n++) {
#pragma unroll
      for (int i = 0; i < kTurns; i++)
        if (i * kLanes + lane < ahead.now[n].count) h[n][ahead.now[n].unit[i]] = number[n][i];
      ahead.now[n].go_on();
      more = more || ahead.now[n].count > 0;
    }
    if (more) {
#pragma unroll
      for (int n = 0; n < kEach; n++) ahead.now[n].load(p, lane);
    }
  } while (more);
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) spread_forward(const Forward p) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (!p.is_called()) return;
  SpreadForwardMemory& memory = *reinterpret_cast<SpreadForwardMemory*>(shared);
  const Spread at(p);
  const int own = threadIdx.x % kOwn, unit = at.unit, steps = int(p.steps);
  const Half half(p, unit - own + at.warp / kHalves, at.warp % kHalves * kSlice, at.lane);
  const bool keeps = p.keeps(), computes = at.sequence < kSequences;
  Real w[3] = {};
  if (unit < p.units) peepholes(p.peephole, p.units, unit, w);
  const int b = at.first + at.sequence;
  const bool has_rows = computes && b < at.end, there = has_rows && unit < p.units;
  const int length = there ? length_of(p, b) : 0;
  const Index state = Index(b) * p.units + unit;
  Real h = there && p.initial_h ? p.initial_h[state] : Real(0), c = there && p.initial_c ? p.initial_c[state] : Real(0);
  for (int i = threadIdx.x; i < kSequences * kHalves * kSlice; i += blockDim.x) {
    const int column = i % (kHalves * kSlice), row = i / (kHalves * kSlice);
    const bool given = p.initial_h && at.first + row < at.end && column < p.units;
    memory.h[row][column] = given ? p.initial_h[(at.first + row) * p.units + column] : Real(0);
  }
  // The thread's events of this step and of the next one, and what is known of the one after them.
  Lookup lookup;
  lookup.load(p, b * steps, has_rows && steps > 0, unit);
  int event = lookup.event(unit);
  Arrival arrival;
  if (event >= 0) arrival = p.arrivals[event];
  lookup.load(p, b * steps + 1, has_rows && steps > 1, unit);
  int next = lookup.event(unit);
  lookup.load(p, b * steps + 2, has_rows && steps > 2, unit);
  const auto show_open = [&](int j, int of) {
    const unsigned bits = __ballot_sync(kAll, of >= 0);
    if (at.lane == 0 && computes) memory.open[j % 2][at.warp] = bits;
  };
  show_open(0, event);
  const int reads = at.warp * kEach;
  Ahead ahead = {};  // no event before the first step
  ahead.look(p, at.first + reads, at.end, 0);
  for (int j = 0; j < steps; j++) {
    receive(p, ahead, memory.h + reads, at.lane);
    __syncthreads();
    multiply(memory, half, j, at.warp, at.lane);
    __syncthreads();
    Real record[kRecord];
    if (event >= 0) {
      Four sums = memory.products[0][at.sequence][own];
      if (kHalves == 2) sums = sums + memory.products[kHalves - 1][at.sequence][own];
      Real a[4], new_c;
      for (int g = 0; g < 4; g++) a[g] = sums.v[g] + arrival.terms[g];
      h = accept(a, arrival.head.k, h, c, w, new_c, record), c = new_c;
      publish(p.exchange + event, h);
    }
    if (there) p.output[(Index(j) * p.batch + b) * p.units + unit] = j < length ? h : Real(0);
    if (event >= 0 && keeps) p.tape[event].write(record);
    show_open(j + 1, next);
    event = next;
    if (event >= 0) arrival = p.arrivals[event];
    next = lookup.event(unit);
    lookup.load(p, b * steps + j + 3, has_rows && j + 3 < steps, unit);
    ahead.take(p, at.lane), ahead.look(p, at.first + reads, at.end, j + 1);
  }
  if (there) {
    p.final_h[state] = h;
    if (Cell::has_c) p.final_c[state] = c;
  }
}

}  // namespace phased
