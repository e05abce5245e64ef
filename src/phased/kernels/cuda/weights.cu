// Weights before a pass that computes every unit at every step, which otherwise the kernel of the schedule packs; and gradients
// after any pass.
#include "weights.h"

namespace phased {

extern "C" __global__ void pack(const Packing packing) {
  packing.pack(blockIdx.x * Index(blockDim.x) + threadIdx.x, Index(gridDim.x) * blockDim.x);
}

// From sums (splits, units, 4, units + features + 1), and the gates' sums of `stretches` blocks, (stretches, kGateSums, units).
// Both are added up in a fixed order. A block has rows of the weights' sums in turn; a warp has one of a unit's sums for its gate. It
// is called as is_called has it.
extern "C" __global__ void unpack(const Real* sums, Index splits, const double* gate_sums, Index stretches,
                                  const Unpacking unpacking, const Index* found, Index least, Index below) {
  if (!is_called(found, least, below)) return;
  const Index units = unpacking.units, columns = units + unpacking.features + 1, all = units * 4 * columns;
  const Index thread = blockIdx.x * Index(blockDim.x) + threadIdx.x, threads = Index(gridDim.x) * blockDim.x;
  for (Index row = blockIdx.x; row < 4 * units; row += gridDim.x)
    for (Index column = threadIdx.x; column < columns; column += blockDim.x) {
      const Real* const own = sums + row * columns + column;
      Real total = 0;
#pragma unroll 16
      for (Index split = 0; split < splits; split++) total += own[split * all];
      unpacking.put(row / 4, int(row % 4), column, total);
    }
  const Index gate_all = kGateSums * units, wanted = unpacking.peephole ? gate_all : 3 * units;
  const int lane = threadIdx.x % kLanes;
  for (Index i = thread / kLanes; i < wanted; i += threads / kLanes) {
    double total = 0;
#pragma unroll 8
    for (Index stretch = lane; stretch < stretches; stretch += kLanes) total += gate_sums[stretch * gate_all + i];
    for (int apart = kLanes / 2; apart; apart /= 2) total += __shfl_xor_sync(kAll, total, apart);
    if (lane == 0) unpacking.put_gate(i % units, int(i / units), total);
  }
}

}  // namespace phased
