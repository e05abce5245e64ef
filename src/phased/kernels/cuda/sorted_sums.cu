// Gradients to weights and gates, where few units are open: the events of a unit are sorted out, and summed by one warp.
#include "row_sums.h"

namespace phased {

// A block has kColumns * 32 columns and a split of the rows. It sorts the split's events by unit, as many at a time as its shared
// memory has room for. Then a warp sums those of a unit, four products in registers, for kColumns columns a lane; the rows come from
// the caches. Events of a unit keep their order, so the sums have the same bits every time. Blocks with the first columns also sum
// for the gates.
template <int kColumns>
struct SortedSums {
  const Summing& p;
  const GateSumming& gates;
  const int lane, warp, warps, units, features, columns, column;  // column: the block's first
  // In shared memory: what each warp is about to read (warps, 32); where a unit's sorted events start (units + 1); how many units
  // have been taken; the sorted events, as numbers from a round's first (ring); and how many of a unit's events are before those of
  // a warp (warps, units).
  Seen* const seen;
  int *const first, *const taken;
  unsigned short *const sorted, *const before;

  __device__ __forceinline__ SortedSums(const Summing& p, const GateSumming& gates, unsigned char* shared)
      : p(p),
        gates(gates),
        lane(threadIdx.x % kLanes),
        warp(threadIdx.x / kLanes),
        warps(blockDim.x / kLanes),
        units(int(p.units)),
        features(int(p.features)),
        columns(units + features + 1),
        column(blockIdx.y * kColumns * kLanes),
        seen(reinterpret_cast<Seen*>(shared) + warp * kLanes),
        first(reinterpret_cast<int*>(reinterpret_cast<Seen*>(shared) + warps * kLanes)),
        taken(first + units + 1),
        sorted(reinterpret_cast<unsigned short*>(taken + 1)),
        before(sorted + p.ring) {}

  // Calls place(event, its unit, how many of the warp's 32 events before it have this unit) for the warp's share of a round's
  // events, in their order, and counts them in `own`.
  template <class Place>
  __device__ __forceinline__ void each_event(Index from, int count, unsigned short* own, const Place& place) const {
    const int share = (count + warps * kLanes - 1) / (warps * kLanes) * kLanes, begin = warp * share;
    const int end = begin + share < count ? begin + share : count;
    for (int base = begin; base < end; base += kLanes) {
      const int event = base + lane;
      const bool there = event < end;
      const int unit = there ? p.unit[from + event] : -1 - lane;
      const unsigned same = __match_any_sync(kAll, unit);
      const int rank = __popc(same & ((1u << lane) - 1));
      if (there) place(event, unit, rank);
      __syncwarp();
      if (there && rank == 0) own[unit] += static_cast<unsigned short>(__popc(same));
      __syncwarp();
    }
  }

  // Sorts the events of a round by unit.
  __device__ __forceinline__ void sort(Index from, int count) const {
    for (int i = threadIdx.x; i < warps * units; i += blockDim.x) before[i] = 0;
    __syncthreads();
    unsigned short* const own = before + warp * units;
    each_event(from, count, own, [](int, int, int) {});
    __syncthreads();
    for (int unit = threadIdx.x; unit < units; unit += blockDim.x) {
      int sum = 0;
      for (int w = 0; w < warps; w++) {
        const int here = before[w * units + unit];
        before[w * units + unit] = static_cast<unsigned short>(sum), sum += here;
      }
      first[unit + 1] = sum;
    }
    __syncthreads();
    if (warp == 0) {  // the prefix sum of the units' numbers of events
      int sum = 0;
      for (int base = 0; base < units; base += kLanes) {
        int own_sum = base + lane < units ? first[base + lane + 1] : 0;
        for (int apart = 1; apart < kLanes; apart *= 2) {
          const int other = __shfl_up_sync(kAll, own_sum, apart);
          if (lane >= apart) own_sum += other;
        }
        if (base + lane < units) first[base + lane + 1] = sum + own_sum;
        sum += __shfl_sync(kAll, own_sum, kLanes - 1);
      }
      if (lane == 0) first[0] = *taken = 0;
    }
    __syncthreads();
    each_event(from, count, own, [&](int event, int unit, int rank) {
      sorted[first[unit] + own[unit] + rank] = static_cast<unsigned short>(event);
    });
    __syncthreads();
  }

  // The next unit for a warp: one that has summed few events takes the next unit earlier.
  __device__ __forceinline__ int take() const {
    const int unit = lane == 0 ? atomicAdd(taken, 1) : 0;
    return __shfl_sync(kAll, unit, 0);
  }

  // The sums for a unit's gate, a lane an event.
  __device__ __forceinline__ void sum_gate(int unit, Index from, bool adds) const {
    const Gate gate = Gate::load(gates.gates, units, unit);
    GateSums sum;
#pragma unroll 2
    for (int i = first[unit] + lane; i < first[unit + 1]; i += kLanes) {
      const Index e = from + sorted[i];
      const unsigned row = p.row[e], b = row / unsigned(p.steps), j = row % unsigned(p.steps);
      sum.add(gates.to_others, e, gates.peephole, gates.time[b * gates.time_batch + j * gates.time_step], gate, 0.0, gates.square);
    }
#pragma unroll
    for (int s = 0; s < kGateSums; s++) {
      if (s >= gates.kinds()) break;
      double all = sum.v[s];
      for (int apart = kLanes / 2; apart; apart /= 2) all += __shfl_xor_sync(kAll, all, apart);
      double& here = gates.partial[(Index(blockIdx.z) * kGateSums + s) * units + unit];
      if (lane == 0) here = adds ? here + all : all;
    }
  }

  __device__ __forceinline__ void run() const {
    const Index rows = p.batch * p.steps, share = (rows + gridDim.z - 1) / gridDim.z, begin_row = blockIdx.z * share;
    const Index end_row = begin_row + share;
    const Index begin = p.start[begin_row < rows ? begin_row : rows], end = p.start[end_row < rows ? end_row : rows];
    for (Index from = begin; from < end || from == begin; from += p.ring) {  // without events, a round that writes zeros
      sort(from, int(end - from < p.ring ? end - from : p.ring));
      for (int unit = take(); unit < units; unit = take()) {
        RowSums<kColumns> sums(p, column, seen);
        sums.add(first[unit], first[unit + 1], [&](Index i) { return from + sorted[i]; });
        sums.write(p.sums + Index(blockIdx.z) * units * 4 * columns, unit, from != begin);
        if (column == 0) sum_gate(unit, from, from != begin);
      }
      __syncthreads();
    }
  }
};

constexpr int kSortingThreads = PHASED_SORTING_WARPS * kLanes;

extern "C" __global__ void __launch_bounds__(kSortingThreads) sorted_sums(const Summing summing, const GateSumming gates) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (is_called(summing.found, summing.least, summing.below)) SortedSums<PHASED_SUM_COLUMNS>(summing, gates, shared).run();
}

// The same with a column a lane more: where that leaves fewer lanes without a column.
extern "C" __global__ void __launch_bounds__(kSortingThreads) wide_sorted_sums(const Summing summing, const GateSumming gates) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (is_called(summing.found, summing.least, summing.below)) SortedSums<PHASED_SUM_COLUMNS + 1>(summing, gates, shared).run();
}

}  // namespace phased
