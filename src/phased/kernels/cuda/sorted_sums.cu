// Gradients to weights, where few units are open: the events of a unit are sorted out, and summed by one warp.
#include "row_sums.h"

namespace phased {

// A block has kColumns * 32 columns and a split of the rows. It sorts the split's events by unit, as many at a time as its shared
// memory has room for. Then a warp sums those of a unit, four products in registers, for kColumns columns a lane; the rows come from
// the L2 cache. Events of a unit keep their order, so the sums have the same bits every time.
template <int kColumns>
struct SortedSums {
  const Summing& p;
  const int lane, warp, warps, units, features, columns, column;  // column: the block's first
  // In shared memory: what each warp is about to read (warps, 32); the sorted events, as numbers from a round's first (room); where
  // those of a unit start (units + 1); and how many of a unit's events are before those of a warp (warps, units).
  Seen* const seen;
  int *const sorted, *const first;
  unsigned short* const before;

  __device__ __forceinline__ SortedSums(const Summing& p, unsigned char* shared)
      : p(p),
        lane(threadIdx.x % kLanes),
        warp(threadIdx.x / kLanes),
        warps(blockDim.x / kLanes),
        units(int(p.units)),
        features(int(p.features)),
        columns(units + features + 1),
        column(blockIdx.y * kColumns * kLanes),
        seen(reinterpret_cast<Seen*>(shared) + warp * kLanes),
        sorted(reinterpret_cast<int*>(reinterpret_cast<Seen*>(shared) + warps * kLanes)),
        first(sorted + p.ring),
        before(reinterpret_cast<unsigned short*>(first + units + 1)) {}

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
      if (lane == 0) first[0] = 0;
    }
    __syncthreads();
    each_event(from, count, own, [&](int event, int unit, int rank) { sorted[first[unit] + own[unit] + rank] = event; });
    __syncthreads();
  }

  __device__ __forceinline__ void run() const {
    const Index rows = p.batch * p.steps, share = (rows + gridDim.z - 1) / gridDim.z, begin_row = blockIdx.z * share;
    const Index end_row = begin_row + share;
    const Index begin = p.start[begin_row < rows ? begin_row : rows], end = p.start[end_row < rows ? end_row : rows];
    for (Index from = begin; from < end || from == begin; from += p.ring) {  // without events, a round that writes zeros
      sort(from, int(end - from < p.ring ? end - from : p.ring));
      for (int unit = warp; unit < units; unit += warps) {
        RowSums<kColumns> sums(p, column, seen);
        sums.add(first[unit], first[unit + 1], [&](Index i) { return from + sorted[i]; });
        sums.write(p.sums + Index(blockIdx.z) * units * 4 * columns, unit, from != begin);
      }
      __syncthreads();
    }
  }
};

constexpr int kSortingThreads = PHASED_SORTING_WARPS * kLanes;

extern "C" __global__ void __launch_bounds__(kSortingThreads) sorted_sums(const Summing summing) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (is_called(summing.found, summing.least, summing.below)) SortedSums<PHASED_SUM_COLUMNS>(summing, shared).run();
}

// The same with a column a lane more: where that leaves fewer lanes without a column.
extern "C" __global__ void __launch_bounds__(kSortingThreads) wide_sorted_sums(const Summing summing) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (is_called(summing.found, summing.least, summing.below)) SortedSums<PHASED_SUM_COLUMNS + 1>(summing, shared).run();
}

}  // namespace phased
