// torch's weights to a unit's: all four products of a unit side by side, rows padded to whole fours; and gradients the way back.
#include "common.h"

namespace phased {

// The row of torch's stacked gates that feeds product g through x or through h; -1 where none does. The GRU's n has two products.
__device__ __forceinline__ Index gate_row(int g, bool from_x, Index unit, Index units) {
  if (Cell::has_c || g < 2) return g * units + unit;
  return (g == 2) == from_x ? 2 * units + unit : -1;
}

// The value moved into [low, high]; a NaN stays one.
__device__ __forceinline__ double bounded(double value, double low, double high) {
  return value < low ? low : value > high ? high : value;
}

// wh (units, 4, pitch), wx (units, 4, features), bias (units, 4), gates (6, units), bounded as TimeGate.bounded does.
extern "C" __global__ void pack(const Real* ih, const Real* hh, const Real* bias_ih, const Real* bias_hh, const double* period,
                                const double* shift, const double* ratio_on, double shortest, double longest, double smallest, Index units,
                                Index features, Index pitch, double blur,
                                Real* wh, Real* wx, Real* bias, double* gates) {
  const Index columns = pitch + features + 1, all = units * 4 * columns;
  for (Index i = blockIdx.x * Index(blockDim.x) + threadIdx.x; i < all; i += Index(gridDim.x) * blockDim.x) {
    const Index column = i % columns, g = i / columns % 4, unit = i / columns / 4, which = unit * 4 + g;
    const Index from_x = gate_row(g, true, unit, units), from_h = gate_row(g, false, unit, units);
    if (column < pitch) {
      wh[which * pitch + column] = from_h < 0 || column >= units ? Real(0) : hh[from_h * units + column];
    } else if (column < pitch + features) {
      const Index d = column - pitch;
      wx[which * features + d] = from_x < 0 ? Real(0) : ih[from_x * features + d];
    } else {
      bias[which] = (bias_ih && from_x >= 0 ? bias_ih[from_x] : Real(0)) + (bias_hh && from_h >= 0 ? bias_hh[from_h] : Real(0));
    }
  }
  for (Index n = blockIdx.x * Index(blockDim.x) + threadIdx.x; n < units; n += Index(gridDim.x) * blockDim.x) {
    const double tau = bounded(period[n], shortest, longest), offset = rest_of(shift[n], tau);
    gates[n] = tau, gates[units + n] = shift[n], gates[2 * units + n] = bounded(ratio_on[n], smallest, 1);
    gates[3 * units + n] = offset, gates[4 * units + n] = 1 / tau, gates[5 * units + n] = offset / tau - blur;
  }
}

// Sums over `splits` of (splits, units, 4, units + features + 1), back in torch's layout.
extern "C" __global__ void unpack(const Real* sums, Index splits, Index units, Index features, Real* ih, Real* hh, Real* bias_ih, Real* bias_hh) {
  const Index columns = units + features + 1, all = units * 4 * columns;
  for (Index i = blockIdx.x * Index(blockDim.x) + threadIdx.x; i < all; i += Index(gridDim.x) * blockDim.x) {
    const Index column = i % columns, g = i / columns % 4, unit = i / columns / 4;
    const Index from_x = gate_row(g, true, unit, units), from_h = gate_row(g, false, unit, units);
    Real sum = 0;
    for (Index split = 0; split < splits; split++) sum += sums[split * all + i];
    if (column < units) {
      if (from_h >= 0) hh[from_h * units + column] = sum;
    } else if (column < units + features) {
      if (from_x >= 0) ih[from_x * features + column - units] = sum;
    } else {
      if (bias_ih && from_x >= 0) bias_ih[from_x] = sum;
      if (bias_hh && from_h >= 0) bias_hh[from_h] = sum;
    }
  }
}

}  // namespace phased
