// What all kernels share. Compiled for a cell and a number type, PHASED_CELL and PHASED_REAL, and those of the recurrence for its kind and size:
// PHASED_PEEPHOLE or not, PHASED_BLOCKS times 128 columns of weights, PHASED_WARPS and PHASED_HELPERS warps a sequence, PHASED_THREADS threads a
// block.
#pragma once

#include "gate.h"

namespace phased {

// Both off by about a rounding of 1, 1e-7, in the fewest dependent instructions.
__device__ __forceinline__ float sigmoid(float x) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.4426950408889634f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}
__device__ __forceinline__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
__device__ __forceinline__ float tanh(float x) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(2.8853900817779268f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return 1.0f - 2.0f * result;
}
__device__ __forceinline__ double tanh(double x) { return ::tanh(x); }

}  // namespace phased

#include "cell.h"  // after the functions it uses

namespace phased {

using Real = PHASED_REAL;
using Cell = PHASED_CELL;
using Index = long long;

constexpr unsigned kAll = 0xffffffffu;
constexpr int kLanes = 32;
constexpr int kRecord = 8;  // numbers an event leaves on the tape: what its cell keeps, h before, and last its openness
static_assert(Cell::kept + 2 <= kRecord);

// Four numbers of a row, read and written together. Rows of weights and states are padded with zeros to whole fours.
struct alignas(16) Four {
  Real v[4];
};

__device__ __forceinline__ Four load_four(const Real* from) { return *reinterpret_cast<const Four*>(from); }
__device__ __forceinline__ void store_four(Real* to, Four value) { *reinterpret_cast<Four*>(to) = value; }

// A unit's gate: `offset` is what rest_of leaves of the shift; rate and lag are for a rough phase (see find_open). A layer's are kept as (6, units).
struct Gate {
  double period, shift, ratio_on, offset, rate, lag;

  static __device__ __forceinline__ Gate load(const double* all, Index units, Index unit) {
    const double* const own = all + unit;
    return {own[0], own[units], own[2 * units], own[3 * units], own[4 * units], own[5 * units]};
  }
  __device__ __forceinline__ void store(double* all, Index units, Index unit) const {
    double* const own = all + unit;
    own[0] = period, own[units] = shift, own[2 * units] = ratio_on, own[3 * units] = offset, own[4 * units] = rate, own[5 * units] = lag;
  }
};

// Rows of the input: step j of sequence b at j * step + b * batch.
struct Input {
  const Real* x;
  Index step, batch, features;
  __device__ __forceinline__ const Real* row(Index r, Index steps) const { return x + r % steps * step + r / steps * batch; }
};

// Copies that arrive while the thread goes on.
__device__ __forceinline__ void copy_ahead(void* to_shared, const void* from, int bytes) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(to_shared));
  if (bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  if (bytes == 8) asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
  if (bytes == 4) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Left>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

// The threads of a block that share a sequence: `kWarps` warps for its events, `kHelpers` warps that fetch and carry for them. Each team has a
// barrier of its own.
constexpr int kWarps = PHASED_WARPS, kHelpers = PHASED_HELPERS, kTeam = (kWarps + kHelpers) * kLanes;

struct Team {
  int number, warp, lane;

  __device__ Team() : number(threadIdx.x / kTeam), warp(threadIdx.x % kTeam / kLanes), lane(threadIdx.x % kLanes) {}
  __device__ __forceinline__ void sync() const { asm volatile("bar.sync %0, %1;" ::"r"(number + 1), "n"(kTeam) : "memory"); }
};

constexpr int kBlocks = PHASED_BLOCKS;  // whole rows of 128 columns are this many fours a lane, or (from eight blocks on) more
constexpr int kHelperThreads = kHelpers * kLanes;
constexpr bool kPeephole = PHASED_PEEPHOLE;
constexpr int kRounds = 8;  // events that a warp takes through the cell side by side

// What an open event brings: its unit, its row (b * steps + j), its openness, and what input and biases add to its four products.
struct alignas(16) Head {
  int unit, row;
  Real k;
};
struct alignas(16) Arrival {
  Head head;
  Real terms[4];
};

struct alignas(16) Record {
  Real v[kRecord];
};

// Copies `count` of something that takes whole sixteen bytes, by all helpers.
template <class T>
__device__ __forceinline__ void copy_rows(T* to, const T* from, int count, int thread) {
  constexpr int parts = sizeof(T) / 16;
  for (int i = thread; i < count * parts; i += kHelperThreads)
    copy_ahead(reinterpret_cast<char*>(to) + 16 * i, reinterpret_cast<const char*>(from) + 16 * Index(i), 16);
}

// The events of a sequence in the order a team takes them, some of which are in shared memory: a ring of eight parts, each asked for as soon as
// all its old events have been taken.
struct Staging {
  static constexpr int kLate = 4;  // groups of copies that may still be on their way: one is made every step
  const int count, ring, part;
  int asked, slot, ready, late[kLate];  // late: what had been asked for up to the last group, the one before it, ...

  __device__ Staging(int count, int ring) : count(count), ring(ring), part(ring / 8), asked(0), slot(0), ready(0), late{} {}

  // With `done` events taken: asks for all there is room for, by copy(first, slot, how many).
  template <class Copy>
  __device__ __forceinline__ void ask(int done, const Copy& copy) {
    while (asked < count && asked + part - ring <= done) {
      copy(asked, slot, asked + part < count ? part : count - asked);
      asked += part, slot = slot + part < ring ? slot + part : 0;
    }
  }
  // Ends a group of copies, and makes sure that the first `needed` events are there for all who pass the next barrier.
  __device__ __forceinline__ void settle(int needed) {
    end_of_copies();
    wait_for_copies<kLate>();
    ready = late[kLate - 1];
#pragma unroll
    for (int i = kLate - 1; i > 0; i--) late[i] = late[i - 1];
    late[0] = asked;
    if ((needed < count ? needed : count) > ready) {
      wait_for_copies<0>();
#pragma unroll
      for (int i = 0; i < kLate; i++) late[i] = asked;
    }
  }
};

// Weights of all units into shared memory.
__device__ __forceinline__ void hold_weights(Real* to, const Real* from, int count) {
  for (int i = 4 * threadIdx.x; i < count; i += 4 * blockDim.x) store_four(to + i, load_four(from + i));
}

}  // namespace phased
