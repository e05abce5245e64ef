// A team's way through its sequence: spans of a few steps, whose events are copied into shared memory while the span before is worked on.
#pragma once

#include "common.h"

namespace phased {

// Up to 32 steps in the order they are taken. Lane l of every warp knows how many events the first l + 1 of them have.
struct Span {
  int step, lowest;  // the first step taken; the lowest of all its events
  int steps, total, size;
  bool staged;  // its events fit into shared memory; else they are read where they are
};

// Forwards from step 0, or backwards from the last.
template <bool Forwards>
struct Walk {
  const Index* start;  // of the sequence's first row
  int length, capacity, lane;
  int step, origin, raw;  // of the span after the next: its first step, the event it begins at, this lane's step's end

  __device__ Walk(const Index* start, int length, int capacity, int lane)
      : start(start), length(length), capacity(capacity), lane(lane), step(Forwards ? 0 : length - 1), origin(int(start[Forwards ? 0 : length])) {
    look();
  }

  __device__ __forceinline__ int left() const { return Forwards ? length - step : step + 1; }

  __device__ __forceinline__ void look() {
    const int at = Forwards ? step + lane + 1 : step - lane;
    raw = static_cast<int>(start[at > length ? length : at < 0 ? 0 : at]);
  }

  // The next span; what it takes to know the one after it is on its way when this returns.
  __device__ __forceinline__ Span next() {
    Span span;
    const int size = Forwards ? raw - origin : origin - raw;
    const unsigned fits = __ballot_sync(kAll, lane < left() && size <= capacity);
    span.staged = fits & 1;
    span.steps = left() <= 0 ? 0 : span.staged ? __popc(fits) : 1;
    span.size = size;
    span.total = span.steps ? __shfl_sync(kAll, span.size, span.steps - 1) : 0;
    span.step = step;
    span.lowest = Forwards ? origin : origin - span.total;
    origin = Forwards ? origin + span.total : span.lowest;
    step += Forwards ? span.steps : -span.steps;
    look();
    return span;
  }
};

// The events of a span's s-th step, counted from its lowest.
struct Events {
  int first, end;
};
template <bool Forwards>
__device__ __forceinline__ Events events_of(const Span& span, int s) {
  const int before = s ? __shfl_sync(kAll, span.size, s - 1) : 0, after = __shfl_sync(kAll, span.size, s);
  return Forwards ? Events{before, after} : Events{span.total - after, span.total - before};
}

}  // namespace phased
