// Backwards over open events, several sequences in a block; see grouped.h. Steps are counted from the last: step s is the
// sequence's j-th, j = length - 1 - s.
//
// A step has two parts. Threads of one or two warps compute the cells, one event each, and replace the gradient to h and c of
// their units; then all threads of the team, with one or more columns each, add what the events contribute to the gradient to h.
#include "grouped.h"

namespace phased {

constexpr int kLarge = kWarps < 4 ? 1 : 2;
constexpr int kPass = kLarge * PHASED_PASS;            // events whose cells a team computes at once
constexpr int kRing = kLarge * PHASED_EVENTS;          // events in shared memory
constexpr int kOwn = (kWords + kWarps - 1) / kWarps;   // columns of a thread
constexpr int kNear = kOwn > 2 ? 4 : 8;                // events of a step whose weights a thread loads before the cells are known
constexpr int kFar = 8;                                // steps by which rows of the output's gradient come to the L2 cache before
constexpr int kLine = 128 / sizeof(Real);              // numbers of a line of the cache
static_assert(kPass <= kTeam && kTeam <= kWide && kNear <= kPass);
static_assert(2 * kPass + kLanes <= kRing);  // the events of this pass and of the next, and 32 that do not fit yet

// A team's shared memory.
struct alignas(16) GroupedBackwardMemory {
  Real to_h[kWide], to_c[kWide];
  Four shares[kWide];   // of a step's events: the gradients to their products
  int rows[2][kWide];   // where their weights are, of odd and even steps
  Record tape[kRing];   // of the next events, the last first
  int unit[kRing];
};
static_assert(sizeof(GroupedBackwardMemory) ==
              PHASED_GROUPED_BACKWARD_BYTES + kLarge * PHASED_EVENTS * (sizeof(Record) + sizeof(int)));

// Where a unit's weights are: in shared memory, or (negative) in global memory.
__device__ __forceinline__ int row_of(int unit, const Backward& p) {
  return kBeyond && unit >= p.ring ? ~unit : unit * int(p.units);
}

// A thread's columns: every kTeam-th from its first. Where the last one does not exist, it is another that does.
struct Columns {
  const Four* held;  // from its first column on
  int first, last;   // `last`: from the first

  __device__ __forceinline__ Columns(const Four* held, int thread, int units)
      : held(fixed(held + smaller(thread, units - 1))),
        first(smaller(thread, units - 1)),
        last(smaller(thread + (kOwn - 1) * kTeam, units - 1) - first) {}

  __device__ __forceinline__ int at(int n) const { return n < kOwn - 1 ? n * kTeam : last; }

  // Its weights of an event.
  __device__ __forceinline__ void load(const Backward& p, int row, Four weights[kOwn]) const {
    if (kBeyond && row < 0) {
      const Real* const from = p.wh + Index(~row) * 4 * p.pitch + first;
#pragma unroll
      for (int n = 0; n < kOwn; n++)
        weights[n] = Four{from[at(n)], from[at(n) + p.pitch], from[at(n) + 2 * p.pitch], from[at(n) + 3 * p.pitch]};
      return;
    }
    const Four* const from = held + row;
#pragma unroll
    for (int n = 0; n < kOwn; n++) weights[n] = from[at(n)];
  }
};

__device__ __forceinline__ void add_through(Four& sum, const Four& weights, const Four& share) {
#pragma unroll
  for (int g = 0; g < 4; g++) sum.v[g] += weights.v[g] * share.v[g];
}

__device__ __forceinline__ void run_backward(const Backward& p, const Team& team, GroupedBackwardMemory& memory, const Four* held,
                                             Index b) {
  const int units = int(p.units), length = length_of(p, b), lane = team.lane, warp = rank_of(team);
  const int thread = kLanes * warp + lane;  // in the turned order: the first thread has the first event
  const Index* const start = p.start + b * p.steps;
  const Index last = start[length] - 1;
  Counts<true> counts(start, length, lane);
  int begin = 0, end = counts.to_end_of(0), soon = counts.to_end_of(1);  // of this step's events, and of the next one's
  Fetched<kRing> fetched(int(last + 1 - start[0]), lane);
  const auto copy = [&](int event, int slot) {
    copy_ahead(memory.unit + slot, p.unit + last - event, 4);
    copy_struct(memory.tape + slot, p.tape + last - event);
  };
  if (warp == 0) fetched.issue(0, copy), fetched.settle(smaller(end, kPass));
  // Rows of the output's gradient, from the thread's first column on; and a line of one that will come.
  const Columns columns(held, thread, units);
  const bool brings = p.to_output && thread * kLine < units + kLine - 1;
  const Real* const last_row = p.to_output + (p.to_output ? (length - 1) * p.output_step + b * p.output_batch : 0);
  const Real *gradient = last_row + columns.first, *line = last_row + smaller(thread * kLine, units - 1);
  for (int s = 0; s < kFar; s++, line -= p.output_step)
    if (brings && s < length) bring_near(line);
#pragma unroll
  for (int n = 0; n < kOwn; n++) {
    const int q = thread + n * kTeam;
    if (q < units) {
      memory.to_h[q] = (p.to_final_h ? p.to_final_h[b * units + q] : Real(0)) + (p.to_output && length ? last_row[q] : Real(0));
      memory.to_c[q] = Cell::has_c && p.to_final_c ? p.to_final_c[b * units + q] : Real(0);
    }
  }
  sync(team);
  // The thread's event: of this step, if it has one.
  int unit = 0;
  Real record[kRecord] = {};
  const auto look = [&](int event) {
    unit = memory.unit[fetched.slot(event)];
    memory.tape[fetched.slot(event)].read(record);
  };
  const auto take = [&](int event, int place) {
    Real to_h = memory.to_h[unit], to_c = memory.to_c[unit], w[3] = {};
    peepholes(p.peephole, units, unit, w);
    const Shares share(record, w, to_h, to_c);
    memory.shares[place] = share.products;
    memory.to_h[unit] = to_h, memory.to_c[unit] = to_c;
    share.write(p, last - event);
  };
  const bool computes = thread < kPass;
  if (computes && thread < end) look(thread), memory.rows[0][thread] = row_of(unit, p);
  sync(team);
  for (int s = 0; s < length; s++) {
    const int many = end - begin;
    int* const rows = memory.rows[s & 1];
    Real next[kOwn] = {};
    if (p.to_output) {
      if (brings && s + kFar < length) bring_near(line);
      line -= p.output_step, gradient -= p.output_step;
      if (s + 1 < length)
#pragma unroll
        for (int n = 0; n < kOwn; n++) next[n] = gradient[columns.at(n)];
    }
    Four near[kNear][kOwn];
#pragma unroll
    for (int i = 0; i < kNear; i++)
      if (i < many) columns.load(p, rows[i], near[i]);
    if (computes && thread < many) take(begin + thread, thread);
    int from = begin;
    while (from + kPass < end) {  // more events than threads that compute them
      if (warp == 0) fetched.issue(from, copy), fetched.settle(smaller(end, from + 2 * kPass));
      from += kPass;
      sync(team);
      if (computes && from + thread < end) {
        look(from + thread);
        rows[from + thread - begin] = row_of(unit, p);
        take(from + thread, from + thread - begin);
      }
    }
    if (warp == 0) fetched.issue(from, copy), fetched.settle(smaller(soon, end + kPass));
    sync(team);
    Four sums[kOwn];
#pragma unroll
    for (int n = 0; n < kOwn; n++) sums[n] = Four{memory.to_h[thread + n * kTeam]};
    if (computes && end + thread < soon) look(end + thread), memory.rows[1 - (s & 1)][thread] = row_of(unit, p);
#pragma unroll
    for (int i = 0; i < kNear; i++)
      if (i < many) {
        const Four share = memory.shares[i];
#pragma unroll
        for (int n = 0; n < kOwn; n++) add_through(sums[n], near[i][n], share);
      }
#pragma unroll 2
    for (int i = kNear; i < many; i++) {
      const Four share = memory.shares[i];
      Four weights[kOwn];
      columns.load(p, rows[i], weights);
#pragma unroll
      for (int n = 0; n < kOwn; n++) add_through(sums[n], weights[n], share);
    }
#pragma unroll
    for (int n = 0; n < kOwn; n++)
      if (thread + n * kTeam < units)
        memory.to_h[thread + n * kTeam] = ((sums[n].v[0] + sums[n].v[1]) + (sums[n].v[2] + sums[n].v[3])) + next[n];
    sync(team);
    begin = end, end = soon, soon = counts.to_end_of(s + 2);
  }
  wait_for_copies<0>();
#pragma unroll
  for (int n = 0; n < kOwn; n++) {
    const int q = thread + n * kTeam;
    if (q < units && p.to_h) p.to_h[b * units + q] = memory.to_h[q];
    if (q < units && p.to_c) p.to_c[b * units + q] = memory.to_c[q];
  }
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) grouped_backward(const Backward p) {
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
  if (b < p.batch) run_backward(p, team, *fixed(&memory), held, b);
}

}  // namespace phased
