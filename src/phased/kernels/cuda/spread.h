// Large layers: units are spread over the multiprocessors, so that each keeps the weights of its own units for all steps. Weights
// of 1,024 units are 16 MB; the registers or the shared memory of all multiprocessors hold them, those of one do not.
//
// A block has kOwn units and up to kSequences sequences: a thread for each unit in each sequence has its state. Blocks of the same
// sequences run at once, and in every step each reads what the others have computed, from GPU memory that had all bits set before:
// a number with other bits has been written. So no block waits for more than it needs. Several groups of blocks have sequences of
// their own: the fewer blocks a layer needs, the more groups there are, and the fewer sequences each has.
#pragma once

#include "steps.h"

namespace phased {

constexpr int kTeams = PHASED_THREADS / kLanes, kHalves = kWarps, kOwn = kTeams / kHalves;  // warps; of a unit; units
constexpr int kSequences = PHASED_SPREAD_SEQUENCES;
constexpr int kSlice = kBlocks * 128;  // columns of a warp
// A sequence's units have 8 or 16 lanes of a warp, and are bits of one word of the mask.
static_assert(kTeams == kOwn * kHalves && (kOwn == 8 || kOwn == 16) && kHelpers == 0 && kSequences == kLanes);

// Where a thread is: which unit it has, and in which of its group's sequences, first to end.
struct Spread {
  const int lane, warp, unit, sequence;
  int first, end;

  template <class P>
  __device__ explicit Spread(const P& p)
      : lane(threadIdx.x % kLanes),
        warp(threadIdx.x / kLanes),
        unit(int(blockIdx.x % unsigned(p.ring)) * kOwn + threadIdx.x % kOwn),
        sequence(threadIdx.x / kOwn) {
    const int blocks = int(p.ring), groups = int(gridDim.x) / blocks, batch = int(p.batch), share = (batch + groups - 1) / groups;
    const Index begin = Index(int(blockIdx.x) / blocks) * share;
    first = begin < batch ? int(begin) : batch;
    end = batch - first < share ? batch : first + share;
  }
};

// Looks up, some steps ahead, the number of the event of a thread's unit in a row; -1 if the unit is closed. Of the words of the
// mask that come before its own, each of a sequence's kOwn lanes counts every kOwn-th.
struct Lookup {
  static constexpr int kWords = (kHalves * kSlice / 32 + kOwn - 1) / kOwn;  // of a lane
  unsigned before[kWords], own;
  int start;

  template <class P>
  __device__ __forceinline__ void load(const P& p, int row, bool there, int unit) {
    const int words = int(p.units + 31) / 32, word = unit / 32;
    own = 0, start = 0;
#pragma unroll
    for (int i = 0; i < kWords; i++) {
      const int w = i * kOwn + threadIdx.x % kOwn;
      before[i] = there && w < word ? p.mask[Index(row) * words + w] : 0;
    }
    if (there && word < words) own = p.mask[Index(row) * words + word], start = int(p.start[row]);
  }
  // Called by whole warps.
  __device__ __forceinline__ int event(int unit) const {
    int count = 0;
#pragma unroll
    for (int i = 0; i < kWords; i++) count += __popc(before[i]);
    for (int apart = kOwn / 2; apart; apart /= 2) count += __shfl_xor_sync(kAll, count, apart);
    const unsigned bit = 1u << unit % 32;
    return own & bit ? start + count + __popc(own & (bit - 1)) : -1;
  }
};

// The events of a sequence in a step, kRound at a time: lane l has the l-th of each 32. Lanes beyond the last have its unit, not
// another one: what they multiply with zero may not be finite.
constexpr int kEach = kSequences / kTeams;  // sequences whose events a warp reads
constexpr int kRound = 2 * kLanes, kTurns = kRound / kLanes;

struct Events {
  int begin, count, unit[kTurns];

  template <class P>
  __device__ __forceinline__ void find(const P& p, int row, bool there) {
    begin = 0, count = 0;
    if (there) begin = int(p.start[row]), count = int(p.start[row + 1]) - begin;
  }
  template <class P>
  __device__ __forceinline__ void load(const P& p, int lane) {
#pragma unroll
    for (int i = 0; i < kTurns; i++) {
      const int e = i * kLanes + lane;
      unit[i] = count > 0 ? p.unit[begin + (e < count ? e : count - 1)] : 0;
    }
  }
  // To the next round.
  __device__ __forceinline__ void go_on() { begin += kRound, count -= kRound; }
};

// The events of a warp's sequences in this step, and where those of the next one are.
struct Ahead {
  Events now[kEach], soon[kEach];

  template <class P>
  __device__ __forceinline__ void look(const P& p, int first, int end, int j) {
#pragma unroll
    for (int n = 0; n < kEach; n++) soon[n].find(p, (first + n) * int(p.steps) + j, first + n < end && j >= 0 && j < p.steps);
  }
  template <class P>
  __device__ __forceinline__ void take(const P& p, int lane) {
#pragma unroll
    for (int n = 0; n < kEach; n++) now[n] = soon[n], now[n].load(p, lane);
  }
  // Waits until the last number of an event is written, (events, Each): then most of the others are. One lane asks for one number:
  // if all did, they would delay the numbers that they ask for.
  template <int Each>
  __device__ __forceinline__ void wait(const Real* numbers, int lane) const {
    int end = 0;
#pragma unroll
    for (int n = 0; n < kEach; n++)
      if (now[n].count > 0) end = now[n].begin + now[n].count;
    if (lane == 0 && end > 0)
      while (!is_written(look_up(numbers + Each * Index(end) - 1))) {}
    __syncwarp();
  }
};

}  // namespace phased
