// Backwards over open events, several sequences in a block; see grouped.h. Steps are counted from the last: step s is the
// sequence's j-th, j = length - 1 - s.
//
// A step has two parts. One warp, the team's helper, computes the cells, a lane for an event, and replaces the gradients to h and
// c of their units; meanwhile the other warps load the weights of the first events. Then these warps, each thread with one or more
// columns, add what the events contribute to the gradient to h, while the helper fetches the next step's events.
#include "grouped.h"

namespace phased {

constexpr int kColumnThreads = kWarps * kLanes;
constexpr int kRing = PHASED_EVENTS;                  // events in shared memory
constexpr int kOwn = (kWords + kWarps - 1) / kWarps;  // columns of a thread
constexpr int kNear = 8;                              // events of a step whose weights a thread loads before the cells are known
constexpr int kFar = 8;                               // steps by which rows of the output's gradient come to the L2 cache before
constexpr int kLine = 128 / sizeof(Real);             // numbers of a line of the cache
// Whether at most two sequences share a block. Then latency counts, and loads do not wait for the condition that there is an event;
// with more sequences the number of loads counts.
constexpr bool kFew = PHASED_THREADS < 3 * kTeam;
// Whether a thread has the weights of units beyond shared memory in registers; otherwise they come from global memory.
constexpr bool kKept = kOwn == 1 && kBeyond > 0 && kBeyond <= PHASED_KEPT && PHASED_THREADS <= PHASED_KEPT_THREADS;
static_assert(kHelpers == 1 && kColumnThreads <= kWide && kOwn <= 2 && kBeyond <= kLanes);
static_assert(3 * kLanes <= kRing);  // the events of this pass and of the next, and 32 that do not fit yet

__device__ __forceinline__ Four read(const Four* from) { return kFew ? loaded(*from) : *from; }

struct alignas(16) FourPlaces {
  int v[4];
};

// A step's events: how many have their weights in shared memory, and where; and how many have not, and which units they are.
// Units of a step come in descending order, so the latter come first.
struct StepEvents {
  FourPlaces places[kWide / 4];
  unsigned char others[kLanes];
  int many, beyond, unused[2];
};

// A team's shared memory.
struct alignas(16) GroupedBackwardMemory {
  Real to_h[kWide], to_c[kWide];
  Four shares[kWide];   // of a step's events: the gradients to their products
  StepEvents steps[2];  // even and odd ones
  Record tape[kRing];   // of the next events, the last first
  int unit[kRing];
};
static_assert(sizeof(GroupedBackwardMemory) ==
              PHASED_GROUPED_BACKWARD_BYTES + PHASED_EVENTS * (sizeof(Record) + sizeof(int)));

// The helper: cells of all events.
__device__ __forceinline__ void compute_cells(const Backward& p, const Team& team, GroupedBackwardMemory& memory, Index b) {
  const int units = int(p.units), length = length_of(p, b), lane = team.lane;
  const Index* const start = p.start + b * p.steps;
  const Index last = start[length] - 1;
  Counts<true> counts(start, length, lane);
  int begin = 0, end = counts.to_end_of(0), soon = counts.to_end_of(1);  // of this step's events, and of the next one's
  Fetched<kRing> fetched(int(last + 1 - start[0]), lane);
  const auto copy = [&](int event, int slot) {
    copy_ahead(memory.unit + slot, p.unit + last - event, 4);
    copy_struct(memory.tape + slot, p.tape + last - event);
  };
  int unit = 0, beyond = 0;  // of the lane's event; events of a step whose weights are not in shared memory
  Record kept = {};
  // The lane's event of those from `from` on, in step s, whose events are those from `begin` to `end`; before `from` all have
  // been read.
  const auto look = [&](int from, int s) {
    fetched.issue(from, copy);
    fetched.settle(smaller(end, from + kLanes));
    __syncwarp();
    const bool there = from + lane < end;
    if (there) {
      unit = memory.unit[fetched.slot(from + lane)];
      kept = memory.tape[fetched.slot(from + lane)].read();
    }
    StepEvents& step = memory.steps[s & 1];
    const int other = unit - int(p.ring);  // which of the units beyond shared memory, if it is one
    if (from == begin) {
      beyond = kBeyond ? __popc(__ballot_sync(kAll, there && other >= 0)) : 0;
      step.many = end - begin - beyond, step.beyond = beyond;  // all lanes alike
    }
    const int number = from + lane - begin, place = number - beyond;
    if (kBeyond && there && other >= 0) {
      step.others[number] = static_cast<unsigned char>(other);
    } else if (there) {
      step.places[place / 4].v[place % 4] = unit * units;
    }
  };
  const auto take = [&](int event) {
    Real to_h = memory.to_h[unit], to_c = memory.to_c[unit], w[3] = {}, record[kRecord];
    kept.unpack(record);  // while the gradients are read
    peepholes(p.peephole, units, unit, w);
    const Shares share(record, w, to_h, to_c);
    memory.shares[event - begin] = share.products;
    memory.to_h[unit] = to_h, memory.to_c[unit] = to_c;
    share.write(p, last - event);
  };
  if (lane < kNear / 4) memory.steps[0].places[lane] = memory.steps[1].places[lane] = FourPlaces{};
  __syncwarp();
  look(0, 0);
  team.sync();
  for (int s = 0; s < length; s++) {
    if (begin + lane < end) take(begin + lane);
    for (int from = begin + kLanes; from < end; from += kLanes) {  // more events than lanes
      __syncwarp();
      look(from, s);
      if (from + lane < end) take(from + lane);
    }
    team.sync();
    begin = end, end = soon;
    look(begin, s + 1);
    soon = counts.to_end_of(s + 2);
    team.sync();
  }
  wait_for_copies<0>();
}

// A thread's columns: every kColumnThreads-th from its first. Where the last one does not exist, it is another that does.
struct Columns {
  const Four* held;  // from its first column on
  int first, last;   // `last`: from the first

  __device__ __forceinline__ Columns(const Four* held, int thread, int units)
      : held(fixed(held + smaller(thread, units - 1))),
        first(smaller(thread, units - 1)),
        last(smaller(thread + (kOwn - 1) * kColumnThreads, units - 1) - first) {}

  __device__ __forceinline__ int at(int n) const { return n == 0 ? 0 : n < kOwn - 1 ? n * kColumnThreads : last; }

  // Its weights of an event, from shared memory.
  __device__ __forceinline__ void load(int place, Four weights[kOwn]) const {
#pragma unroll
    for (int n = 0; n < kOwn; n++) weights[n] = read(held + place + at(n));
  }
  // Those of one of the units beyond, from global memory.
  __device__ __forceinline__ void load_other(const Backward& p, int other, Four weights[kOwn]) const {
    const Real* const from = p.wh + (p.ring + other) * 4 * p.pitch + first;
#pragma unroll
    for (int n = 0; n < kOwn; n++)
      weights[n] = Four{from[at(n)], from[at(n) + p.pitch], from[at(n) + 2 * p.pitch], from[at(n) + 3 * p.pitch]};
  }
};

__device__ __forceinline__ void add_through(Four& sum, const Four& weights, const Four& share) {
#pragma unroll
  for (int g = 0; g < 4; g++) sum.v[g] += weights.v[g] * share.v[g];
}

// The weights of a thread's column and all units beyond shared memory, in registers. Registers have no addresses, so the unit is
// found by halves; all threads of a warp look for the same.
struct Kept {
  Four w[kKept ? kBeyond : 1];

  __device__ __forceinline__ Kept(const Backward& p, const Columns& columns) : w{} {
#pragma unroll
    for (int i = 0; i < (kKept ? kBeyond : 0); i++) columns.load_other(p, i, w + i);
  }
  template <int From = 0, int To = sizeof(w) / sizeof(Four)>
  __device__ __forceinline__ void add(Four& sum, int other, const Four& share) const {
    if constexpr (To - From == 1) {
      add_through(sum, w[From], share);
    } else if (other < (From + To) / 2) {
      add<From, (From + To) / 2>(sum, other, share);
    } else {
      add<(From + To) / 2, To>(sum, other, share);
    }
  }
};

// The other warps: the gradient to h.
__device__ __forceinline__ void add_columns(const Backward& p, const Team& team, GroupedBackwardMemory& memory, const Four* held,
                                            Index b) {
  const int units = int(p.units), length = length_of(p, b), thread = threadIdx.x % kTeam;
  // Rows of the output's gradient, from the thread's first column on; and a line of one that will come.
  const Columns columns(held, thread, units);
  const bool brings = p.to_output && thread * kLine < units + kLine - 1;
  const Real* const last_row = p.to_output + (p.to_output ? (length - 1) * p.output_step + b * p.output_batch : 0);
  const Real *gradient = last_row + columns.first, *line = last_row + smaller(thread * kLine, units - 1);
  for (int s = 0; s < kFar; s++, line -= p.output_step)
    if (brings && s < length) bring_near(line);
#pragma unroll
  for (int n = 0; n < kOwn; n++) {
    const int q = thread + n * kColumnThreads;
    if (q < units) {
      memory.to_h[q] = (p.to_final_h ? p.to_final_h[b * units + q] : Real(0)) + (p.to_output && length ? last_row[q] : Real(0));
      memory.to_c[q] = Cell::has_c && p.to_final_c ? p.to_final_c[b * units + q] : Real(0);
    }
  }
  const Kept kept(p, columns);
  team.sync();
  for (int s = 0; s < length; s++) {
    const StepEvents& step = memory.steps[s & 1];
    const int many = step.many, beyond = kBeyond ? step.beyond : 0;
    const int known = kBeyond + kNear > kLanes ? smaller(many, kLanes - beyond) : many;  // whose places are there already
    Four near[kNear][kOwn];
#pragma unroll
    for (int i = 0; i < kNear; i += 4) {  // places after this step's events are old or 0, and their weights are not used
      const FourPlaces places = step.places[i / 4];
#pragma unroll
      for (int k = 0; k < 4; k++)
        if (kFew || i + k < known) columns.load(places.v[k], near[i + k]);
    }
    Real next[kOwn] = {};
    if (p.to_output) {
      if (brings && s + kFar < length) bring_near(line);
      line -= p.output_step, gradient -= p.output_step;
      if (s + 1 < length)
#pragma unroll
        for (int n = 0; n < kOwn; n++) next[n] = gradient[columns.at(n)];
    }
    Four other[kOwn] = {};
    if (kBeyond && !kKept && beyond) columns.load_other(p, step.others[0], other);
    team.sync();  // the cells are computed
    Four sums[kOwn];
#pragma unroll
    for (int n = 0; n < kOwn; n++) sums[n] = Four{memory.to_h[thread + n * kColumnThreads]};
    const Four* const shares = memory.shares + beyond;
#pragma unroll
    for (int i = 0; i < kNear; i++) {
      const Four share = read(shares + i);
      if (i < known)
#pragma unroll
        for (int n = 0; n < kOwn; n++) add_through(sums[n], near[i][n], share);
    }
#pragma unroll 2
    for (int i = kBeyond + kNear > kLanes ? smaller(kNear, known) : kNear; i < many; i++) {
      const Four share = shares[i];
      Four weights[kOwn];
      columns.load(step.places[i / 4].v[i % 4], weights);
#pragma unroll
      for (int n = 0; n < kOwn; n++) add_through(sums[n], weights[n], share);
    }
    for (int i = 0; i < beyond; i++) {
      const Four share = memory.shares[i];
      if (kKept) {
        kept.add(sums[0], step.others[i], share);
        continue;
      }
      if (i) columns.load_other(p, step.others[i], other);
#pragma unroll
      for (int n = 0; n < kOwn; n++) add_through(sums[n], other[n], share);
    }
#pragma unroll
    for (int n = 0; n < kOwn; n++)
      if (thread + n * kColumnThreads < units)
        memory.to_h[thread + n * kColumnThreads] =
            ((sums[n].v[0] + sums[n].v[1]) + (sums[n].v[2] + sums[n].v[3])) + next[n];
    team.sync();
  }
#pragma unroll
  for (int n = 0; n < kOwn; n++) {
    const int q = thread + n * kColumnThreads;
    if (q < units && p.to_h) p.to_h[b * units + q] = memory.to_h[q];
    if (q < units && p.to_c) p.to_c[b * units + q] = memory.to_c[q];
  }
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) grouped_backward(const Backward p) {
  if (!p.is_called()) return;
  extern __shared__ __align__(16) unsigned char shared[];
  Four* const held = reinterpret_cast<Four*>(shared);
  const int units = int(p.units), count = int(p.ring), pitch = int(p.pitch);  // count: units with weights in shared memory
  for (int unit = threadIdx.x / kLanes; unit < count; unit += blockDim.x / kLanes)
    for (int column = threadIdx.x % kLanes; column < units; column += kLanes) {
      const Real* const rows = p.wh + Index(unit) * 4 * pitch + column;
      held[unit * units + column] = Four{rows[0], rows[pitch], rows[2 * pitch], rows[3 * pitch]};
    }
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  GroupedBackwardMemory& memory = reinterpret_cast<GroupedBackwardMemory*>(held + count * units)[team.number];
  __syncthreads();
  if (b >= p.batch) return;
  if (team.warp == kWarps) {
    compute_cells(p, team, *fixed(&memory), b);
  } else {
    add_columns(p, team, *fixed(&memory), held, b);
  }
}

}  // namespace phased
