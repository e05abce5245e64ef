// Backwards over open events with all weights in shared memory; see held.h. Steps are counted from the last: step s is the
// sequence's j-th, j = length - 1 - s.
//
// While a warp computes the cells of step s, warps that have columns add the contributions of step s - 1 to h's gradient. An event
// of step s needs them earlier: its lane adds up its own column.
#include "held.h"

namespace phased {

// Rows of the output's gradient in shared memory: the one in use, the one that has arrived, and those in flight.
constexpr int kRows = PHASED_HELD_AHEAD;
static_assert(kRows == Staging::kLate + 2);

// A record in shared memory. One that is rounded on the tape arrives in its upper half, and is widened before others read it.
struct alignas(16) HeldRecord {
  Real v[kRecord];

  __device__ __forceinline__ Record* arriving() { return reinterpret_cast<Record*>(this + 1) - 1; }
  __device__ __forceinline__ void widen() {
    Real numbers[kRecord];
    arriving()->read(numbers);
    for (int i = 0; i < kRecord; i += 4) store_four(v + i, {numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
  }
  __device__ __forceinline__ void read(Real numbers[kRecord]) const {
    for (int i = 0; i < kRecord; i += 4) {
      const Four four = load_four(v + i);
      for (int n = 0; n < 4; n++) numbers[i + n] = four.v[n];
    }
  }
};
static_assert(kRecord % 4 == 0 && sizeof(Record) <= sizeof(HeldRecord));

// A team's shared memory.
struct alignas(16) HeldBackwardMemory {
  Real to_h[kWide], to_c[kWide];
  Real gradients[kRows][kWide];  // of the output: the j-th row at j % kRows; zeros if there are none
  int rows[kListed][kLanes];     // offsets of the weights of a step's first events
  int ends[kEnds];
  // After it in memory: the gradients to the products of a step's events, of odd and even steps; and records and units of the
  // events in the ring.
  __device__ __forceinline__ Four* shares() { return reinterpret_cast<Four*>(this + 1); }
  __device__ __forceinline__ HeldRecord* tape(int most) { return reinterpret_cast<HeldRecord*>(shares() + 2 * most); }
  __device__ __forceinline__ int* unit(int most, int ring) { return reinterpret_cast<int*>(tape(most) + ring); }

  static __device__ __forceinline__ HeldBackwardMemory& of(unsigned char* shared, int most, int ring, int team) {
    const int bytes = sizeof(HeldBackwardMemory) + 2 * most * sizeof(Four) + ring * (sizeof(HeldRecord) + 4);
    return *reinterpret_cast<HeldBackwardMemory*>(shared + team * bytes);
  }
};
static_assert(sizeof(HeldBackwardMemory) == PHASED_HELD_BACKWARD_MEMORY_BYTES);

// Both by value, so that each is loaded by one instruction.
__device__ __forceinline__ void add_through(Four& sum, const Four weights, const Four share) {
  for (int g = 0; g < 4; g++) sum.v[g] += weights.v[g] * share.v[g];
}
__device__ __forceinline__ Real all_of(const Four& sum) { return (sum.v[0] + sum.v[1]) + (sum.v[2] + sum.v[3]); }

// Adds the contributions of a step's events, from the i-th on, to a unit's gradient: those whose weights are not in registers.
__device__ __forceinline__ void add_shares(Four& sum, const Four* column, const int* rows, int pitch, const Four* shares,
                                           const int* units, int at, int i, int count, int ring) {
  for (; i < count; i++) add_through(sum, column[i < kLanes ? rows[i] : units[wrapped(at + i, ring)] * pitch], shares[i]);
}

// Steps of a parity, computed by one warp.
template <int Parity>
struct BackwardSteps {
  static constexpr int kParity = Parity, kNow = Parity, kBefore = 1 - Parity;  // the latter are copies of the shares
  const Backward& p;
  HeldBackwardMemory& memory;
  const Held& held;
  Four* const shares[2];
  const HeldRecord* const tape;
  const int* const units;
  const int lane, ring;
  Index event;  // the lane's, of the prepared step
  // The prepared step's events, and those of the one before: where their slots begin, and how many they are.
  int at = 0, count = 0, at_before = 0, count_before = 0, end;
  int gradient_row;  // of the output's gradients, for the step that is computed next
  // The lane's event; without one, an event of unit 0 that adds nothing, with its gradients in the last slot. And the weights, on
  // its unit, of the first events of the step before.
  int unit = 0, place = kWide - 1;
  Real record[kRecord] = {}, w[3] = {};
  Four near[kNear] = {};

  __device__ BackwardSteps(const Backward& p, HeldBackwardMemory& memory, const Held& held, int lane, Index from, int length)
      : p(p),
        memory(memory),
        held(held),
        shares{memory.shares(), memory.shares() + p.most},
        tape(memory.tape(p.most)),
        units(memory.unit(p.most, p.ring)),
        lane(lane),
        ring(p.ring),
        event(from - 1 - lane),
        end(static_cast<int>(from)),
        gradient_row((length + 2 * kRows - 2 - Parity) % kRows) {}

  // The lane's event of step s, and the weights of the events of step s - 1 on its unit. Before, step s - 2 was prepared.
  __device__ __forceinline__ void prepare(int s) {
    const int end_before = memory.ends[(s - 1) & (kEnds - 1)], end_here = memory.ends[s & (kEnds - 1)];
    at_before = wrapped(at + count, ring), count_before = end - end_before, at = wrapped(at_before + count_before, ring);
    event -= count + count_before;
    count = end_before - end_here, end = end_here;
    // Not used by lanes without an event, whose slot may be that of a copy in flight.
    const int slot = wrapped(at + lane, ring), found = units[slot];
    tape[slot].read(record);
    unit = lane < count ? found : 0, place = lane < count ? found : kWide - 1;
    peepholes(p.peephole, p.units, unit, w);
    memory.rows[s & (kListed - 1)][lane] = unit * held.pitch;
    const Four* const column = held.weights + unit;
#pragma unroll
    for (int i = 0; i < kNear; i += 4) {
      const int4 row = *reinterpret_cast<const int4*>(memory.rows[(s - 1) & (kListed - 1)] + i);
      near[i] = column[row.x], near[i + 1] = column[row.y], near[i + 2] = column[row.z], near[i + 3] = column[row.w];
    }
  }

  __device__ __forceinline__ void compute(int s) {
    const Four* const seen = shares[kBefore];
    Real* const here = memory.to_h + place;  // everything of a unit has the same index
    const Real also = here[(2 + gradient_row) * kWide], before = here[0];
    Real to_c = here[kWide];
    Four sum = {before};
#pragma unroll
    for (int i = 0; i < kNear; i++) add_through(sum, near[i], seen[i]);
    if (__builtin_expect(count_before > kNear, 0))
      add_shares(sum, held.weights + unit, memory.rows[(s - 1) & (kListed - 1)], held.pitch, seen, units, at_before, kNear,
                 count_before, ring);
    Real to_h = all_of(sum);
    const Shares share(record, w, to_h, to_c);
    const bool there = lane < count;
    shares[kNow][lane] = there ? share.products : Four{};
    if (there) {
      here[0] = to_h + also, here[kWide] = to_c;
      share.write(p, event);
    }
    if (__builtin_expect(count > kLanes, 0)) compute_more(s);
    gradient_row -= gradient_row < 2 ? 2 - kRows : 2;
  }

  // More events than lanes: nothing of these is prepared.
  __device__ __forceinline__ void compute_more(int s) {
    for (int i = kLanes + lane; i < count; i += kLanes) {
      const int slot = wrapped(at + i, ring), own = units[slot];
      Four sum = {memory.to_h[own]};
      add_shares(sum, held.weights + own, memory.rows[(s - 1) & (kListed - 1)], held.pitch, shares[kBefore], units, at_before,
                 0, count_before, ring);
      Real to_h = all_of(sum), to_c = memory.to_c[own], v[3] = {}, read[kRecord];
      tape[slot].read(read);
      peepholes(p.peephole, p.units, own, v);
      const Shares share(read, v, to_h, to_c);
      shares[kNow][i] = share.products;
      memory.to_h[own] = to_h + memory.gradients[gradient_row][own], memory.to_c[own] = to_c;
      share.write(p, event - (i - lane));
    }
  }
};

// One warp fetches events, and where steps end, before any warp reads them. It has time to widen records, which the warps of the
// chain have not.
__device__ __forceinline__ void fetch_backward(const Backward& p, const Team& team, HeldBackwardMemory& memory, const Index* start,
                                               int length) {
  const int lane = team.lane, ring = p.ring;
  const Index last = start[length] - 1;
  const Ends<true> ends(memory.ends, start, length);
  Staging staging(int(start[length] - start[0]), ring);
  HeldRecord* const tape = memory.tape(p.most);
  int* const unit = memory.unit(p.most, ring);
  const int past = p.most > kLanes ? 2 : 0;  // how many of the last steps' events are needed: those without a row listed
  const auto copy = [&](int from, int slot, int many) {
    for (int n = lane; n < many; n += kLanes) {
      const Index e = last - from - n;
      copy_ahead(unit + slot + n, p.unit + e, 4);
      copy_struct(tape[slot + n].arriving(), p.tape + e);
    }
  };
  int widened = 0, next = 0;  // events, and the slot of the next one
  const auto widen = [&](int arrived) {
    if (sizeof(Record) == sizeof(HeldRecord)) return;
    for (; widened < arrived; widened += staging.part, next = next + staging.part < ring ? next + staging.part : 0) {
      __syncwarp();
      for (int n = lane; n < staging.part; n += kLanes) tape[next + n].widen();
    }
  };
  ends.begin(lane);
  staging.issue(0, copy);
  widen(staging.settle_all());
  team.sync();
  for (int s = -1; s < length; s++) {
    staging.issue(ends.at(s - past), copy);
    ends.advance(s, lane);
    widen(staging.settle(ends.at(s + 2)));
    team.sync();
  }
  wait_for_copies<0>();
}

// Another warp fetches rows of the output's gradient, the last first; zeros before the first.
__device__ __forceinline__ void fetch_rows(const Backward& p, const Team& team, HeldBackwardMemory& memory, Index b, int length) {
  const int lane = team.lane, units = p.units;
  const Real* from = p.to_output ? p.to_output + (length - 1) * p.output_step + b * p.output_batch + lane : nullptr;
  int left = length, row = (length + kRows - 1) % kRows;
  const auto issue_row = [&] {
    Real* const to = memory.gradients[row] + lane;
    if (from && left > 0) {
#pragma unroll
      for (int n = 0; n < kParts; n++)
        if (n * kLanes + lane < units) copy_ahead(to + n * kLanes, from + n * kLanes, sizeof(Real));
      from -= p.output_step;
    } else if (from && left > -kRows) {
#pragma unroll
      for (int n = 0; n < kParts; n++) to[n * kLanes] = 0;
    }
    left--, row = row ? row - 1 : kRows - 1;
    end_of_copies();
  };
  for (int i = 1; i < kRows; i++) issue_row();
  wait_for_copies<0>();
  team.sync();
  for (int s = -1; s < length; s++) {
    issue_row();
    wait_for_copies<Staging::kLate>();
    team.sync();
  }
  wait_for_copies<0>();
}

// The warps that have columns.
__device__ __forceinline__ void add_columns(const Backward& p, const Team& team, HeldBackwardMemory& memory, const Held& held,
                                            const Index* start, Index b, int length) {
  const Ends<true> ends(memory.ends, start, length);
  const int units = p.units, lane = team.lane, word = team.warp - kWarps, ring = p.ring, words = (units + 31) / 32;
  const Four* const both = memory.shares();
  const int* const unit = memory.unit(p.most, ring);
  Masks<true> masks(p.mask + b * p.steps * words, length, word, words, lane);
#pragma unroll
  for (int n = 0; n < kWords; n++) {
    const int q = (word + n * kHelpers) * kLanes + lane;
    if (q < kWide) memory.to_h[q] = p.to_final_h && q < units ? p.to_final_h[b * units + q] : Real(0);
    if (q < kWide) memory.to_c[q] = Cell::has_c && p.to_final_c && q < units ? p.to_final_c[b * units + q] : Real(0);
  }
  team.sync();
  // The last step's events; and the row of the output's gradient.
  int at = 0, before = 0, count = 0, row = (length + kRows - 1) % kRows;
  // Adds the contributions of step s to column q, from its i-th event on.
  const auto add_from = [&](Four& sum, int q, int s, int i) {
    add_shares(sum, held.weights + q, memory.rows[s & (kListed - 1)], held.pitch, both + (s & 1 ? p.most : 0), unit, at, i, count,
               ring);
  };
  Four near[kWords][kNear] = {};  // weights of the last step's first events on a column
  for (int s = -1; s < length; s++) {
    const Four* const seen = both + ((s - 1) & 1 ? p.most : 0);
    const int next = ends.at(s);
#pragma unroll
    for (int n = 0; n < kWords; n++) {
      const int own = (word + n * kHelpers) * kLanes + lane, q = own < units ? own : 0;
      const bool taken = masks.open(n, s) && s >= 0;  // all lanes shuffle; another warp computes open units
      const bool open = taken || own >= units;
      Four sum = {open ? Real(0) : memory.to_h[q] + memory.gradients[row][q]};
#pragma unroll
      for (int i = 0; i < kNear; i++) add_through(sum, near[n][i], seen[i]);
      if (__builtin_expect(count > kNear, 0)) add_from(sum, q, s - 1, kNear);
      if (!open) memory.to_h[q] = all_of(sum);
      const Four* const column = held.weights + q;
#pragma unroll
      for (int i = 0; i < kNear; i += 4) {
        const int4 rows = *reinterpret_cast<const int4*>(memory.rows[s & (kListed - 1)] + i);
        near[n][i] = column[rows.x], near[n][i + 1] = column[rows.y], near[n][i + 2] = column[rows.z],
        near[n][i + 3] = column[rows.w];
      }
    }
    if (s >= 0) masks.done(s);
    at = wrapped(at + count, ring), before += count, count = next - before, row = row ? row - 1 : kRows - 1;
    team.sync();
  }
  for (int q = word * kLanes + lane; q < units; q += kHelperThreads) {  // what the first step has left
    Four sum = {memory.to_h[q]};
    add_from(sum, q, length - 1, 0);
    if (p.to_h) p.to_h[b * units + q] = all_of(sum);
    if (p.to_c) p.to_c[b * units + q] = memory.to_c[q];
  }
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) held_backward(const Backward p) {
  if (!p.is_called()) return;
  extern __shared__ __align__(16) unsigned char shared[];
  Four* const weights = reinterpret_cast<Four*>(shared);
  const Held held = Held::load(weights, p.wh, p.units, p.pitch);
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  HeldBackwardMemory& memory =
      HeldBackwardMemory::of(reinterpret_cast<unsigned char*>(weights + held.units * held.pitch), p.most, p.ring, team.number);
  if (b < p.batch) {
    const int thread = threadIdx.x % kTeam;
    for (int i = thread; i < kRows * kWide; i += kTeam) memory.gradients[i / kWide][i % kWide] = 0;
    for (int i = thread; i < kListed * kLanes; i += kTeam) memory.rows[i / kLanes][i % kLanes] = 0;
    for (int i = thread; i < 2 * p.most; i += kTeam) memory.shares()[i] = Four{};
  }
  __syncthreads();
  if (b >= p.batch) return;
  const int length = length_of(p, b);
  const Index* const start = p.start + b * p.steps;
  if (team.warp == 0) {
    BackwardSteps<0> steps(p, memory, held, team.lane, start[length], length);
    take_turns(team, steps, length);
  } else if (team.warp == 1) {
    BackwardSteps<1> steps(p, memory, held, team.lane, start[length], length);
    take_turns(team, steps, length);
  } else if (team.warp == 2) {
    fetch_backward(p, team, memory, start, length);
  } else if (team.warp == 3) {
    fetch_rows(p, team, memory, b, length);
  } else {
    add_columns(p, team, memory, held, start, b, length);
  }
}

}  // namespace phased
