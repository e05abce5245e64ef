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
                                Index features, Index pitch, double blur, Real* wh, Real* wx, Real* bias, double* gates,
                                unsigned long long* found) {
  if (found && blockIdx.x == 0 && threadIdx.x < 2) found[threadIdx.x] = 0;  // where find_open counts
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

// Sums over `splits` of (splits, units, 4, units + features + 1), back in torch's layout; and gradients to period, shift and ratio_on (units) and to
// the peepholes (3, units) or nowhere, from `stretches` of (stretches, 6, units).
extern "C" __global__ void unpack(const Real* sums, Index splits, Index units, Index features, Real* ih, Real* hh, Real* bias_ih, Real* bias_hh,
                                  const double* gate_sums, Index stretches, const double* all_gates, double* to_period, double* to_shift,
                                  double* to_ratio_on, Real* to_peephole) {
  const Index columns = units + features + 1, all = units * 4 * columns;
  const Index thread = blockIdx.x * Index(blockDim.x) + threadIdx.x, threads = Index(gridDim.x) * blockDim.x;
  for (Index i = thread; i < all; i += threads) {
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
  const Gates gates = gates_of(all_gates, units);
  for (Index i = thread; i < 6 * units; i += threads) {
    const Index which = i / units, unit = i % units;
    double total = 0;
#pragma unroll 8
    for (Index stretch = 0; stretch < stretches; stretch++) total += gate_sums[stretch * 6 * units + i];
    const double tau = gates.period[unit], r_on = gates.ratio_on[unit], slope = -2 / (r_on * tau);
    if (which == 0) to_period[unit] = total * slope / tau;
    if (which == 1) to_shift[unit] = total * slope;
    if (which == 2) to_ratio_on[unit] = total / r_on;
    if (which >= 3 && to_peephole) to_peephole[(which - 3) * units + unit] = static_cast<Real>(total);
  }
}

}  // namespace phased
