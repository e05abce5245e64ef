// What the two kernels share that hold all weights in shared memory: the fastest kernels, for layers small enough (to 118 units
// in float32).
//
// A step depends on the one before it, and only on what that one changed, a few units; everything older can be added up
// beforehand. So one warp, a lane an event, computes the steps one after another, with as few instructions as possible: each
// takes about four cycles. Other warps do the rest, a step ahead of it or behind: products, columns of h or of its gradient, and
// one warp that fetches.
#pragma once

#include "steps.h"

namespace phased {

constexpr int kNear = 8;                // changes of the last step whose weights a lane has in registers before they are known
constexpr int kParts = PHASED_PARTS;    // words of 32 units, at most
constexpr int kWide = kParts * kLanes;  // slots for units; the last is for lanes without an event
constexpr int kWords = (kParts + kHelpers - 1) / kHelpers;  // words of a warp that has columns: every kHelpers-th
constexpr int kListed = PHASED_LISTED;  // steps whose first 32 events are listed; a power of two
static_assert(kListed * kLanes == kWide);  // both are cleared in one loop

// Weights by unit and column, the four products side by side. An odd pitch sets the rows of different units on different banks.
struct Held {
  const Four* weights;
  int units, pitch;

  // From (units, 4, pitch), by all threads of a block.
  static __device__ __forceinline__ Held load(Four* to, const Real* from, int units, int from_pitch) {
    const int pitch = units | 1;
    for (int unit = threadIdx.x / kLanes; unit < units; unit += blockDim.x / kLanes)
      for (int column = threadIdx.x % kLanes; column < units; column += kLanes) {
        const Real* rows = from + Index(unit) * 4 * from_pitch + column;
        to[unit * pitch + column] = Four{rows[0], rows[from_pitch], rows[2 * from_pitch], rows[3 * from_pitch]};
      }
    return {to, units, pitch};
  }
  __device__ __forceinline__ const Four* row(int unit) const { return weights + unit * pitch; }
};

// How many events there are up to the end of a step, steps counted from where the kernel begins: forwards from the first,
// backwards from the last. Lane l knows the l-th of 32 steps, and of the 32 behind them.
template <bool Backwards>
struct Ends {
  const Index *start, from;
  int length, lane, base;
  Index now, next;

  __device__ Ends(const Index* start, int length, int lane)
      : start(start),
        from(start[Backwards ? length : 0]),
        length(length),
        lane(lane),
        base(0),
        now(look(0)),
        next(look(kLanes)) {}

  __device__ __forceinline__ Index look(int first) const {
    const int step = first + lane < length ? first + lane + 1 : length;
    return start[Backwards ? length - step : step];
  }
  // Of a step from `base` on and less than 64 behind it; 0 for those before the first.
  __device__ __forceinline__ int at(int step) const {
    if (step < 0) return 0;
    const Index end = __shfl_sync(kAll, step - base < kLanes ? now : next, step % kLanes);
    return int(Backwards ? from - end : end - from);
  }
  // Steps before this one are no longer needed.
  __device__ __forceinline__ void forget(int step) {
    if (step - base >= kLanes) base += kLanes, now = next, next = look(base + kLanes);
  }
};

// Which units of a warp's words are open at a step. Lane l knows the l-th of 32 steps, and of the 32 behind them.
template <bool Backwards>
struct Masks {
  const unsigned* mask;  // of the sequence
  int length, word, words, lane;
  unsigned now[kWords], next[kWords];

  __device__ Masks(const unsigned* mask, int length, int word, int words, int lane)
      : mask(mask), length(length), word(word), words(words), lane(lane) {
    look(now, 0), look(next, kLanes);
  }
  __device__ __forceinline__ void look(unsigned to[kWords], int first) const {
    const int step = first + lane;
#pragma unroll
    for (int n = 0; n < kWords; n++) {
      const int w = word + n * kHelpers;
      to[n] = w < words && step < length ? mask[Index(Backwards ? length - 1 - step : step) * words + w] : 0;
    }
  }
  // Whether the lane's unit of the n-th word is open. Called for one step after another.
  __device__ __forceinline__ bool open(int n, int step) const {
    return __shfl_sync(kAll, now[n], step & (kLanes - 1)) >> lane & 1;
  }
  __device__ __forceinline__ void done(int step) {
    if ((step & (kLanes - 1)) != kLanes - 1) return;
#pragma unroll
    for (int n = 0; n < kWords; n++) now[n] = next[n];
    look(next, step + 1 + kLanes);
  }
};

// A ring of the next few steps' ends, written by the warp that fetches.
constexpr int kEnds = PHASED_ENDS;

// An index that may be past the end of a ring, by less than its length: rings have at least a slot for every lane.
__device__ __forceinline__ int wrapped(int slot, int ring) { return slot < ring ? slot : slot - ring; }

// Odd and even steps have code of their own, so that the compiler knows their addresses.
template <int Parity>
struct Turn {
  static constexpr int now = Parity, before = 1 - Parity;
};

}  // namespace phased
