// Gradients to the weights of layers with many units: a warp sums all events of a unit. The host has sorted the events.
#include "row_sums.h"

namespace phased {

constexpr int kUnitWarps = PHASED_UNIT_WARPS;

// Blocks that run at the same time have different units and the same columns, whose rows stay in the L2 cache. `sorted`: numbers of
// events, by unit and then in their order; those of a unit are first[unit] to first[unit + 1].
template <int kColumns>
__device__ __forceinline__ void sum_unit(const Summing& p, const Index* sorted, const Index* first) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int warp = threadIdx.x / kLanes, unit = int(blockIdx.x) * kUnitWarps + warp;
  if (unit >= p.units || !is_called(p.found, p.least, p.below)) return;
  RowSums<kColumns> sums(p, int(blockIdx.y) * kColumns * kLanes, reinterpret_cast<Seen*>(shared) + warp * kLanes);
  sums.add(first[unit], first[unit + 1], [&](Index i) { return sorted[i]; });
  sums.write(p.sums, unit, false);
}

extern "C" __global__ void __launch_bounds__(kUnitWarps * kLanes)
    unit_sums(const Summing summing, const Index* sorted, const Index* first) {
  sum_unit<PHASED_SUM_COLUMNS>(summing, sorted, first);
}

// The same with a column a lane more: where that leaves fewer lanes without a column.
extern "C" __global__ void __launch_bounds__(kUnitWarps * kLanes)
    wide_unit_sums(const Summing summing, const Index* sorted, const Index* first) {
  sum_unit<PHASED_SUM_COLUMNS + 1>(summing, sorted, first);
}

}  // namespace phased
