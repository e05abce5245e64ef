// Forwards over open events of layers whose weights do not fit into shared memory: one team of warps a sequence.
//
// A step is a chain of dependent operations: read h, four products, a sum over lanes, the cell, write h, barrier. So it is kept
// short. Events are assigned to warps in turn, the i-th to warp i % kWarps: a warp loads its next event, and its weights, long
// before its step. A step reads one copy of h and writes another, so one barrier is enough. Helpers stage the events, write the
// output, and copy what a step does not change to the other copy.
#include "steps.h"

namespace phased {

// A team's shared memory: the copies of h, c, and a ring of events.
struct ForwardMemory {
  Copies copies;
  Arrival* ring;

  __device__ ForwardMemory(Real* shared, const Forward& p, int team) {
    const int wide = Copies::wide(p.pitch), words = 2 * wide + p.pitch + p.ring * int(sizeof(Arrival) / sizeof(Real));
    copies.h = shared + team * words, copies.other = copies.h + wide, copies.c = copies.other + wide;
    ring = reinterpret_cast<Arrival*>(copies.c + p.pitch);
  }
};

// `Whole`: rows of weights are a multiple of the columns that a warp has at once.
template <bool Whole>
__device__ __forceinline__ void work_forward(const Forward& p, const Team& team, ForwardMemory memory, Index b, int length) {
  const int pitch = of_warp(int(p.pitch)), ring = of_warp(int(p.ring)), lane = team.lane, first_row = int(b * p.steps);
  const Index first = p.start[b * p.steps];
  const int count = int(p.start[b * p.steps + length] - first);
  Copies at = memory.copies;
  int i = team.warp, slot = team.warp, due = -1;
  // What the tape keeps of an event is written while the warp's next event waits for its sums.
  Record *taped = p.keeps() ? p.tape + first + i : nullptr, *before = nullptr;
  Real record[kRecord] = {};
  const auto write = [&] {
    const Record rounded = Record::of(record);
    if (lane == 0 && before) before->write(rounded);
  };
  Arrival event;
  Part part;
  const auto fetch = [&] {  // event i, or, after the last, one that is never due
    event = memory.ring[i < count ? slot : 0];
    due = i < count ? event.head.row - first_row : -1;
    part.load<Whole>(p.wh, event.head.unit, pitch, lane);
  };
  team.sync();  // the first events are there
  if (count) fetch();
  for (int j = 0; j < length; j++) {
    while (due == j) {
      const int unit = event.head.unit;
      const Real k = event.head.k, h = at.h[unit], c = at.c[unit];
      const Real sum = product<Whole>(part, p.wh, unit, at.h, pitch, lane);
      Real a[4], w[3] = {}, new_c;
      write();
      before = taped, taped += taped ? kWarps : 0;
      for (int g = 0; g < 4; g++) a[g] = __shfl_sync(kAll, sum, 8 * g) + event.terms[g];
      peepholes(p.peephole, p.units, unit, w);
      i += kWarps, slot += kWarps;
      slot = slot < ring ? slot : slot - ring;
      fetch();
      const Real new_h = accept(a, k, h, c, w, new_c, record);  // all lanes alike
      __syncwarp();  // all lanes have read c
      if (lane == 0) at.other[unit] = new_h, at.c[unit] = new_c;
    }
    team.sync();
    at.swap();
  }
  write();
}

// A helper has every kHelpers-th word of 32 units, and a lane one unit of each. What it copies at a step is the output of the step
// before.
constexpr int kWordsAhead = (4 * kBlocks + kHelpers - 1) / kHelpers;  // words whose changes are known ahead; all, to 1,024 units

__device__ __forceinline__ void help_forward(const Forward& p, const Team& team, ForwardMemory memory, Index b, int length) {
  const int units = p.units, helper = team.warp - kWarps, lane = team.lane, thread = helper * kLanes + lane,
            words = (units + 31) / 32;
  const Index* start = p.start + b * p.steps;
  const Index first = start[0];
  // Of 32 steps at a time, lane l knows the l-th: where its events end, and which units it changes.
  struct Ahead {
    int end;
    unsigned changed[kWordsAhead];
  };
  const auto look = [&](int j) {
    Ahead ahead;
    ahead.end = int(start[j + lane < length ? j + lane + 1 : length] - first);
#pragma unroll
    for (int n = 0; n < kWordsAhead; n++) {
      const int w = helper + n * kHelpers;
      ahead.changed[n] = w < words && j + lane < length ? p.mask[(b * p.steps + j + lane) * words + w] : 0;
    }
    return ahead;
  };
  Copies at = memory.copies;
  Staging staging(int(start[length] - first), int(p.ring));
  const auto copy = [&](int from, int slot, int many) { copy_rows(memory.ring + slot, p.arrivals + first + from, many, thread); };
  staging.issue(0, copy);
  Ahead now = look(0), next = look(kLanes);
  staging.settle(1);
  team.sync();
  const Index row = p.batch * units;
  Real* out = p.output + b * units + thread - row;  // of the step before
  for (int j = 0; j < length; j++, out += row) {
    const int s = j % kLanes;
    const int done = __shfl_sync(kAll, now.end, s),
              soon = __shfl_sync(kAll, s + 1 < kLanes ? now.end : next.end, (s + 1) % kLanes);
    const auto move = [&](int n, unsigned changed) {
      const int q = n * kHelperThreads + thread;
      if (q >= units) return;
      const Real h = at.h[q];
      if (!(changed >> lane & 1)) at.other[q] = h;
      if (j) out[n * kHelperThreads] = h;
    };
#pragma unroll
    for (int n = 0; n < kWordsAhead; n++) move(n, __shfl_sync(kAll, now.changed[n], s));
    for (int n = kWordsAhead; helper + n * kHelpers < words; n++)  // more words than registers
      move(n, p.mask[(b * p.steps + j) * words + helper + n * kHelpers]);
    staging.settle(soon + kWarps);
    team.sync();
    at.swap();
    staging.issue(done, copy);
    if (s + 1 == kLanes) now = next, next = look(j + 1 + kLanes);
  }
  wait_for_copies<0>();
  if (length)
    for (int q = thread; q < units; q += kHelperThreads) out[q - thread] = at.h[q];
  at.end(p, b, length, thread);
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) streamed_forward(const Forward p) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (!p.is_called()) return;
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  const ForwardMemory memory(fixed(reinterpret_cast<Real*>(shared)), p, team.number);
  if (b < p.batch) memory.copies.begin(p, b, threadIdx.x % kTeam, kTeam);
  __syncthreads();
  if (b >= p.batch) return;
  const int length = length_of(p, b);
  if (team.warp >= kWarps) {
    help_forward(p, team, memory, b, length);
  } else if (p.pitch % kColumns == 0) {
    work_forward<true>(p, team, memory, b, length);
  } else {
    work_forward<false>(p, team, memory, b, length);
  }
}

}  // namespace phased
