// Weights from torch's layout to a unit's, with all four products of a unit side by side and rows padded to whole fours; and
// gradients back.
#pragma once

#include "common.h"
#include "rough.h"

namespace phased {

// The row of torch's stacked gates that feeds product g through x or through h; -1 where none does. The GRU's n has two products.
__device__ __forceinline__ Index gate_row(int g, bool from_x, Index unit, Index units) {
  if (Cell::has_c || g < 2) return g * units + unit;
  return (g == 2) == from_x ? 2 * units + unit : -1;
}

// The value clamped to [low, high]; a NaN stays one.
__device__ __forceinline__ double bounded(double value, double low, double high) {
  return value < low ? low : value > high ? high : value;
}

// Weights and gates in torch's layout, and as the units read them: wh (units, 4, pitch), wx (units, features, 4), bias (units,
// 4), gates (PHASED_GATE, units), bounded as TimeGate.bounded does. Also written: zeros (units).
struct Packing {
  const Real *ih, *hh, *bias_ih, *bias_hh;
  const double *period, *shift, *ratio_on;
  double shortest, longest, smallest;
  Index units, features, pitch;
  Real *wh, *wx, *bias, *zeros;
  double* gates;

  __device__ __forceinline__ double period_of(Index unit) const { return bounded(period[unit], shortest, longest); }
  __device__ __forceinline__ double ratio_of(Index unit) const { return bounded(ratio_on[unit], smallest, 1); }
  __device__ __forceinline__ Gate gate(Index unit) const {
    const double tau = period_of(unit), offset = rest_of(shift[unit], tau);
    return {tau, shift[unit], ratio_of(unit), offset, 1 / tau, offset / tau - kBlur};
  }
  // One thread's part.
  __device__ __forceinline__ void pack(Index thread, Index threads) const {
    const Index columns = pitch + features + 1;
    for (Index i = thread; i < units * 4 * columns; i += threads) {
      const Index column = i % columns, g = i / columns % 4, unit = i / columns / 4, which = unit * 4 + g;
      const Index from_x = gate_row(g, true, unit, units), from_h = gate_row(g, false, unit, units);
      if (column < pitch) {
        wh[which * pitch + column] = from_h < 0 || column >= units ? Real(0) : hh[from_h * units + column];
      } else if (column < pitch + features) {
        const Index d = column - pitch;
        wx[(unit * features + d) * 4 + g] = from_x < 0 ? Real(0) : ih[from_x * features + d];
      } else {
        bias[which] = (bias_ih && from_x >= 0 ? bias_ih[from_x] : Real(0)) + (bias_hh && from_h >= 0 ? bias_hh[from_h] : Real(0));
      }
    }
    for (Index unit = thread; unit < units; unit += threads) gate(unit).store(gates, units, unit), zeros[unit] = 0;
  }
};

constexpr int kGateSums = PHASED_GATE_SUMS;  // of a unit: see GateSums

// Gradients in torch's layout; null for biases and peepholes that do not exist.
struct Unpacking {
  Index units, features;
  Real *ih, *hh, *bias_ih, *bias_hh;
  const double* gates;
  double *period, *shift, *ratio_on;
  Real* peephole;

  // A sum over all events: of the gradient to product g of a unit, times column `column` of their rows [h before | x | 1].
  __device__ __forceinline__ void put(Index unit, int g, Index column, Real sum) const {
    const Index from_x = gate_row(g, true, unit, units), from_h = gate_row(g, false, unit, units);
    if (column < units) {
      if (from_h >= 0) hh[from_h * units + column] = sum;
    } else if (column < units + features) {
      if (from_x >= 0) ih[from_x * features + column - units] = sum;
    } else {
      if (bias_ih && from_x >= 0) bias_ih[from_x] = sum;
      if (bias_hh && from_h >= 0) bias_hh[from_h] = sum;
    }
  }
  // One of a unit's six GateSums.
  __device__ __forceinline__ void put_gate(Index unit, int which, double sum) const {
    const Gate gate = Gate::load(gates, units, unit);
    const double slope = -2 / (gate.ratio_on * gate.period);
    if (which == 0) period[unit] = sum * slope / gate.period;
    if (which == 1) shift[unit] = sum * slope;
    if (which == 2) ratio_on[unit] = sum / gate.ratio_on;
    if (which >= 3 && peephole) peephole[(which - 3) * units + unit] = static_cast<Real>(sum);
  }
};

}  // namespace phased
