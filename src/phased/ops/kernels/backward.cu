// The recurrence backwards: one team of warps a sequence. It leaves, for every event, the gradients to its four products, to its openness
// and to its peepholes; what they are to weights, input and gates is left to kernels that need not wait for one another (products.cu).
#include "walk.h"

namespace phased {

constexpr int kRing = 4;                            // rows of the output's gradient asked for ahead
constexpr int kHeld = kBlocks < 2 ? kBlocks : 2;    // blocks of columns of an event's rows fetched a step ahead

struct Backward {
  Index batch, steps, units, pitch;
  const Index *lengths, *start;
  const int* unit;
  const Real *tape, *wh, *peephole;
  const Real* to_output;  // or null; row j of sequence b at j * output_step + b * output_batch
  Index output_step, output_batch;
  const Real *to_final_h, *to_final_c;
  Real *to_products, *to_others;  // (events, 4); (events, 1), to the openness, or (events, 4) with the three peepholes behind it
  Real *to_h, *to_c;
  Index capacity;
};

// A team's shared memory.
struct BackwardMemory {
  Real *to_h, *to_c, *partial, *ring, *shares, *tape;
  int* unit;

  __device__ BackwardMemory(Real* shared, int pitch, int capacity, int team) {
    const int words = (2 + kWarps + kRing) * pitch + 4 * kRounds * kWarps + 2 * kRecord * capacity;
    to_h = shared + team * words, to_c = to_h + pitch, partial = to_c + pitch, ring = partial + kWarps * pitch;
    shares = ring + kRing * pitch, tape = shares + 4 * kRounds * kWarps;
    unit = reinterpret_cast<int*>(shared + (blockDim.x / kTeam) * words) + team * 2 * capacity;
  }
};

// From the gradients to an event's h and c: those to its products, and what is left of h and c before it. One thread writes the rest.
__device__ __forceinline__ void adjoin(const Backward& p, const Real record[kRecord], int unit, int event, Real& to_h, Real& to_c, Real a[4],
                                       bool write) {
  Real w[3] = {}, to_w[3], to_h_before, to_c_before, to_k;
  if (p.peephole)
    for (int i = 0; i < 3; i++) w[i] = p.peephole[i * p.units + unit];
  Cell::template adjoint<Real>(record, record[kRecord - 2], record[kRecord - 1], to_h, to_c, w, a, to_h_before, to_c_before, to_k, to_w);
  to_h = to_h_before, to_c = to_c_before;
  if (!write) return;
  store_four(p.to_products + 4 * Index(event), Four{a[0], a[1], a[2], a[3]});
  if (p.peephole) {
    store_four(p.to_others + 4 * Index(event), Four{to_k, to_w[0], to_w[1], to_w[2]});
  } else {
    p.to_others[event] = to_k;
  }
}

__device__ __forceinline__ void read_record(const Real* from, Real record[kRecord]) {
  for (int i = 0; i < kRecord; i += 4) {
    const Four four = load_four(from + i);
    for (int l = 0; l < 4; l++) record[i + l] = four.v[l];
  }
}

// A lane's four columns of a unit's four rows, from a block of 128 columns.
struct Rows {
  Four g[4];
  __device__ __forceinline__ void load(const Real* rows, int pitch, int q) {
    for (int i = 0; i < 4; i++) g[i] = q < pitch ? load_four(rows + i * pitch + q) : Four{};
  }
  __device__ __forceinline__ void add_to(Four& sum, const Real a[4]) const {
    for (int i = 0; i < 4; i++)
      for (int l = 0; l < 4; l++) sum.v[l] += a[i] * g[i].v[l];
  }
};

// The warps that have events: through the cell to the products, and through the rows of weights to h, each warp a sum of its own.
__device__ __forceinline__ void work_backward(const Backward& p, const Team& team, BackwardMemory memory, const Real* weights, Walk<false> walk) {
  const int pitch = p.pitch, capacity = p.capacity, lane = team.lane;
  Real *partial = memory.partial + team.warp * pitch, *shares = memory.shares + 4 * kRounds * team.warp;
  Span now = walk.next();
  for (int side = 0; now.steps; side ^= 1) {
    const Span next = walk.next();
    team.sync();  // this span's events are here, and nobody reads the last one's any more
    const int* units_of = now.staged ? memory.unit + side * capacity : p.unit + now.lowest;
    const Real* records = now.staged ? memory.tape + side * kRecord * capacity : p.tape + kRecord * Index(now.lowest);
    // A step ahead: this warp's first event, its record, and some of its rows. Where it has none, the span's first.
    Events open;
    int mine, unit = 0;
    Real record[kRecord] = {};
    Rows held[kHeld];
    const auto look = [&](int s) {
      open = events_of<false>(now, s);
      mine = open.first + team.warp < now.total ? open.first + team.warp : 0;
      if (now.total) unit = units_of[mine], read_record(records + kRecord * mine, record);
      for (int i = 0; i < kHeld; i++) held[i].load(weights + Index(unit) * 4 * pitch, pitch, 4 * lane + 128 * i);
    };
    look(0);
    for (int s = 0; s < now.steps; s++) {
      const int count = open.end - open.first;
      if (count > kWarps) {  // more open units than warps
        for (int base = open.first; base < open.end; base += kRounds * kWarps) {
          const int e = base + lane * kWarps + team.warp;  // lane r has the r-th of the warp's events
          if (lane < kRounds && e < open.end) {
            const int own = units_of[e];
            Real event[kRecord], a[4];
            read_record(records + kRecord * e, event);
            adjoin(p, event, own, now.lowest + e, memory.to_h[own], memory.to_c[own], a, true);
            store_four(shares + 4 * lane, Four{a[0], a[1], a[2], a[3]});
          }
          __syncwarp();
          for (int column = 4 * lane; column < pitch; column += 128 * kBlocks) {
            Four sums[kBlocks] = {};
            if (base > open.first)
#pragma unroll
              for (int i = 0; i < kBlocks; i++)
                if (column + 128 * i < pitch) sums[i] = load_four(partial + column + 128 * i);
#pragma unroll 2
            for (int r = 0; r < kRounds; r++) {
              const int e = base + r * kWarps + team.warp;
              if (e >= open.end) break;
              const Real* rows_of = weights + Index(units_of[e]) * 4 * pitch;
              const Four a = load_four(shares + 4 * r);
#pragma unroll
              for (int i = 0; i < kBlocks; i++) {
                Rows rows;
                rows.load(rows_of, pitch, column + 128 * i);
                rows.add_to(sums[i], a.v);
              }
            }
#pragma unroll
            for (int i = 0; i < kBlocks; i++)
              if (column + 128 * i < pitch) store_four(partial + column + 128 * i, sums[i]);
          }
          __syncwarp();
        }
      } else if (team.warp < count) {
        Real to_h = memory.to_h[unit], to_c = memory.to_c[unit], a[4];
        __syncwarp();
        adjoin(p, record, unit, now.lowest + mine, to_h, to_c, a, lane == 0);  // all lanes alike
#pragma unroll
        for (int i = 0; i < kHeld; i++) {
          Four sum = {};
          held[i].add_to(sum, a);
          if (4 * lane + 128 * i < pitch) store_four(partial + 4 * lane + 128 * i, sum);
        }
#pragma unroll 2
        for (int q = 4 * lane + 128 * kHeld; q < pitch; q += 128) {
          Rows rows;
          rows.load(weights + Index(unit) * 4 * pitch, pitch, q);
          Four sum = {};
          rows.add_to(sum, a);
          store_four(partial + q, sum);
        }
        if (lane == 0) memory.to_h[unit] = to_h, memory.to_c[unit] = to_c;  // nobody else's before the barrier
      }
      if (count) team.sync();
      if (s + 1 < now.steps) look(s + 1);
      team.sync();
    }
    now = next;
  }
  team.sync();
}

// The warps that fetch and add up: a thread has every kHelpers * 32-th column of h.
__device__ __forceinline__ void help_backward(const Backward& p, const Team& team, BackwardMemory memory, Walk<false> walk, Index b, int length) {
  constexpr int kThreads = kHelpers * kLanes;
  const int units = p.units, pitch = p.pitch, capacity = p.capacity, thread = (team.warp - kWarps) * kLanes + team.lane;
  const auto stage = [&](const Span& span, int side) {
    constexpr int parts = kRecord * sizeof(Real) / 16, wide = 16 / sizeof(Real);
    if (span.staged) {
      const Index lowest = span.lowest;
      for (int e = thread; e < span.total; e += kThreads) copy_ahead(memory.unit + side * capacity + e, p.unit + lowest + e, 4);
      for (int i = thread; i < span.total * parts; i += kThreads)
        copy_ahead(memory.tape + side * kRecord * capacity + i * wide, p.tape + kRecord * lowest + i * wide, 16);
    }
    end_of_copies();
  };
  // Rows of the output's gradient: a thread copies, and later reads, its own columns, and need not wait for others.
  const auto ask = [&](int j, int slot) {
    if (p.to_output && j >= 0)
      for (int q = thread; q < units; q += kThreads)
        copy_ahead(memory.ring + slot * pitch + q, p.to_output + j * p.output_step + b * p.output_batch + q, sizeof(Real));
    end_of_copies();
  };
  const auto from_output = [&](int slot, int q, int j) { return p.to_output && j >= 0 ? memory.ring[slot * pitch + q] : Real(0); };

  Span now = walk.next();
  stage(now, 0);
  for (int i = 0; i < kRing; i++) ask(length - 1 - i, i);
  wait_for_copies<kRing - 1>();
  for (int q = thread; q < units; q += kThreads) {
    memory.to_h[q] = p.to_final_h[b * units + q] + from_output(0, q, length - 1);
    memory.to_c[q] = Cell::has_c ? p.to_final_c[b * units + q] : Real(0);
  }
  ask(length - 1 - kRing, 0);
  int slot = 1;  // of the row before this step's
  for (int side = 0; now.steps; side ^= 1) {
    const Span next = walk.next();
    wait_for_copies<0>();
    team.sync();
    stage(next, side ^ 1);
    for (int s = 0; s < now.steps; s++) {
      const Events open = events_of<false>(now, s);
      const int j = now.step - s, count = open.end - open.first, sums = count < kWarps ? count : kWarps;
      wait_for_copies<kRing - 1>();
      if (count) team.sync();
      for (int q = thread; q < units; q += kThreads) {
        Real sum = memory.to_h[q] + from_output(slot, q, j - 1);
#pragma unroll
        for (int w = 0; w < kWarps; w++)
          if (w < sums) sum += memory.partial[w * pitch + q];
        memory.to_h[q] = sum;
      }
      team.sync();
      ask(j - 1 - kRing, slot);
      slot = (slot + 1) % kRing;
    }
    now = next;
  }
  wait_for_copies<0>();
  team.sync();
  for (int q = thread; q < units; q += kThreads) {
    p.to_h[b * units + q] = memory.to_h[q];
    if (Cell::has_c) p.to_c[b * units + q] = memory.to_c[q];
  }
}

template <bool Shared>
__device__ __forceinline__ void run_backward(const Backward& p) {
  extern __shared__ __align__(16) unsigned char bytes[];
  const int units = p.units, pitch = p.pitch;
  Real* shared = reinterpret_cast<Real*>(bytes);
  const Real* weights = p.wh;
  if (Shared) {
    for (int i = 4 * threadIdx.x; i < units * 4 * pitch; i += 4 * blockDim.x) store_four(shared + i, load_four(p.wh + i));
    weights = shared, shared += units * 4 * pitch;
    __syncthreads();
  }
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  if (b >= p.batch) return;
  const BackwardMemory memory(shared, pitch, p.capacity, team.number);
  const int length = static_cast<int>(p.lengths ? p.lengths[b] : p.steps);
  const Walk<false> walk(p.start + b * p.steps, length, p.capacity, team.lane);
  if (team.warp < kWarps) {
    work_backward(p, team, memory, weights, walk);
  } else {
    help_backward(p, team, memory, walk, b, length);
  }
}

#define PHASED_BACKWARD(name, shared)                                                                                                       \
  extern "C" __global__ void __launch_bounds__(PHASED_THREADS) name(                                                                        \
      Index batch, Index steps, Index units, Index pitch, const Index* lengths, const Index* start, const int* unit, const Real* tape,      \
      const Real* wh, const Real* peephole, const Real* to_output, Index output_step, Index output_batch, const Real* to_final_h,           \
      const Real* to_final_c, Real* to_products, Real* to_others, Real* to_h, Real* to_c, Index capacity) {                                 \
    run_backward<shared>({batch, steps, units, pitch, lengths, start, unit, tape, wh, peephole, to_output, output_step, output_batch,       \
                          to_final_h, to_final_c, to_products, to_others, to_h, to_c, capacity});                                           \
  }
PHASED_BACKWARD(backward_shared, true)
PHASED_BACKWARD(backward_streamed, false)

}  // namespace phased
