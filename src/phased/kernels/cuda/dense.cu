// The recurrence where every unit has an event at every step: with a leak. Units are assigned to warps in turn; a warp computes
// the products of kRounds of them one after another, then their cells at once. As in streamed_forward.cu and
// streamed_backward.cu, helpers fetch, copy and add up.
#include "steps.h"

namespace phased {

static_assert(kRounds <= 8);  // eight lanes share a product

// A team's shared memory: the copies of h, c, and two steps' events.
struct DenseForwardMemory {
  Copies copies;
  Arrival* arrivals;

  __device__ DenseForwardMemory(Real* shared, const Forward& p, int team) {
    const int wide = Copies::wide(p.pitch), words = 2 * wide + p.pitch + 2 * p.units * int(sizeof(Arrival) / sizeof(Real));
    copies.h = shared + team * words, copies.other = copies.h + wide, copies.c = copies.other + wide;
    arrivals = reinterpret_cast<Arrival*>(copies.c + p.pitch);
  }
};

__device__ __forceinline__ void work_dense_forward(const Forward& p, const Team& team, DenseForwardMemory memory,
                                                   const Real* weights, Index b, int length) {
  const int pitch = p.pitch, units = p.units, lane = team.lane;
  Copies at = memory.copies;
  team.sync();
  for (int j = 0; j < length; j++) {
    const Arrival* arrivals = memory.arrivals + j % 2 * units;
    for (int base = team.warp; base < units; base += kRounds * kWarps) {
      Real sum = 0, a[4];
#pragma unroll 2
      for (int r = 0; r < kRounds; r++) {
        const int unit = base + r * kWarps;
        if (unit >= units) break;
        Part part;
        part.load(weights, unit, pitch, lane);
        const Real all = product(part, weights, unit, at.h, pitch, lane);
        if (lane % 8 == r) sum = all;
      }
      for (int g = 0; g < 4; g++) a[g] = __shfl_sync(kAll, sum, 8 * g + lane % 8);
      const int unit = base + lane * kWarps;
      if (lane < kRounds && unit < units) {
        const Arrival event = arrivals[unit];
        Real w[3] = {}, new_c, record[kRecord];
        for (int g = 0; g < 4; g++) a[g] += event.terms[g];
        peepholes(p.peephole, p.units, unit, w);
        at.other[unit] = accept(a, event.head.k, at.h[unit], at.c[unit], w, new_c, record);
        if (p.tape) p.tape[(b * p.steps + j) * units + unit].write(record);
        at.c[unit] = new_c;
      }
    }
    team.sync();
    at.swap();
  }
}

__device__ __forceinline__ void help_dense_forward(const Forward& p, const Team& team, DenseForwardMemory memory, Index b,
                                                   int length) {
  const int units = p.units, thread = (team.warp - kWarps) * kLanes + team.lane;
  Copies at = memory.copies;
  const auto issue = [&](int j) {
    if (j < length) copy_rows(memory.arrivals + j % 2 * units, p.arrivals + (b * p.steps + j) * units, units, thread);
    end_of_copies();
  };
  issue(0);
  wait_for_copies<0>();
  team.sync();
  Real* out = p.output + b * units;
  for (int j = 0; j < length; j++, out += p.batch * units) {
    issue(j + 1);
    wait_for_copies<0>();
    team.sync();
    at.swap();
    for (int q = thread; q < units; q += kHelperThreads) out[q] = at.h[q];
  }
  at.end(p, b, length, thread);
}

template <bool Shared>
__device__ __forceinline__ void run_dense_forward(const Forward& p) {
  extern __shared__ __align__(16) unsigned char bytes[];
  Real* shared = reinterpret_cast<Real*>(bytes);
  const Real* weights = p.wh;
  if (Shared) {
    const int count = p.units * 4 * p.pitch;
    hold_weights(shared, p.wh, count);
    weights = shared, shared += count;
  }
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  const DenseForwardMemory memory(shared, p, team.number);
  if (b < p.batch) memory.copies.begin(p, b, threadIdx.x % kTeam, kTeam);
  __syncthreads();
  if (b >= p.batch) return;
  const int length = length_of(p, b);
  if (team.warp < kWarps) {
    work_dense_forward(p, team, memory, weights, b, length);
  } else {
    help_dense_forward(p, team, memory, b, length);
  }
}

// A team's shared memory: gradients, the warps' sums, the gradients to the products of a warp's kRounds events, and two steps'
// records.
struct DenseBackwardMemory {
  Real *to_h, *to_c, *partial, *gradients, *shares;
  Record* tape;

  __device__ DenseBackwardMemory(Real* shared, const Backward& p, int team) {
    const int pitch = p.pitch, records = 2 * int(p.units) * int(sizeof(Record) / sizeof(Real));
    const int words = (2 + kWarps + kAhead) * pitch + 4 * kRounds * kWarps + records;
    to_h = shared + team * words, to_c = to_h + pitch, partial = to_c + pitch, gradients = partial + kWarps * pitch;
    shares = gradients + kAhead * pitch, tape = reinterpret_cast<Record*>(shares + 4 * kRounds * kWarps);
  }
};

__device__ __forceinline__ void work_dense_backward(const Backward& p, const Team& team, DenseBackwardMemory memory,
                                                    const Real* weights, Index b, int length) {
  const int pitch = p.pitch, units = p.units, lane = team.lane;
  Real *partial = memory.partial + team.warp * pitch, *shares = memory.shares + 4 * kRounds * team.warp;
  team.sync();
  for (int j = length - 1; j >= 0; j--) {
    const Record* records = memory.tape + j % 2 * units;
    for (int base = team.warp; base < units; base += kRounds * kWarps) {
      const int own = base + lane * kWarps;
      if (lane < kRounds && own < units) {
        Real record[kRecord], w[3] = {};
        records[own].read(record);
        peepholes(p.peephole, p.units, own, w);
        const Shares share(record, w, memory.to_h[own], memory.to_c[own]);
        share.write(p, (b * p.steps + j) * units + own);
        store_four(shares + 4 * lane, share.products);
      }
      __syncwarp();
      for (int column = 4 * lane; column < pitch; column += 128 * kBlocks) {
        Four sums[kBlocks] = {};
        if (base >= kRounds * kWarps)
#pragma unroll
          for (int i = 0; i < kBlocks; i++)
            if (column + 128 * i < pitch) sums[i] = load_four(partial + column + 128 * i);
#pragma unroll 2
        for (int r = 0; r < kRounds; r++) {
          const int unit = base + r * kWarps;
          if (unit >= units) break;
          const Four a = load_four(shares + 4 * r);
#pragma unroll
          for (int i = 0; i < kBlocks; i++) {
            Rows rows;
            rows.load(weights, unit, pitch, column + 128 * i);
            rows.add_to(sums[i], a.v);
          }
        }
#pragma unroll
        for (int i = 0; i < kBlocks; i++)
          if (column + 128 * i < pitch) store_four(partial + column + 128 * i, sums[i]);
      }
      __syncwarp();
    }
    team.sync();
    team.sync();
  }
}

__device__ __forceinline__ void help_dense_backward(const Backward& p, const Team& team, DenseBackwardMemory memory, Index b,
                                                    int length) {
  const int units = p.units, pitch = p.pitch, thread = (team.warp - kWarps) * kLanes + team.lane;
  const auto issue = [&](int j) {
    if (j >= 0)
      copy_rows(memory.tape + j % 2 * units, p.tape + (b * p.steps + j) * units, units, thread);
    end_of_copies();
  };
  const GradientRows gradients{p, memory.gradients, b, thread};
  issue(length - 1);
  gradients.begin(length, memory.to_h, memory.to_c);
  team.sync();
  const int sums = units < kWarps ? units : kWarps;
  for (int j = length - 1; j >= 0; j--) {
    issue(j - 1);
    wait_for_copies<0>();
    team.sync();
    gradients.add(j - 1, memory.to_h, memory.partial, pitch, sums);
    team.sync();
    gradients.issue(j - 1 - kAhead);
  }
  wait_for_copies<0>();
  gradients.end(memory.to_h, memory.to_c);
}

template <bool Shared>
__device__ __forceinline__ void run_dense_backward(const Backward& p) {
  extern __shared__ __align__(16) unsigned char bytes[];
  Real* shared = reinterpret_cast<Real*>(bytes);
  const Real* weights = p.wh;
  if (Shared) {
    const int count = p.units * 4 * p.pitch;
    hold_weights(shared, p.wh, count);
    weights = shared, shared += count;
    __syncthreads();
  }
  const Team team;
  const Index b = blockIdx.x * Index(blockDim.x / kTeam) + team.number;
  if (b >= p.batch) return;
  const DenseBackwardMemory memory(shared, p, team.number);
  const int length = length_of(p, b);
  if (team.warp < kWarps) {
    work_dense_backward(p, team, memory, weights, b, length);
  } else {
    help_dense_backward(p, team, memory, b, length);
  }
}

extern "C" __global__ void __launch_bounds__(PHASED_THREADS) held_dense_forward(const Forward p) { run_dense_forward<true>(p); }
extern "C" __global__ void __launch_bounds__(PHASED_THREADS) streamed_dense_forward(const Forward p) {
  run_dense_forward<false>(p);
}
extern "C" __global__ void __launch_bounds__(PHASED_THREADS) held_dense_backward(const Backward p) {
  run_dense_backward<true>(p);
}
extern "C" __global__ void __launch_bounds__(PHASED_THREADS) streamed_dense_backward(const Backward p) {
  run_dense_backward<false>(p);
}

}  // namespace phased
