// What the two kernels share that hold all weights in shared memory: the fastest kernels, for layers small enough (to 118 units
// in float32, a unit less where many are open at once).
//
// A step depends on the one before it, and only on what that one changed, a few units; everything older can be added up
// beforehand. So one warp, a lane an event, computes a step with as few instructions as possible: each takes about four cycles. Two
// warps take turns: while one computes a step, the other loads what the next one needs and is known already. Other warps do the rest,
// a step ahead or behind: products, columns of h or of its gradient, and fetching. No warp should have more instructions in a step
// than the one that computes it.
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
    const int pitch = units | 1, lane = threadIdx.x % kLanes;
    for (int unit = threadIdx.x / kLanes; unit < units; unit += blockDim.x / kLanes) {
      const Real* const rows = from + Index(unit) * 4 * from_pitch;
      Four loaded[kParts];  // all before the first is stored
#pragma unroll
      for (int i = 0; i < kParts; i++)
        for (int g = 0; g < 4; g++) loaded[i].v[g] = i * kLanes + lane < units ? rows[g * from_pitch + i * kLanes + lane] : Real(0);
#pragma unroll
      for (int i = 0; i < kParts; i++)
        if (i * kLanes + lane < units) to[unit * pitch + i * kLanes + lane] = loaded[i];
    }
    return {to, units, pitch};
  }
  __device__ __forceinline__ const Four* row(int unit) const { return weights + unit * pitch; }
};

// Where the events of steps end: a ring in shared memory of the lower words of `start`, copied for 32 steps at a time, long before they
// are read. Steps are counted from where the kernel begins: forwards from the first, backwards from the last.
constexpr int kEnds = PHASED_ENDS;
static_assert(kEnds == 4 * kLanes);

template <bool Backwards>
struct Ends {
  int* const ring;
  const Index* const start;  // of the sequence
  const int length, from;    // from: where the first step's events begin, backwards those of the last end

  __device__ Ends(int* ring, const Index* start, int length)
      : ring(ring), start(start), length(length), from(static_cast<int>(start[Backwards ? length : 0])) {}

  // How many events there are up to the end of a step; 0 for those before the first, as long as the first steps are computed.
  __device__ __forceinline__ int at(int step) const {
    const int end = ring[step & (kEnds - 1)];
    return Backwards ? from - end : end - from;
  }
  // Copies the ends of 32 steps, in the group of copies that the caller ends. Called by a whole warp.
  __device__ __forceinline__ void copy(int first, int lane) const {
    const int step = first + lane < length ? first + lane + 1 : length;
    copy_ahead(ring + ((first + lane) & (kEnds - 1)), start + (Backwards ? length - step : step), sizeof(int));
  }
  // Copies the ends of the first steps. Steps before them have no events.
  __device__ __forceinline__ void begin(int lane) const {
    for (int first = 0; first < kEnds - kLanes; first += kLanes) copy(first, lane);
    ring[kEnds - kLanes + lane] = from;
  }
  // Every 32 steps, copies the ends of 32 steps that are read about 90 steps later, over those of steps that are done: beside step j
  // warps read the ends of steps j - 2 to j + 2.
  __device__ __forceinline__ void advance(int step, int lane) const {
    if ((step & (kLanes - 1)) == 4) copy(step - 4 + kEnds - kLanes, lane);
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

// An index that may be past the end of a ring, by less than its length: rings have at least a slot for every lane, and for all
// events of a step.
__device__ __forceinline__ int wrapped(int slot, int ring) { return slot < ring ? slot : slot - ring; }

// The even or the odd steps, by one of two warps that take turns. Each step has two intervals between barriers: it is prepared while
// the other warp computes the step before it, and then computed. Even and odd steps have code of their own, so that the compiler
// knows their addresses.
template <class Steps>
__device__ __forceinline__ void take_turns(const Team& team, Steps& steps, int length) {
  team.sync();
  if (Steps::kParity) team.sync();
  for (int step = Steps::kParity; step <= length; step += 2) {
    steps.prepare(step);
    team.sync();
    if (step == length) break;
    steps.compute(step);
    team.sync();
  }
}

}  // namespace phased
