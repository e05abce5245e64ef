// The recurrence forwards: one team of warps a sequence, one warp an open unit, weights in shared memory where they fit.
//
// A step is a chain nothing can be put beside: read h, four products, a sum over lanes, the cell, write h, tell all others. So whatever does
// not depend on h is fetched during the step before: the event, its input terms, its rows of weights. And h is kept twice: a step reads one
// copy and writes the other, so that one barrier a step is enough. Helpers stage the events, write the output, and carry over to the other
// copy what a step leaves as it is.
#include "walk.h"

namespace phased {

constexpr int kQuads = 4 * (kBlocks < 4 ? kBlocks : 4);  // fours of a row that a lane has in registers at once
constexpr int kColumns = 32 * kQuads;                    // eight lanes share a row: columns they have at once

// What an open event brings: its unit, its openness, and what the input adds to its four products.
struct Arrivals {
  const int* unit;
  const Real *k, *terms;
};

struct Forward {
  Index batch, steps, units, pitch;
  const Index *lengths, *start;
  const unsigned* mask;  // or null, where all units have an event at every step
  Arrivals events;
  const Real *wh, *peephole, *initial_h, *initial_c;
  Real *output, *final_h, *final_c, *tape;  // tape: (events, kRecord), or null
  Index capacity;
};

// A team's shared memory.
struct ForwardMemory {
  Real *h, *other, *c, *pending, *terms, *k;
  int* unit;

  // `words` of Real a team; the units of staged events follow those of all teams.
  __device__ ForwardMemory(Real* shared, int pitch, int capacity, int team) {
    const int wide = (pitch + kColumns - 1) / kColumns * kColumns;  // h ends in zeros, for lanes that have no columns
    const int words = 2 * wide + 2 * pitch + 10 * capacity;
    h = shared + team * words, other = h + wide, c = other + wide, pending = c + pitch, terms = pending + pitch, k = terms + 8 * capacity;
    unit = reinterpret_cast<int*>(shared + (blockDim.x / kTeam) * words) + team * 2 * capacity;
  }
  __device__ __forceinline__ void swap() {
    Real* const read = h;
    h = other, other = read;
  }
  // A span's events: staged on one of two sides, or where they are.
  __device__ __forceinline__ Arrivals events(const Forward& p, const Span& span, int side, int capacity) const {
    const Index lowest = span.lowest;
    return span.staged ? Arrivals{unit + side * capacity, k + side * capacity, terms + side * 4 * capacity}
                       : Arrivals{p.events.unit + lowest, p.events.k + lowest, p.events.terms + 4 * lowest};
  }
};

// Some columns of the row of weights that a lane's eight share: lanes 8 g to 8 g + 7 have product g.
struct Part {
  Four w[kQuads];

  __device__ __forceinline__ void load(const Real* weights, int unit, int pitch, int lane, int column = 0) {
    const Real* row = weights + (Index(unit) * 4 + lane / 8) * pitch;
    const int first = column + 4 * (lane % 8);
#pragma unroll
    for (int i = 0; i < kQuads; i++) w[i] = first + 32 * i < pitch ? load_four(row + first + 32 * i) : Four{};
  }
  __device__ __forceinline__ void add_to(Four& sum, const Real* h, int lane, int column = 0) const {
#pragma unroll
    for (int i = 0; i < kQuads; i++) {
      const Four x = load_four(h + column + 4 * (lane % 8) + 32 * i);
      for (int l = 0; l < 4; l++) sum.v[l] += w[i].v[l] * x.v[l];
    }
  }
};

// Product g of a unit with h, in each of the eight lanes that share it; `part` has its first columns.
__device__ __forceinline__ Real product(Part& part, const Real* weights, int unit, const Real* h, int pitch, int lane) {
  Four sum = {};
  part.add_to(sum, h, lane);
  if (kBlocks > 4)
    for (int column = kColumns; column < pitch; column += kColumns) {
      part.load(weights, unit, pitch, lane, column);
      part.add_to(sum, h, lane, column);
    }
  Real all = (sum.v[0] + sum.v[1]) + (sum.v[2] + sum.v[3]);
  for (int apart = 4; apart; apart /= 2) all += __shfl_xor_sync(kAll, all, apart);
  return all;
}

// The cell of one event: its new h; new c goes to `to_c`. One thread writes the tape.
__device__ __forceinline__ Real accept(const Forward& p, Real a[4], Four term, Real k, Real h, Real c, int unit, int event, bool write, Real& to_c) {
  Real w[3] = {}, keep[Cell::kept], new_h, new_c;
  for (int g = 0; g < 4; g++) a[g] += term.v[g];
  if (p.peephole) {
    for (int i = 0; i < 3; i++) w[i] = p.peephole[i * p.units + unit];
    Cell::template propose<true, Real>(a, h, c, w, new_h, new_c, keep);
  } else {
    Cell::template propose<false, Real>(a, h, c, w, new_h, new_c, keep);
  }
  to_c = k * new_c + (1 - k) * c;
  if (p.tape && write) {
    Real record[kRecord] = {};
    for (int f = 0; f < Cell::kept; f++) record[f] = keep[f];
    record[kRecord - 2] = h, record[kRecord - 1] = k;
    Real* to = p.tape + kRecord * Index(event);
    for (int i = 0; i < kRecord; i += 4) store_four(to + i, Four{record[i], record[i + 1], record[i + 2], record[i + 3]});
  }
  return k * new_h + (1 - k) * h;
}

// The warps that have events.
__device__ __forceinline__ void work_forward(const Forward& p, const Team& team, ForwardMemory memory, const Real* weights, Walk<true> walk) {
  const int pitch = p.pitch, capacity = p.capacity, lane = team.lane;
  Span now = walk.next();
  for (int side = 0; now.steps; side ^= 1) {
    const Span next = walk.next();
    team.sync();  // this span's events are here, and nobody reads the last one's any more
    const Arrivals events = memory.events(p, now, side, capacity);
    Events open = events_of<true>(now, 0);
    int mine = open.first + team.warp;  // this warp's first event; the last of the span where it has none
    mine = mine < now.total ? mine : now.total - 1;
    int unit = now.total ? events.unit[mine] : 0;
    Part part;
    part.load(weights, unit, pitch, lane);
    for (int s = 0; s < now.steps; s++) {
      const int count = open.end - open.first;
      const Events then = events_of<true>(now, s + 1 < now.steps ? s + 1 : s);
      int next_mine = then.first + team.warp;
      next_mine = next_mine < now.total ? next_mine : now.total - 1;
      const int next_unit = now.total ? events.unit[next_mine] : 0;
      if (count > kWarps) {  // more open units than warps: one after another, then their cells side by side
        for (int base = open.first; base < open.end; base += kRounds * kWarps) {
          Real sum = 0, a[4];
          for (int r = 0; r < kRounds; r++) {
            const int e = base + r * kWarps + team.warp;
            if (e >= open.end) break;
            if (e != mine) part.load(weights, events.unit[e], pitch, lane);
            const Real all = product(part, weights, events.unit[e], memory.h, pitch, lane);
            if (lane % 8 == r) sum = all;
          }
          for (int g = 0; g < 4; g++) a[g] = __shfl_sync(kAll, sum, 8 * g + lane % 8);
          const int e = base + lane * kWarps + team.warp;
          if (lane < kRounds && e < open.end) {
            const int own = events.unit[e];
            const Real h = memory.h[own], c = memory.c[own];
            memory.pending[own] = accept(p, a, load_four(events.terms + 4 * e), events.k[e], h, c, own, now.lowest + e, true, memory.c[own]);
          }
        }
        part.load(weights, next_unit, pitch, lane);
        team.sync();  // all have read h
        for (int e = open.first + team.warp * kLanes + lane; e < open.end; e += kWarps * kLanes) {
          const int own = events.unit[e];
          memory.h[own] = memory.other[own] = memory.pending[own];
        }
        team.sync();
      } else if (count) {
        if (team.warp < count) {
          const Real k = events.k[mine], h = memory.h[unit], c = memory.c[unit];
          const Four term = load_four(events.terms + 4 * mine);
          const Real sum = product(part, weights, unit, memory.h, pitch, lane);
          Real a[4], new_c;
          for (int g = 0; g < 4; g++) a[g] = __shfl_sync(kAll, sum, 8 * g);
          part.load(weights, next_unit, pitch, lane);
          const Real new_h = accept(p, a, term, k, h, c, unit, now.lowest + mine, lane == 0, new_c);  // all lanes alike
          if (lane == 0) memory.other[unit] = new_h, memory.c[unit] = new_c;
        } else {
          part.load(weights, next_unit, pitch, lane);
        }
        team.sync();
        memory.swap();
      } else {
        part.load(weights, next_unit, pitch, lane);
      }
      open = then, unit = next_unit, mine = next_mine;
    }
    now = next;
  }
  team.sync();
}

// The warps that fetch and carry: each has every kHelpers-th word of 32 units.
__device__ __forceinline__ void help_forward(const Forward& p, const Team& team, ForwardMemory memory, Walk<true> walk, Index b, int length) {
  const int units = p.units, capacity = p.capacity, helper = team.warp - kWarps, thread = helper * kLanes + team.lane;
  const int words = (units + 31) / 32;
  const auto stage = [&](const Span& span, int side) {
    constexpr int parts = 4 * sizeof(Real) / 16, wide = 16 / sizeof(Real);
    if (span.staged) {
      const Index lowest = span.lowest;
      for (int e = thread; e < span.total; e += kHelpers * kLanes) {
        copy_ahead(memory.unit + side * capacity + e, p.events.unit + lowest + e, 4);
        copy_ahead(memory.k + side * capacity + e, p.events.k + lowest + e, sizeof(Real));
      }
      for (int i = thread; i < span.total * parts; i += kHelpers * kLanes)
        copy_ahead(memory.terms + side * 4 * capacity + i * wide, p.events.terms + 4 * lowest + i * wide, 16);
    }
    end_of_copies();
  };
  // Which units a span's steps change: lane l has the words of its l-th step.
  struct Changes {
    unsigned words[kBlocks];
  };
  const auto changes_in = [&](const Span& span) {
    Changes changes;
    for (int i = 0, w = helper; i < kBlocks; i++, w += kHelpers)
      changes.words[i] = p.mask && w < words && team.lane < span.steps ? p.mask[(b * p.steps + span.step + team.lane) * words + w] : kAll;
    return changes;
  };
  Span now = walk.next();
  stage(now, 0);
  Changes changes = changes_in(now);
  Real* out = p.output + b * units;
  bool behind = false;  // the other copy has not what the last step changed
  for (int side = 0; now.steps; side ^= 1) {
    const Span next = walk.next();
    wait_for_copies<0>();
    team.sync();
    stage(next, side ^ 1);
    const Changes later = changes_in(next);
    for (int s = 0; s < now.steps; s++, out += p.batch * units) {
      const Events open = events_of<true>(now, s);
      const int count = open.end - open.first;
      if (count) {
#pragma unroll
        for (int i = 0; i < kBlocks; i++) {
          const unsigned changed = count > kWarps ? 0 : __shfl_sync(kAll, changes.words[i], s);
          const int q = (helper + i * kHelpers) * 32 + team.lane;
          if (behind && q < units && !(changed >> team.lane & 1)) memory.other[q] = memory.h[q];
        }
        for (int w = helper + kBlocks * kHelpers; behind && w < words; w += kHelpers) {  // more words than registers
          const unsigned changed = count > kWarps ? 0 : p.mask ? p.mask[(b * p.steps + now.step + s) * words + w] : kAll;
          if (w * 32 + team.lane < units && !(changed >> team.lane & 1)) memory.other[w * 32 + team.lane] = memory.h[w * 32 + team.lane];
        }
        team.sync();
        if (count > kWarps) {
          team.sync();
          behind = false;
        } else {
          memory.swap();
          behind = true;
        }
      }
      for (int q = thread; q < units; q += kHelpers * kLanes) out[q] = memory.h[q];
    }
    now = next, changes = later;
  }
  team.sync();
  for (int q = thread; q < units; q += kHelpers * kLanes) {
    p.final_h[b * units + q] = memory.h[q];
    if (Cell::has_c) p.final_c[b * units + q] = memory.c[q];
    for (Index j = length; j < p.steps; j++) p.output[(j * p.batch + b) * units + q] = 0;
  }
}

template <bool Shared>
__device__ __forceinline__ void run_forward(const Forward& p) {
  extern __shared__ __align__(16) unsigned char bytes[];
  const int units = p.units, pitch = p.pitch;
  Real* shared = reinterpret_cast<Real*>(bytes);
  const Real* weights = p.wh;
  if (Shared) {
    for (int i = 4 * threadIdx.x; i < units * 4 * pitch; i += 4 * blockDim.x) store_four(shared + i, load_four(p.wh + i));
    weights = shared, shared += units * 4 * pitch;
  }
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  const ForwardMemory memory(shared, pitch, p.capacity, team.number);
  if (b < p.batch) {
    const int wide = memory.other - memory.h;
    for (int q = threadIdx.x % kTeam; q < wide; q += kTeam) {
      memory.h[q] = memory.other[q] = q < units ? p.initial_h[b * units + q] : Real(0);
      if (q < units) memory.c[q] = Cell::has_c ? p.initial_c[b * units + q] : Real(0);
    }
  }
  __syncthreads();
  if (b >= p.batch) return;
  const int length = static_cast<int>(p.lengths ? p.lengths[b] : p.steps);
  const Walk<true> walk(p.start + b * p.steps, length, p.capacity, team.lane);
  if (team.warp < kWarps) {
    work_forward(p, team, memory, weights, walk);
  } else {
    help_forward(p, team, memory, walk, b, length);
  }
}

#define PHASED_FORWARD(name, shared)                                                                                                      \
  extern "C" __global__ void __launch_bounds__(PHASED_THREADS) name(                                                                      \
      Index batch, Index steps, Index units, Index pitch, const Index* lengths, const Index* start, const unsigned* mask,                 \
      const int* unit, const Real* k, const Real* terms, const Real* wh, const Real* peephole, const Real* initial_h,                     \
      const Real* initial_c, Real* output, Real* final_h, Real* final_c, Real* tape, Index capacity) {                                    \
    run_forward<shared>({batch, steps, units, pitch, lengths, start, mask, {unit, k, terms}, wh, peephole, initial_h, initial_c, output,  \
                         final_h, final_c, tape, capacity});                                                                              \
  }
PHASED_FORWARD(forward_shared, true)
PHASED_FORWARD(forward_streamed, false)

}  // namespace phased
