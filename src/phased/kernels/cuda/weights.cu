// Weights before, and gradients after, a pass that computes every unit at every step. Otherwise the kernels of the schedule and
// of the sums do this.
#include "weights.h"

namespace phased {

extern "C" __global__ void pack(const Packing packing) {
  packing.pack(blockIdx.x * Index(blockDim.x) + threadIdx.x, Index(gridDim.x) * blockDim.x);
}

// From sums (units, 4, units + features + 1), and the gates' sums of `stretches` blocks, (stretches, kGateSums, units).
extern "C" __global__ void unpack(const Real* sums, const double* gate_sums, Index stretches, const Unpacking unpacking) {
  const Index units = unpacking.units, columns = units + unpacking.features + 1;
  const Index thread = blockIdx.x * Index(blockDim.x) + threadIdx.x, threads = Index(gridDim.x) * blockDim.x;
  for (Index i = thread; i < units * 4 * columns; i += threads)
    unpacking.put(i / columns / 4, int(i / columns % 4), i % columns, sums[i]);
  for (Index i = thread; i < kGateSums * units; i += threads) {
    double total = 0;
#pragma unroll 8
    for (Index stretch = 0; stretch < stretches; stretch++) total += gate_sums[stretch * kGateSums * units + i];
    unpacking.put_gate(i % units, int(i / units), total);
  }
}

}  // namespace phased
