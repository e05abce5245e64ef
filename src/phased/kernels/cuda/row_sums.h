// A warp's sums over the events of a unit: of the gradients to its four products times some columns of the events' rows.
#pragma once

#include "sums.h"

namespace phased {

// An event's rows of h and x, and the gradients to its products.
struct Seen {
  const Real *h, *x, *share;
};
static_assert(sizeof(Seen) == PHASED_SEEN_BYTES);

// kColumns columns a lane, from `column` on, of rows [h before | x | 1].
template <int kColumns>
struct RowSums {
  const Summing& p;
  const int lane, units, columns, column;
  Seen* const seen;  // in shared memory: kLanes events that the warp is about to read
  Real sum[4][kColumns] = {};

  __device__ __forceinline__ RowSums(const Summing& p, int column, Seen* seen)
      : p(p),
        lane(threadIdx.x % kLanes),
        units(int(p.units)),
        columns(units + int(p.features) + 1),
        column(column),
        seen(seen) {}

  // Where an event's row and the gradients to its products are.
  __device__ __forceinline__ Seen find(Index event) const {
    const unsigned row = p.row[event], b = row / unsigned(p.steps), j = row % unsigned(p.steps);
    const Real* const h = j ? p.output + ((j - 1) * p.batch + b) * units : p.initial_h + b * p.initial_batch;
    return {h, p.x + j * p.x_step + b * p.x_batch, p.to_products + 4 * event};
  }

  // Adds N events: all of their numbers are loaded before the first is added.
  static constexpr int kAtOnce = 4;
  template <int N>
  __device__ __forceinline__ void add_events(int i) {
    Four share[N];
    Real z[N][kColumns];
#pragma unroll
    for (int n = 0; n < N; n++) {
      const Seen event = seen[i + n];
      share[n] = load_four(event.share);
#pragma unroll
      for (int c = 0; c < kColumns; c++) {
        const int own = column + c * kLanes + lane;
        const Real* const from = own < units ? event.h + own : event.x + (own - units);
        z[n][c] = own < columns - 1 ? *from : Real(1);
      }
    }
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int c = 0; c < kColumns; c++)
#pragma unroll
        for (int g = 0; g < 4; g++) sum[g][c] += share[n].v[g] * z[n][c];
  }

  // Adds events, in their order: the i-th from `begin` on has number event_of(i).
  template <class EventOf>
  __device__ __forceinline__ void add(Index begin, Index end, const EventOf& event_of) {
    for (Index base = begin; base < end; base += kLanes) {
      const int count = end - base < kLanes ? int(end - base) : kLanes;
      if (lane < count) seen[lane] = find(event_of(base + lane));
      __syncwarp();
      int i = 0;
      for (; i + kAtOnce <= count; i += kAtOnce) add_events<kAtOnce>(i);
      for (; i < count; i++) add_events<1>(i);
      __syncwarp();
    }
  }

  // Writes the sums of a unit to rows of `to` (units, 4, columns), or adds them.
  __device__ __forceinline__ void write(Real* to, int unit, bool adds) const {
    Real* const rows = to + Index(unit) * 4 * columns;
#pragma unroll
    for (int c = 0; c < kColumns; c++) {
      const int own = column + c * kLanes + lane;
      for (int g = 0; own < columns && g < 4; g++) {
        Real& here = rows[Index(g) * columns + own];
        here = adds ? here + sum[g][c] : sum[g][c];
      }
    }
  }
};

}  // namespace phased
