// Backwards over open events, the mirror of streamed_forward.cu. It writes, for every event, the gradients to its four products,
// to its openness and to its peepholes; sums.cu turns them into gradients to weights, input and gates, for all steps in parallel.
//
// A step has two parts. Warps compute the gradients from the cell to the products, and through their rows of weights to h, each
// with its own sums, zeros if it has no events; then helpers add these sums, and the output's gradient, to the gradient to h.
#include "steps.h"

namespace phased {

constexpr int kHeld = kBlocks < 2 ? kBlocks : 2;  // blocks of columns of an event's rows fetched before its step

// The unit and the row of an event.
struct alignas(8) UnitRow {
  int unit, row;
};
static_assert(sizeof(UnitRow) == PHASED_UNIT_ROW_BYTES);

// A team's shared memory. Events are in rings, the last first.
struct BackwardMemory {
  Real *to_h, *to_c, *partial, *gradients;
  Record* tape;
  UnitRow* places;

  __device__ BackwardMemory(Real* shared, const Backward& p, int team) {
    const int pitch = p.pitch, ring = p.ring;
    const int words = (2 + kWarps + kAhead) * pitch + ring * int((sizeof(Record) + sizeof(UnitRow)) / sizeof(Real));
    to_h = shared + team * words, to_c = to_h + pitch, partial = to_c + pitch, gradients = partial + kWarps * pitch;
    tape = reinterpret_cast<Record*>(gradients + kAhead * pitch), places = reinterpret_cast<UnitRow*>(tape + ring);
  }
};

// `Whole`: rows of weights have exactly kBlocks blocks of columns, so that all lanes have columns in all of them.
template <bool Whole>
__device__ __forceinline__ void work_backward(const Backward& p, const Team& team, BackwardMemory memory, Index b, int length) {
  const int pitch = of_warp(int(p.pitch)), ring = of_warp(int(p.ring)), lane = team.lane, first_row = int(b * p.steps);
  const Real* const weights = p.wh;
  const Index end = p.start[b * p.steps + length];
  const int count = int(end - p.start[b * p.steps]);
  Real* partial = memory.partial + team.warp * pitch + 4 * lane;
  int i = team.warp, slot = team.warp;  // this warp's next event, counted from the last of all, and where it is
  UnitRow place = {0, -1};              // lane r: the r-th event from there
  Real record[kRecord] = {};
  Rows held[kHeld];  // of the next event
  const auto wrapped = [&](int at) { return at < ring ? at : at - ring; };  // the ring has kRounds events of every warp
  // Loads the next events. Only those of the next step are certain to have arrived; the place of another may be old, and is never
  // due.
  const auto look = [&] {
    place = {0, -1};
    if (lane < kRounds && i + lane * kWarps < count) {
      const int at = wrapped(slot + lane * kWarps);
      place = memory.places[at];
      memory.tape[at].read(record);
    }
  };
  const auto fetch = [&] {
    const int unit = __shfl_sync(kAll, place.unit, 0);
#pragma unroll
    for (int n = 0; n < kHeld; n++) held[n].load<Whole>(weights, unit, pitch, 4 * lane + 128 * n);
  };
  team.sync();  // the last events are there
  look(), fetch();
  for (int j = length - 1; j >= 0; j--) {
    Four sums[kBlocks] = {};
    bool any = false;
    for (int due; (due = __popc(__ballot_sync(kAll, place.row == first_row + j))); any = true) {
      Real a[4] = {};
      if (lane < due) {  // lane r computes the cell of the r-th event
        Real to_h = memory.to_h[place.unit], to_c = memory.to_c[place.unit], w[3] = {};
        peepholes(p.peephole, p.units, place.unit, w);
        const Shares share(record, w, to_h, to_c);
        share.write(p, end - 1 - i - lane * kWarps);
        for (int g = 0; g < 4; g++) a[g] = share.products.v[g];
        memory.to_h[place.unit] = to_h, memory.to_c[place.unit] = to_c;  // no other warp's before the barrier
      }
      for (int r = 0; r < due; r++) {
        const int unit = __shfl_sync(kAll, place.unit, r);
        Real by[4];
        for (int g = 0; g < 4; g++) by[g] = __shfl_sync(kAll, a[g], r);
        const bool first = !any && r == 0;  // of the warp's events in this step: its rows have been fetched
        const auto add_block = [&](int n) {
          Rows rows;
          rows.load<Whole>(weights, unit, pitch, 4 * lane + 128 * n);
          rows.add_to(sums[n], by);
        };
        if (first) {
#pragma unroll
          for (int n = 0; n < kBlocks; n++) {
            if (n < kHeld) {
              held[n < kHeld ? n : 0].add_to(sums[n], by);
            } else {
              add_block(n);
            }
          }
        } else {
#pragma unroll
          for (int n = 0; n < kBlocks; n++) add_block(n);
        }
        for (int q = 128 * kBlocks; 4 * lane + q < pitch; q += 128) {  // more columns than registers
          Rows rows;
          rows.load(weights, unit, pitch, 4 * lane + q);
          Four sum = first ? Four{} : load_four(partial + q);
          rows.add_to(sum, by);
          store_four(partial + q, sum);
        }
      }
      i += due * kWarps, slot = wrapped(slot + due * kWarps);
      place = {0, -1};
      if (due == kRounds) look();
    }
#pragma unroll
    for (int n = 0; n < kBlocks; n++)
      if (Whole || 4 * lane + 128 * n < pitch) store_four(partial + 128 * n, sums[n]);
    for (int q = 128 * kBlocks; !any && 4 * lane + q < pitch; q += 128) store_four(partial + q, Four{});
    team.sync();
    look(), fetch();
    team.sync();
  }
}

template <bool Whole>
__device__ __forceinline__ void help_backward(const Backward& p, const Team& team, BackwardMemory memory, Index b, int length) {
  const int pitch = p.pitch, lane = team.lane, thread = (team.warp - kWarps) * kLanes + lane;
  const Index* start = p.start + b * p.steps;
  const Index end = start[length];
  const auto look = [&](int j) { return int(end - start[j - lane >= 0 ? j - lane : 0]); };  // lane l: events from step j - l on
  Staging staging(int(end - start[0]), int(p.ring));
  const auto copy = [&](int from, int slot, int many) {
    for (int n = thread; n < many; n += kHelperThreads) {
      const Index e = end - 1 - from - n;
      copy_ahead(&memory.places[slot + n].unit, p.unit + e, 4);
      copy_ahead(&memory.places[slot + n].row, p.row + e, 4);
      copy_struct(memory.tape + slot + n, p.tape + e);
    }
  };
  staging.issue(0, copy);
  const GradientRows gradients{p, memory.gradients, b, thread};
  gradients.begin(length, memory.to_h, memory.to_c);
  int now = look(length - 1), next = look(length - 1 - kLanes);
  staging.settle(1);
  team.sync();
  for (int j = length - 1; j >= 0; j--) {
    const int s = (length - 1 - j) % kLanes;
    const int done = __shfl_sync(kAll, now, s), soon = __shfl_sync(kAll, s + 1 < kLanes ? now : next, (s + 1) % kLanes);
    staging.settle(soon + kWarps);
    team.sync();
    gradients.add(j - 1, memory.to_h, memory.partial, Whole ? 128 * kBlocks : pitch, kWarps);
    team.sync();
    staging.issue(done, copy);
    gradients.issue(j - 1 - kAhead);
    if (s + 1 == kLanes) now = next, next = look(j - 1 - kLanes);
  }
  wait_for_copies<0>();
  gradients.end(memory.to_h, memory.to_c);
}

template <bool Whole>
__device__ __forceinline__ void run_backward(const Backward& p, const Team& team, BackwardMemory memory, Index b, int length) {
  if (team.warp < kWarps) {
    work_backward<Whole>(p, team, memory, b, length);
  } else {
    help_backward<Whole>(p, team, memory, b, length);
  }
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) streamed_backward(const Backward p) {
  if (!p.is_called()) return;
  extern __shared__ __align__(16) unsigned char shared[];
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  const BackwardMemory memory(fixed(reinterpret_cast<Real*>(shared)), p, team.number);
  for (int n = threadIdx.x % kTeam; n < p.ring; n += kTeam) memory.places[n] = {0, -1};
  __syncthreads();
  if (b >= p.batch) return;
  const int length = length_of(p, b);
  if (p.pitch == 128 * kBlocks) {
    run_backward<true>(p, team, memory, b, length);
  } else {
    run_backward<false>(p, team, memory, b, length);
  }
}

}  // namespace phased
