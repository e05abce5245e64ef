// Large layers: units are spread over the multiprocessors, so that each keeps the weights of its own units for all steps. Weights
// of 1,024 units are 16 MB; the shared memory of all multiprocessors holds them, that of one does not.
//
// A block has kOwn units, and a warp of it a sequence; then the next one, where there are more sequences than warps. The blocks of a
// group have the same sequences, and run at once. In every step a warp reads what the same sequence's warps of all blocks have
// computed, from GPU memory that had all bits set before: a number with other bits has been written. So there is no barrier, neither
// of blocks nor of warps, and no sequence waits for another one. Several groups of blocks have sequences of their own.
//
// A lane has an event of the step, and multiplies the weights between its unit and each of the block's units. Its sums for them are
// added to those of the other lanes only before a step in which one of the block's units is open.
#pragma once

#include "steps.h"

namespace phased {

constexpr int kOwn = PHASED_SPREAD_UNITS;
static_assert(kOwn == 8 && kLanes == 32);  // of one word of the mask, and four lanes each

// Which of the block's units a lane has, and its group's sequences, first to end.
struct Spread {
  const int lane, warp, warps, own, base;
  int first, end;

  template <class P>
  __device__ explicit Spread(const P& p)
      : lane(threadIdx.x % kLanes),
        warp(threadIdx.x / kLanes),
        warps(blockDim.x / kLanes),
        own(lane % kOwn),
        base(int(blockIdx.x % unsigned(p.ring)) * kOwn) {
    const int blocks = int(p.ring), groups = int(gridDim.x) / blocks, batch = int(p.batch), share = (batch + groups - 1) / groups;
    const Index begin = Index(int(blockIdx.x) / blocks) * share;
    first = begin < batch ? int(begin) : batch;
    end = batch - first < share ? batch : first + share;
  }
};

// The events of a row: the number of the first, how many there are, and the number of that of the lane's unit, -1 if it is closed.
struct Row {
  int begin, count, event;
  bool busy;  // whether one of the block's units is open
};

// A row as it is loaded, some steps ahead: a word of the mask for each lane.
struct Loaded {
  unsigned bits;
  int begin;

  template <class P>
  __device__ __forceinline__ void load(const P& p, int row, bool there, int lane) {
    const int words = int(p.units + 31) / 32;
    bits = 0, begin = 0;
    if (there && lane < words) bits = p.mask[Index(row) * words + lane];
    if (there) begin = int(p.start[row]);
  }
  // Called by whole warps.
  __device__ __forceinline__ Row row(const Spread& at) const {
    const int word = at.base / 32, own = __popc(bits);
    const unsigned sums = __reduce_add_sync(kAll, unsigned(own | (at.lane < word ? own << 16 : 0)));  // of all, of those before
    const unsigned of_block = __shfl_sync(kAll, bits, word) >> at.base % 32 & ((1u << kOwn) - 1);
    const unsigned before = __shfl_sync(kAll, bits, word) & ((1u << at.base % 32) - 1);
    Row row;
    row.begin = begin, row.count = int(sums & 0xffff), row.busy = of_block != 0;
    row.event = of_block >> at.own & 1
                    ? begin + int(sums >> 16) + __popc(before) + __popc(of_block & ((1u << at.own) - 1))
                    : -1;
    return row;
  }
};

// The units of a row's events, kRound at a time: lane l has the l-th of each 32.
constexpr int kTurns = 2, kRound = kTurns * kLanes;

struct Events {
  int begin, count, unit[kTurns];

  template <class P>
  __device__ __forceinline__ void load(const P& p, int from, int many, int lane) {
    begin = from, count = many;
#pragma unroll
    for (int i = 0; i < kTurns; i++) unit[i] = i * kLanes + lane < count ? p.unit[begin + i * kLanes + lane] : 0;
  }
};

// The number `mine` of lane `lane ^ apart`, added to `sum`.
__device__ __forceinline__ void add_of(Real& sum, Real mine, int apart) { sum += __shfl_xor_sync(kAll, mine, apart); }

}  // namespace phased
