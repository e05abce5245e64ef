// Forwards over open events with all weights in shared memory; see held.h.
//
// Two warps take turns: while one computes step j, the other loads what step j + 1 needs and is known already. Others add up the
// products of step j + 1's events with h as it was before step j. The warps that have columns write the output of step j - 1, and
// copy to the next copy of h what step j does not change. When an event is computed, its products lack only what the step before has
// changed.
#include "held.h"

namespace phased {

constexpr int kDots = kWarps - 3;  // warps for products

struct HeldHead {
  int unit;
  Real k;
};

// A team's shared memory. Step j makes copy j % 2 of h and of its changes, and reads the other.
struct alignas(16) HeldForwardMemory {
  Real h[2][kWide], c[kWide];  // h ends in zeros
  Real changes[2][kWide];      // by how much each event of a step has changed its h
  int columns[kListed][kLanes];  // of the first 32 events of a step
  int ends[kEnds];
  // After it in memory, for the events in the ring: the known part of their products; and their units and openness.
  __device__ __forceinline__ Four* terms() { return reinterpret_cast<Four*>(this + 1); }
  __device__ __forceinline__ HeldHead* heads(int ring) { return reinterpret_cast<HeldHead*>(terms() + ring); }

  static __device__ __forceinline__ HeldForwardMemory& of(unsigned char* shared, int ring, int team) {
    return *reinterpret_cast<HeldForwardMemory*>(shared +
                                                 team * (sizeof(HeldForwardMemory) + ring * (sizeof(Four) + sizeof(HeldHead))));
  }
};
static_assert(sizeof(HeldForwardMemory) == PHASED_HELD_FORWARD_MEMORY_BYTES && sizeof(HeldHead) == PHASED_HELD_HEAD_BYTES);

// One lane's columns of a unit's weights.
struct Columns {
  Four w[kParts];

  __device__ __forceinline__ void load(const Held& held, int unit, int lane) {
    const Four* row = held.row(unit) + lane;
#pragma unroll
    for (int i = 0; i < kParts; i++) w[i] = lane + kLanes * i < held.units ? row[kLanes * i] : Four{};
  }
  // Product lane / 8 with h.
  __device__ __forceinline__ Real product(const Real* h, int lane) const {
    Four sum = {};
#pragma unroll
    for (int i = 0; i < kParts; i++) {
      const Real x = h[lane + kLanes * i];
      for (int g = 0; g < 4; g++) sum.v[g] += w[i].v[g] * x;
    }
    const bool upper = lane & 16, right = lane & 8;
    Real left = upper ? sum.v[2] : sum.v[0], other = upper ? sum.v[3] : sum.v[1];
    left += __shfl_xor_sync(kAll, upper ? sum.v[0] : sum.v[2], 16);
    other += __shfl_xor_sync(kAll, upper ? sum.v[1] : sum.v[3], 16);
    Real all = right ? other : left;
    all += __shfl_xor_sync(kAll, right ? left : other, 8);
    for (int apart = 4; apart; apart /= 2) all += __shfl_xor_sync(kAll, all, apart);
    return all;
  }
};

// Steps of a parity, computed by one warp. `Keep` says whether there is a tape.
template <int Parity, bool Keep>
struct ForwardSteps {
  static constexpr int kParity = Parity, kNow = Parity, kBefore = 1 - Parity;  // the latter are copies of h and of its changes
  const Forward& p;
  HeldForwardMemory& memory;
  const Held& held;
  Four* const terms;
  HeldHead* const heads;
  const int lane, ring;
  Record* tape;  // of the lane's event of the prepared step
  Real record[kRecord] = {};
  // The prepared step's events, and those of the one before: where their slots begin, and how many they are.
  int at = 0, count = 0, at_before = 0, count_before = 0, end;
  // The lane's event; without one, an event of unit 0 that changes nothing, with its state in the last slot. And its weights for
  // the first changes of the step before.
  const Four* known;
  int unit = 0, place = kWide - 1;
  Real k = 0, w[3] = {};
  Four near[kNear] = {};

  __device__ ForwardSteps(const Forward& p, HeldForwardMemory& memory, const Held& held, int lane, Index first)
      : p(p), memory(memory), held(held), terms(memory.terms()), heads(memory.heads(p.ring)), lane(lane), ring(p.ring),
        tape(Keep ? p.tape + first + lane : nullptr), end(static_cast<int>(first)), known(held.weights) {}

  // Adds the products of the last step's changes, from the i-th on, to an event of a unit: those whose weights are not in
  // registers.
  __device__ __forceinline__ void add_changes(Real a[4], const Real* changed, int unit_of, int i, int j) const {
    const Four* const row = held.row(unit_of);
    const int* const columns = memory.columns[(j - 1) & (kListed - 1)];
    for (; i < count_before; i++) {
      const Four weights = row[i < kLanes ? columns[i] : heads[wrapped(at_before + i, ring)].unit];
      for (int g = 0; g < 4; g++) a[g] += weights.v[g] * changed[i];
    }
  }

  // The lane's event of step j, and its weights for the changes of step j - 1. Before, step j - 2 was prepared.
  __device__ __forceinline__ void prepare(int j) {
    const int end_before = memory.ends[(j - 1) & (kEnds - 1)], end_here = memory.ends[j & (kEnds - 1)];
    at_before = wrapped(at + count, ring), count_before = end_before - end, at = wrapped(at_before + count_before, ring);
    if (Keep) keep(), tape += count + count_before;  // the record of step j - 2, for which no other warp waits now
    count = end_here - end_before, end = end_here;
    const int slot = wrapped(at + lane, ring);
    const HeldHead head = heads[slot];  // not used by lanes without an event, whose slot may be that of a copy in flight
    const bool there = lane < count;
    known = there ? terms + slot : held.weights, k = there ? head.k : Real(0);
    unit = there ? head.unit : 0, place = there ? head.unit : kWide - 1;
    peepholes(p.peephole, p.units, unit, w);
    memory.columns[j & (kListed - 1)][lane] = unit;
    const Four* const row = held.row(unit);
#pragma unroll
    for (int i = 0; i < kNear; i += 4) {
      const int4 column = *reinterpret_cast<const int4*>(memory.columns[(j - 1) & (kListed - 1)] + i);
      near[i] = row[column.x], near[i + 1] = row[column.y], near[i + 2] = row[column.z], near[i + 3] = row[column.w];
    }
  }

  __device__ __forceinline__ void compute(int j) {
    const Real* const changed = memory.changes[kBefore];
    Real *const change = memory.changes[kNow], *const here = memory.h[0] + place;  // everything of a unit has the same index
    const Real h = here[kBefore * kWide], c = here[2 * kWide];
    const Four products = *known;
    Real a[4] = {products.v[0], products.v[1], products.v[2], products.v[3]}, new_c;
#pragma unroll
    for (int i = 0; i < kNear; i += 4) {
      const Four by = load_four(changed + i);
      for (int l = 0; l < 4; l++)
        for (int g = 0; g < 4; g++) a[g] += near[i + l].v[g] * by.v[l];
    }
    if (__builtin_expect(count_before > kNear, 0)) add_changes(a, changed, unit, kNear, j);
    const Real new_h = accept(a, k, h, c, w, new_c, record);
    const bool there = lane < count;
    change[lane] = there ? new_h - h : Real(0);
    if (there) here[kNow * kWide] = new_h, here[2 * kWide] = new_c;
    if (__builtin_expect(count > kLanes, 0)) compute_more(j);
  }

  // Writes the record of the lane's event of the last step.
  __device__ __forceinline__ void keep() const {
    if (lane < count) tape->write(record);
  }

  // More events than lanes: nothing of these is prepared.
  __device__ __forceinline__ void compute_more(int j) {
    const Real* const changed = memory.changes[kBefore];
    for (int i = kLanes + lane; i < count; i += kLanes) {
      const int slot = wrapped(at + i, ring);
      const HeldHead head = heads[slot];
      const Four products = terms[slot];
      Real a[4] = {products.v[0], products.v[1], products.v[2], products.v[3]}, v[3] = {}, new_c, other[kRecord];
      peepholes(p.peephole, p.units, head.unit, v);
      add_changes(a, changed, head.unit, 0, j);
      const Real h = memory.h[kBefore][head.unit], new_h = accept(a, head.k, h, memory.c[head.unit], v, new_c, other);
      memory.h[kNow][head.unit] = new_h, memory.c[head.unit] = new_c, memory.changes[kNow][i] = new_h - h;
      if (Keep) tape[i - lane].write(other);
    }
  }
};

template <int Parity>
__device__ __forceinline__ void step_forward(const Forward& p, const Team& team, HeldForwardMemory& memory, const Held& held,
                                             Index first, int length) {
  if (p.keeps()) {
    ForwardSteps<Parity, true> steps(p, memory, held, team.lane, first);
    take_turns(team, steps, length);
    steps.keep();
  } else {
    ForwardSteps<Parity, false> steps(p, memory, held, team.lane, first);
    take_turns(team, steps, length);
  }
}

// Warps for products: the i-th event belongs to warp i % kDots, which loads its weights long before.
__device__ __forceinline__ void add_products(const Forward& p, const Team& team, HeldForwardMemory& memory, const Held& held,
                                             const Index* start, int length) {
  const int lane = team.lane, ring = p.ring, count = int(start[length] - start[0]);
  const Ends<false> ends(memory.ends, start, length);
  Four* const terms = memory.terms();
  const HeldHead* const heads = memory.heads(ring);
  int i = team.warp - 2, slot = i;
  Columns columns;
  team.sync();  // the first events are there
  columns.load(held, i < count ? heads[slot].unit : 0, lane);
  for (int j = -1; j < length; j++) {
    const int end = ends.at(j + 1);
    while (i < end) {
      Real* const term = terms[slot].v + lane / 8;
      const Real known = *term, all = columns.product(memory.h[(j + 1) & 1], lane);
      __syncwarp();  // all lanes have read it
      if (lane % 8 == 0) *term = known + all;
      i += kDots, slot = wrapped(slot + kDots, ring);
      columns.load(held, i < count ? heads[slot].unit : 0, lane);
    }
    team.sync();
  }
}

// One warp fetches events, and where steps end, before any warp reads them.
__device__ __forceinline__ void fetch_forward(const Forward& p, const Team& team, HeldForwardMemory& memory, const Index* start,
                                              int length) {
  const int lane = team.lane;
  const Arrival* arrivals = p.arrivals + start[0];
  const Ends<false> ends(memory.ends, start, length);
  Staging staging(int(start[length] - start[0]), int(p.ring));
  Four* const terms = memory.terms();
  HeldHead* const heads = memory.heads(p.ring);
  const int past = p.most > kLanes;  // whether the last step's events are needed: those without a column listed
  const auto copy = [&](int from, int slot, int many) {
    for (int n = lane; n < many; n += kLanes) {
      const Arrival& event = arrivals[from + n];
      copy_ahead(&heads[slot + n].unit, &event.head.unit, 4);
      copy_ahead(&heads[slot + n].k, &event.head.k, sizeof(Real));
      for (int part = 0; part < int(sizeof(Four) / 16); part++)
        copy_ahead(reinterpret_cast<char*>(terms + slot + n) + 16 * part, reinterpret_cast<const char*>(event.terms) + 16 * part,
                   16);
    }
  };
  ends.begin(lane);
  staging.issue(0, copy);
  staging.settle_all();
  team.sync();
  for (int j = -1; j < length; j++) {
    staging.issue(ends.at(j - 1 - past), copy);
    ends.advance(j, lane);
    staging.settle(ends.at(j + 2) + kDots);
    team.sync();
  }
  wait_for_copies<0>();
}

// The warps that have columns.
__device__ __forceinline__ void carry_forward(const Forward& p, const Team& team, HeldForwardMemory& memory, Index b,
                                              int length) {
  const int units = p.units, lane = team.lane, word = team.warp - kWarps;
  const Index step = p.batch * units;
  Masks<false> masks(p.mask + b * p.steps * ((units + 31) / 32), length, word, (units + 31) / 32, lane);
  Real* out = p.output + b * units - 2 * step;  // of step j - 1
  const auto put_out = [&](const Real* h) {
#pragma unroll
    for (int n = 0; n < kWords; n++) {
      const int q = (word + n * kHelpers) * kLanes + lane;
      if (q < units) out[q] = h[q];
    }
  };
  team.sync();
  for (int j = -1; j < length; j++, out += step) {
    const Real* const h = memory.h[(j + 1) & 1];
    Real* const write = memory.h[j & 1];
    if (j >= 0) {
#pragma unroll
      for (int n = 0; n < kWords; n++) {
        const int q = (word + n * kHelpers) * kLanes + lane;
        if (!masks.open(n, j) && q < units) write[q] = h[q];
      }
      if (j) put_out(h);
      masks.done(j);
    }
    team.sync();
  }
  if (length) put_out(memory.h[(length + 1) & 1]);
  Copies{memory.h[(length + 1) & 1], nullptr, memory.c}.end(p, b, length, word * kLanes + lane);
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) held_forward(const Forward p) {
  if (!p.is_called()) return;
  extern __shared__ __align__(16) unsigned char shared[];
  Four* const weights = reinterpret_cast<Four*>(shared);
  const Held held = Held::load(weights, p.wh, p.units, p.pitch);
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  HeldForwardMemory& memory =
      HeldForwardMemory::of(reinterpret_cast<unsigned char*>(weights + held.units * held.pitch), p.ring, team.number);
  if (b < p.batch)
    for (int q = threadIdx.x % kTeam; q < kWide; q += kTeam) {
      memory.h[0][q] = memory.h[1][q] = p.initial_h && q < held.units ? p.initial_h[b * held.units + q] : Real(0);
      memory.c[q] = p.initial_c && q < held.units ? p.initial_c[b * held.units + q] : Real(0);
      memory.changes[0][q] = memory.changes[1][q] = 0;
      memory.columns[q / kLanes][q % kLanes] = 0;
    }
  __syncthreads();
  if (b >= p.batch) return;
  const int length = length_of(p, b);
  const Index* const start = p.start + b * p.steps;
  if (team.warp == 0) {
    step_forward<0>(p, team, memory, held, start[0], length);
  } else if (team.warp == 1) {
    step_forward<1>(p, team, memory, held, start[0], length);
  } else if (team.warp < kWarps - 1) {
    add_products(p, team, memory, held, start, length);
  } else if (team.warp < kWarps) {
    fetch_forward(p, team, memory, start, length);
  } else {
    carry_forward(p, team, memory, b, length);
  }
}

}  // namespace phased
