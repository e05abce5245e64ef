// What the two kernels share that compute several sequences in a block: for small layers (to 128 units in float32), where there
// are more sequences than multiprocessors, or many units are open at once, or not all weights fit into shared memory.
//
// The sequences share the issue slots of a multiprocessor. So each has a small team of warps, and nothing is computed ahead. One
// more warp, the helper, takes work from the others: forwards it fetches events and writes the output, backwards it fetches events
// and computes their cells. The weights of as many units as fit are in shared memory, for all teams of a block; those of the last
// units are in registers or in the L2 cache.
#pragma once

#include "steps.h"

namespace phased {

constexpr int kWide = PHASED_GROUPED;              // slots for units
constexpr int kSixteens = PHASED_BLOCKS;           // here: blocks of 16 columns
constexpr int kWords = (kSixteens + 1) / 2;        // words of 32 units
constexpr int kBeyond = PHASED_BEYOND;             // units whose weights are not in shared memory
static_assert(16 * kSixteens <= kWide);

__device__ __forceinline__ int smaller(int a, int b) { return a < b ? a : b; }

// How many events a sequence has up to the end of a step, steps counted from where the kernel begins: forwards from the first,
// backwards from the last. Lane l knows the l-th of 32 steps, and of the 32 behind them.
template <bool Backwards>
struct Counts {
  const Index* start;
  int from, length, lane, now, next;  // events are numbered by 32-bit integers

  __device__ Counts(const Index* start, int length, int lane)
      : start(start),
        from(static_cast<int>(start[Backwards ? length : 0])),
        length(length),
        lane(lane),
        now(look(0)),
        next(look(kLanes)) {}

  __device__ __forceinline__ int look(int first) const {
    const int step = smaller(first + lane + 1, length);
    return static_cast<int>(start[Backwards ? length - step : step]);  // used much later: nothing waits for it here
  }
  // Called for one step after another. After the last step: the number of all events.
  __device__ __forceinline__ int to_end_of(int step) {
    const int end = __shfl_sync(kAll, now, step % kLanes);
    if (step % kLanes == kLanes - 1) now = next, next = look(step + 1 + kLanes);
    return Backwards ? from - end : end - from;
  }
};

// A ring of the next events in shared memory, filled by one warp: 32 at a time, each lane one. Every 32 are a group of copies.
template <int Ring>
struct Fetched {
  static_assert((Ring & (Ring - 1)) == 0);
  const int count, lane;
  int issued = 0, arrived = 0;

  __device__ Fetched(int count, int lane) : count(count), lane(lane) {}

  static __device__ __forceinline__ int slot(int event) { return event & (Ring - 1); }

  // With `done` events done: issues copies for all that fit, by copy(event, slot).
  template <class Copy>
  __device__ __forceinline__ void issue(int done, const Copy& copy) {
    while (issued < count && issued + kLanes <= done + Ring) {
      if (issued + lane < count) copy(issued + lane, slot(issued + lane));
      end_of_copies();
      issued += kLanes;
    }
  }
  // After the next barrier the first `needed` events are in shared memory. Their copies must have been issued.
  __device__ __forceinline__ void settle(int needed) {
    if (needed <= arrived) return;
    if (needed <= issued - 2 * kLanes) {
      wait_for_copies<2>();
      arrived = issued - 2 * kLanes;
    } else {
      wait_for_copies<0>();
      arrived = issued;
    }
  }
};

}  // namespace phased
