// Forwards over open events, several sequences in a block; see grouped.h.
//
// A warp multiplies a few events at once, with kSpan lanes for each. The weights of its next events are loaded into registers
// before their step: the schedule says which they are. A step reads h, computes, waits until all warps of the team have read h,
// and writes what it has changed. The team's helper fetches events and writes the output. The sums have an order of their own,
// whatever the number of warps.
#include "grouped.h"

namespace phased {

constexpr int kSpan = PHASED_SPAN;                              // lanes of an event
constexpr int kGroup = kLanes / kSpan;                          // events that a warp multiplies at once
constexpr int kAtOnce = kGroup * kWarps;                        // events that a team multiplies at once
constexpr int kPairs = (16 * kSixteens + 2 * kSpan - 1) / (2 * kSpan);  // pairs of columns of a lane
constexpr int kLarge = kWarps < 8 ? 1 : 2;
constexpr int kPass = kLarge * PHASED_PASS;                     // events whose cells a team computes at once
constexpr int kRing = kLarge * PHASED_EVENTS;                   // events in shared memory
constexpr int kEnds = 4;                                        // steps of which the helper publishes where their events end
static_assert(kHelpers == 1 && kSpan >= 8 && kPass % kAtOnce == 0 && kPass / kWarps <= kLanes);
// At the end of a pass: the events of this one, of the two that follow, and 32 that do not fit yet.
static_assert(3 * kPass + kLanes <= kRing && kAtOnce <= kPass);

// A team's shared memory.
struct alignas(16) GroupedForwardMemory {
  Real h[kWide], c[kWide];  // h ends in zeros
  Four sums[kPass];         // of the events of a pass: their products with h
  int ends[kEnds];          // how many events there are to the end of a step
  Arrival ring[kRing];
};
static_assert(sizeof(GroupedForwardMemory) ==
              PHASED_GROUPED_FORWARD_BYTES + kLarge * (PHASED_PASS * sizeof(Four) + PHASED_EVENTS * sizeof(Arrival)));

// A unit's weights are Fours, the products of a column side by side, and columns in the order in which lanes read them: each lane
// has pairs of columns, so that it reads two numbers of h at once; the lanes of an event read consecutive Fours.
__device__ __forceinline__ int half_of(int pair, int units) {  // lanes that have this pair
  return smaller((units + 1 - 2 * kSpan * pair) / 2, kSpan);
}
__device__ __forceinline__ int place_of(int column, int units) {
  const int pair = column / (2 * kSpan), rest = column % (2 * kSpan);
  return 2 * kSpan * pair + rest % 2 * half_of(pair, units) + rest / 2;
}

// Copies the weights of the first `held` units to shared memory, by all threads of a block.
__device__ __forceinline__ void hold_rows(Four* to, const Real* from, int held, int units, int from_pitch) {
  const int pitch = (units + 1) / 2 * 2;
  for (int unit = threadIdx.x / kLanes; unit < held; unit += blockDim.x / kLanes)
    for (int column = threadIdx.x % kLanes; column < pitch; column += kLanes) {
      const Real* const rows = from + Index(unit) * 4 * from_pitch + column;
      to[unit * pitch + place_of(column, units)] = Four{rows[0], rows[from_pitch], rows[2 * from_pitch], rows[3 * from_pitch]};
    }
}

// A lane's columns of one unit's weights.
struct Weights {
  const Forward& p;
  const Four* const held;
  const int part, pitch, half;  // the lane's place in its span; Fours of a row; lanes that have the last pair
  Four w[2 * kPairs];  // zeros where a lane has no last pair

  __device__ __forceinline__ Weights(const Forward& p, const Four* held, int lane)
      : p(p),
        held(fixed(held + lane % kSpan)),
        part(lane % kSpan),
        pitch((int(p.units) + 1) / 2 * 2),
        half(half_of(kPairs - 1, int(p.units))),
        w{} {}

  __device__ __forceinline__ void load(int unit) {
    if (kBeyond && unit >= int(p.ring)) {
      load_beyond(unit);
      return;
    }
    const Four* const row = held + unit * pitch;
#pragma unroll
    for (int i = 0; i < kPairs; i++)
      if (i < kPairs - 1 || part < half)
        w[2 * i] = row[2 * kSpan * i], w[2 * i + 1] = row[2 * kSpan * i + (i < kPairs - 1 ? kSpan : half)];
  }
  // From global memory, (units, 4, pitch).
  __device__ __forceinline__ void load_beyond(int unit) {
    const int from_pitch = int(p.pitch);
    const Real* const row = p.wh + Index(unit) * 4 * from_pitch + 2 * part;
#pragma unroll
    for (int i = 0; i < kPairs; i++)
      if (i < kPairs - 1 || part < half)
#pragma unroll
        for (int g = 0; g < 4; g++) {
          const Two two = load_two(row + g * from_pitch + 2 * kSpan * i);
          w[2 * i].v[g] = two.v[0], w[2 * i + 1].v[g] = two.v[1];
        }
  }
  __device__ __forceinline__ Four times(const Two x[kPairs]) const {
    Four sum = {};
#pragma unroll
    for (int i = 0; i < kPairs; i++)
#pragma unroll
      for (int r = 0; r < 2; r++)
#pragma unroll
        for (int g = 0; g < 4; g++) sum.v[g] += w[2 * i + r].v[g] * x[i].v[r];
    return sum;
  }
};

// The sum over the lanes of an event, of product part / (kSpan / 4).
__device__ __forceinline__ Real sum_of_span(const Four& sum, int part) {
  const bool upper = part & kSpan / 2, right = part & kSpan / 4;
  Real left = upper ? sum.v[2] : sum.v[0], other = upper ? sum.v[3] : sum.v[1];
  left += __shfl_xor_sync(kAll, upper ? sum.v[0] : sum.v[2], kSpan / 2);
  other += __shfl_xor_sync(kAll, upper ? sum.v[1] : sum.v[3], kSpan / 2);
  Real all = right ? other : left;
  all += __shfl_xor_sync(kAll, right ? left : other, kSpan / 4);
#pragma unroll
  for (int apart = kSpan / 8; apart; apart /= 2) all += __shfl_xor_sync(kAll, all, apart);
  return all;
}

// The helper: fetches events, and writes the output.
__device__ __forceinline__ void help_forward(const Forward& p, const Team& team, GroupedForwardMemory& memory, Index b,
                                             int length) {
  const int units = int(p.units), lane = team.lane;
  const Index* const start = p.start + b * p.steps;
  const Index first = start[0], step = p.batch * units;
  const int count = int(start[length] - first);
  Counts<false> counts(start, length, lane);
  int begin = 0, end = counts.to_end_of(0), soon = counts.to_end_of(1);  // of this step's events, and of the next one's
  Fetched<kRing> fetched(count, lane);
  const auto copy = [&](int event, int slot) { copy_struct(memory.ring + slot, p.arrivals + first + event); };
  fetched.issue(0, copy), fetched.settle(smaller(soon, 2 * kPass));
  memory.ends[0] = end, memory.ends[1] = soon;  // all lanes alike
  team.sync();
  Real* out = p.output + b * units + lane - step;  // of the step before
  for (int j = 0; j < length; j++, out += step) {
    Real done[kWords];
#pragma unroll
    for (int n = 0; n < kWords; n++) done[n] = memory.h[lane + n * kLanes];
    team.sync();  // all have read h
    if (j)
#pragma unroll
      for (int n = 0; n < kWords; n++)
        if (lane + n * kLanes < units) out[n * kLanes] = done[n];
    const int later = counts.to_end_of(j + 2);
    int from = begin;
    do {
      const int until = smaller(end, from + kPass);
      fetched.issue(from, copy);
      fetched.settle(smaller(later, until + 2 * kPass));  // the next pass reads its events before its own barrier
      memory.ends[(j + 2) % kEnds] = later;
      from = until;
      team.sync();
    } while (from < end);
    begin = end, end = soon, soon = later;
  }
  wait_for_copies<0>();
}

// The other warps: products and cells.
__device__ __forceinline__ void work_forward(const Forward& p, const Team& team, GroupedForwardMemory& memory, const Four* held,
                                             Index b, int length) {
  const int units = int(p.units), lane = team.lane, warp = team.warp, part = lane % kSpan;
  const Index first = p.start[b * p.steps];
  Record* const tape = p.keeps() ? p.tape + first : nullptr;
  const auto slot = [](int event) { return Fetched<kRing>::slot(event); };
  team.sync();
  int begin = 0, end = memory.ends[0], soon = memory.ends[1];
  // An event of a group has kSpan lanes for its products; later a lane for its cell: a warp's events of the r-th group have the
  // r-th few lanes.
  const int of_group = kGroup * warp + lane / kSpan;
  const int of_cell = lane < kPass / kWarps ? kAtOnce * (lane / kGroup) + kGroup * warp + lane % kGroup : kPass;
  Weights weights(p, held, lane);
  if (of_group < end) weights.load(memory.ring[of_group].head.unit);
  Arrival arrival;  // the event whose cell the lane computes, if it is there
  bool there = of_cell < smaller(end, kPass);
  if (there) arrival = memory.ring[of_cell];
  for (int j = 0; j < length; j++) {
    Two x[kPairs];
#pragma unroll
    for (int i = 0; i < kPairs; i++) x[i] = load_two(memory.h + 2 * kSpan * i + 2 * part);
    team.sync();  // all have read h
    int from = begin;
    do {
      const int until = smaller(end, from + kPass), bound = until < end ? end : soon;
      Real h, c = 0, w[3] = {};
      if (there) {
        h = memory.h[arrival.head.unit], c = Cell::has_c ? memory.c[arrival.head.unit] : Real(0);
        peepholes(p.peephole, units, arrival.head.unit, w);
      }
      for (int group = from;;) {
        const bool now = group + kGroup * warp < until, more = group + kAtOnce + kGroup * warp < until;
        const int next = more ? group + kAtOnce : until;
        // The warp's next events, of this pass or of the next one.
        const bool coming = next + of_group < (more ? until : bound);
        const int unit = coming ? memory.ring[slot(next + of_group)].head.unit : 0;
        Four sum = {};
        if (now) sum = weights.times(x);
        if (coming) weights.load(unit);
        if (now) {
          const Real all = sum_of_span(sum, part);
          if (part % (kSpan / 4) == 0 && group + of_group < until)
            memory.sums[group + of_group - from].v[part / (kSpan / 4)] = all;
        }
        if (!more) break;
        group = next;
      }
      __syncwarp();
      if (there) {
        const Four sum = memory.sums[of_cell];
        Real a[4], new_c, record[kRecord];
        for (int g = 0; g < 4; g++) a[g] = sum.v[g] + arrival.terms[g];
        memory.h[arrival.head.unit] = accept(a, arrival.head.k, h, c, w, new_c, record);
        if (Cell::has_c) memory.c[arrival.head.unit] = new_c;
        if (tape) tape[from + of_cell].write(record);
      }
      there = until + of_cell < smaller(bound, until + kPass);
      if (there) arrival = memory.ring[slot(until + of_cell)];
      from = until;
      team.sync();
    } while (from < end);
    begin = end, end = soon, soon = memory.ends[(j + 2) % kEnds];
  }
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) grouped_forward(const Forward p) {
  if (!p.is_called()) return;
  extern __shared__ __align__(16) unsigned char shared[];
  Four* const held = reinterpret_cast<Four*>(shared);
  const int units = int(p.units), rows = int(p.ring);  // how many units have their weights in shared memory
  hold_rows(held, p.wh, rows, units, int(p.pitch));
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  GroupedForwardMemory& memory =
      reinterpret_cast<GroupedForwardMemory*>(held + rows * ((units + 1) / 2 * 2))[team.number];
  if (b < p.batch)
    for (int q = threadIdx.x % kTeam; q < kWide; q += kTeam) {
      memory.h[q] = p.initial_h && q < units ? p.initial_h[b * units + q] : Real(0);
      memory.c[q] = p.initial_c && q < units ? p.initial_c[b * units + q] : Real(0);
    }
  __syncthreads();
  if (b >= p.batch) return;
  const int length = length_of(p, b);
  if (team.warp == kWarps) {
    help_forward(p, team, *fixed(&memory), b, length);
  } else {
    work_forward(p, team, *fixed(&memory), held, b, length);
  }
  for (int q = threadIdx.x % kTeam; q < units; q += kTeam) {
    const Real h = memory.h[q];
    if (length) p.output[((length - 1) * p.batch + b) * units + q] = h;
    p.final_h[b * units + q] = h;
    if (Cell::has_c) p.final_c[b * units + q] = memory.c[q];
    for (Index j = length; j < p.steps; j++) p.output[(j * p.batch + b) * units + q] = 0;
  }
}

}  // namespace phased
