// What all kernels share. Compiled for a cell and a number type, PHASED_CELL and PHASED_REAL, and those of the recurrence for its
// kind and size: the numbers on its tape PHASED_TAPE, PHASED_PEEPHOLE or not, PHASED_BLOCKS times 128 columns of weights,
// PHASED_WARPS and PHASED_HELPERS warps a sequence, PHASED_THREADS threads a block. The other macros are numbers that the host
// side shares (phased/ops/cuda/constants.py); it computes sizes of structs, asserted here.
#pragma once

#include "gate.h"

#include <device.h>

#include "cell.h"  // after the functions it uses

namespace phased {

using Real = PHASED_REAL;
using Cell = PHASED_CELL;
using Index = long long;

constexpr unsigned kAll = 0xffffffffu;
constexpr int kLanes = PHASED_LANES;
constexpr int kRecord = PHASED_RECORD;  // numbers of an event on the tape: what its cell keeps, h before, and last its openness
static_assert(Cell::kept + 2 <= kRecord);

// Four numbers of a row, read and written together. Rows of weights and states are padded with zeros to whole fours.
struct alignas(16) Four {
  Real v[4];
};
static_assert(sizeof(Four) == PHASED_FOUR_BYTES && sizeof(Four) == PHASED_PRODUCTS * sizeof(Real));
static_assert(PHASED_COLUMNS == 4 * kLanes);  // a block of columns: a Four for each lane

struct alignas(2 * sizeof(Real)) Two {
  Real v[2];
};
__device__ __forceinline__ Two operator+(Two a, Two b) { return {a.v[0] + b.v[0], a.v[1] + b.v[1]}; }
__device__ __forceinline__ Two load_two(const Real* from) { return *reinterpret_cast<const Two*>(from); }

__device__ __forceinline__ Four operator+(Four a, Four b) {
  return {a.v[0] + b.v[0], a.v[1] + b.v[1], a.v[2] + b.v[2], a.v[3] + b.v[3]};
}
__device__ __forceinline__ Four loaded(Four a) { return {loaded(a.v[0]), loaded(a.v[1]), loaded(a.v[2]), loaded(a.v[3])}; }
__device__ __forceinline__ Four load_four(const Real* from) { return *reinterpret_cast<const Four*>(from); }
__device__ __forceinline__ void store_four(Real* to, Four value) { *reinterpret_cast<Four*>(to) = value; }

// Whether a kernel computes batches of so many events: found[1], or any if `found` is null. Two kernels may be launched, one for few
// events and one for many: then the data alone select the one that runs, and the CPU does not wait for their number.
__device__ __forceinline__ bool is_called(const Index* found, Index least, Index below) {
  return !found || (least <= found[1] && found[1] < below);
}

// A unit's gate: `offset` is what rest_of leaves of the shift; rate and lag are for a rough phase (see find_open). A layer's are
// stored as (PHASED_GATE, units).
struct Gate {
  double period, shift, ratio_on, offset, rate, lag;

  static __device__ __forceinline__ Gate load(const double* all, Index units, Index unit) {
    const double* const own = all + unit;
    return {own[0], own[units], own[2 * units], own[3 * units], own[4 * units], own[5 * units]};
  }
  __device__ __forceinline__ void store(double* all, Index units, Index unit) const {
    double* const own = all + unit;
    own[0] = period, own[units] = shift, own[2 * units] = ratio_on, own[3 * units] = offset, own[4 * units] = rate,
    own[5 * units] = lag;
  }
};
static_assert(sizeof(Gate) == PHASED_GATE * sizeof(double));

// Rows of the input: step j of sequence b at j * step + b * batch.
struct Input {
  const Real* x;
  Index step, batch, features;
  __device__ __forceinline__ const Real* row(Index r, Index steps) const { return x + r % steps * step + r / steps * batch; }
};

// The threads of a block that share a sequence: `kWarps` warps compute its events, `kHelpers` warps move data (where sequences are
// grouped, see grouped.h). Each team has a barrier of its own. Where units are spread (spread.h), a team is one warp.
constexpr int kWarps = PHASED_WARPS, kHelpers = PHASED_HELPERS, kTeam = (kWarps + kHelpers) * kLanes;

struct Team {
  int number, warp, lane;

  __device__ Team() : number(threadIdx.x / kTeam), warp(threadIdx.x % kTeam / kLanes), lane(threadIdx.x % kLanes) {}
  __device__ __forceinline__ void sync() const { barrier<kTeam>(number + 1); }
};

constexpr int kBlocks = PHASED_BLOCKS;  // whole rows of 128 columns are this many fours a lane, or (from eight blocks on) more
constexpr int kHelperThreads = kHelpers * kLanes;
constexpr bool kPeephole = PHASED_PEEPHOLE;
constexpr int kRounds = PHASED_ROUNDS;  // events of which a warp computes the cell at once

// An open event before its step: its unit, its row (b * steps + j), its openness, and what input and biases add to its four
// products.
struct alignas(16) Head {
  int unit, row;
  Real k;
};
struct alignas(16) Arrival {
  Head head;
  Real terms[4];
};

// What a backward pass needs of an event, on the tape. With PHASED_TAPE its numbers are rounded to 16 bits.
struct alignas(16) Record {
#if PHASED_TAPE
  unsigned v[kRecord / 2];  // two numbers each
#else
  Real v[kRecord];
#endif

  static __device__ __forceinline__ Record of(const Real numbers[kRecord]) {
    Record record;
#if PHASED_TAPE
    for (int i = 0; i < kRecord; i += 2) record.v[i / 2] = rounded_pair(kept(i, numbers[i]), kept(i + 1, numbers[i + 1]));
#else
    for (int i = 0; i < kRecord; i++) record.v[i] = numbers[i];
#endif
    return record;
  }
  __device__ __forceinline__ void unpack(Real numbers[kRecord]) const {
#if PHASED_TAPE
    for (int i = 0; i < kRecord; i += 2) {
      widen_pair(v[i / 2], numbers[i], numbers[i + 1]);
      numbers[i] = given(i, numbers[i]), numbers[i + 1] = given(i + 1, numbers[i + 1]);
    }
#else
    for (int i = 0; i < kRecord; i++) numbers[i] = v[i];
#endif
  }
  // In memory, by words of sixteen bytes.
  __device__ __forceinline__ void write(const Record& record) { copy_words(this, &record); }
  __device__ __forceinline__ void write(const Real numbers[kRecord]) { write(of(numbers)); }
  __device__ __forceinline__ Record read() const {
    Record record;
    copy_words(&record, this);
    return record;
  }
  __device__ __forceinline__ void read(Real numbers[kRecord]) const { read().unpack(numbers); }

#if PHASED_TAPE
  // At every event a unit keeps a share x of its state (Cell::carry) and forgets 1 - x, which 16 bits do not resolve if x is near 1.
  // So where x is above one half, -(1 - x) is kept instead.
  static __device__ __forceinline__ Real kept(int i, Real x) { return i == Cell::carry && x > Real(0.5) ? -(1 - x) : x; }  // -0 for 1
  static __device__ __forceinline__ Real given(int i, Real x) { return i == Cell::carry && has_sign(x) ? 1 + x : x; }
#endif
  static __device__ __forceinline__ void copy_words(Record* to, const Record* from) {
    struct alignas(16) Word {
      int v[4];
    };
#pragma unroll
    for (int i = 0; i < int(sizeof(Record) / sizeof(Word)); i++)
      reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  }
};
static_assert(sizeof(Head) == PHASED_HEAD_BYTES && sizeof(Arrival) == PHASED_ARRIVAL_BYTES &&
              sizeof(Record) == PHASED_RECORD_BYTES);

// Copies a struct of whole sixteen bytes.
template <class T>
__device__ __forceinline__ void copy_struct(T* to, const T* from) {
#pragma unroll
  for (int part = 0; part < int(sizeof(T) / 16); part++)
    copy_ahead(reinterpret_cast<char*>(to) + 16 * part, reinterpret_cast<const char*>(from) + 16 * part, 16);
}

// Copies `count` structs of whole sixteen bytes, by all helpers.
template <class T>
__device__ __forceinline__ void copy_rows(T* to, const T* from, int count, int thread) {
  constexpr int parts = sizeof(T) / 16;
  for (int i = thread; i < count * parts; i += kHelperThreads)
    copy_ahead(reinterpret_cast<char*>(to) + 16 * i, reinterpret_cast<const char*>(from) + 16 * Index(i), 16);
}

// The events of a sequence in the order in which a team computes them. A ring in shared memory holds some of them: eight parts,
// each fetched as soon as all its old events are done.
struct Staging {
  static constexpr int kLate = PHASED_LATE;  // groups of copies that may be in flight: one is issued every step
  static constexpr int kNever = 0x7fffffff;
  const int count, ring, part;
  // Issued: events whose copies were issued; due: how many events are done when the next may be; late: as `issued`, up to the last
  // group, the one before it, ...
  int issued, slot, due, late[kLate];

  __device__ Staging(int count, int ring)
      : count(count), ring(ring), part(ring / 8), issued(0), slot(0), due(count ? part - ring : kNever), late{} {}

  // With `done` events done: issues copies for all that fit, by copy(first, slot, how many).
  template <class Copy>
  __device__ __forceinline__ void issue(int done, const Copy& copy) {
    while (due <= done) {
      copy(issued, slot, issued + part < count ? part : count - issued);
      issued += part, slot = slot + part < ring ? slot + part : 0;
      due = issued < count ? issued + part - ring : kNever;
    }
  }
  // Ends a group of copies. After the next barrier the first `needed` events are in shared memory. Returns how many are there now.
  __device__ __forceinline__ int settle(int needed) {
    end_of_copies();
    wait_for_copies<kLate>();
    const int ready = late[kLate - 1];
#pragma unroll
    for (int i = kLate - 1; i > 0; i--) late[i] = late[i - 1];
    late[0] = issued;
    if ((needed < count ? needed : count) <= ready) return ready;
    wait_for_all();
    return issued;
  }
  // The same for all copies that were issued.
  __device__ __forceinline__ int settle_all() {
    end_of_copies();
    wait_for_all();
    return issued;
  }

 private:
  __device__ __forceinline__ void wait_for_all() {
    wait_for_copies<0>();
#pragma unroll
    for (int i = 0; i < kLate; i++) late[i] = issued;
  }
};

// Copies the weights of all units into shared memory.
__device__ __forceinline__ void hold_weights(Real* to, const Real* from, int count) {
  for (int i = 4 * threadIdx.x; i < count; i += 4 * blockDim.x) store_four(to + i, load_four(from + i));
}

}  // namespace phased
