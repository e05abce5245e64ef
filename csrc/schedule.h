// Who is open at a time. A unit seen closed is known to stay so until its cycle is over, so most units cost two comparisons a step.
#pragma once

#include "gate.h"
#include "layout.h"
#include "simd.h"

namespace phased {
namespace {

// Nothing is known yet; the places that are no units are closed for ever.
PHASED_INLINE void forget(const Closed& closed, int64_t units) {
  for (int64_t n = 0; n < padded_units(units); n++) {
    closed.low[n] = n < units ? __builtin_inf() : -__builtin_inf();
    closed.high[n] = -closed.low[n];
    closed.period[n] = closed.ratio_on[n] = 1;
  }
}

// The phases of the units looked at, eight together.
PHASED_INLINE void phases(const Closed& at, double t, bool near, int64_t count) {
#ifdef FP_FAST_FMA
  if (near) {
    for (int64_t i = 0; i < count; i += kLanes) {
      store(at.phase + i, phase_of(t, load<Doubles>(at.period + i), load<Doubles>(at.shift + i)));
    }
    return;
  }
#endif
  for (int64_t i = 0; i < count; i++) at.phase[i] = phase(t, at.period[i], at.shift[i]);
}

// The units open at time t, in order, with their openness and side. Returns their number; the arrays have room for all units and a vector.
template <class T>
PHASED_INLINE int64_t open_units(const Layer<T>& layer, const Closed& at, double t, int32_t* unit, T* k, uint8_t* side_of) {
  int64_t seen = 0;
  for (int64_t block = 0; block < layer.units; block += 64) {
    uint64_t seek = 0;
    for (int64_t eight = 0; eight < 64 && block + eight < layer.units; eight += 8)
      seek |= static_cast<uint64_t>(outside(at.low + block + eight, at.high + block + eight, t)) << eight;
    for (; seek; seek &= seek - 1, seen++) {
      const int64_t n = block + __builtin_ctzll(seek);
      at.found[seen] = static_cast<int32_t>(n);
      at.period[seen] = layer.period[n], at.shift[seen] = layer.offset[n], at.ratio_on[seen] = layer.ratio_on[n];
    }
  }
  for (int64_t l = seen; l < seen + kLanes; l++)  // fill the last vector with units that are not there and never open
    at.found[l] = static_cast<int32_t>(whole_units(layer.units)), at.period[l] = 1, at.shift[l] = 0, at.ratio_on[l] = -1;
  phases(at, t, fabs(t) <= layer.near, seen);

  // From its phase follows the next time in which a unit is surely closed, open or not. `slack` bounds what rounding does to a phase.
  // The loops are over whole vectors, without branches: which unit is open next is what no branch predictor can know.
  constexpr double slack = 16 * 2.220446049250313e-16;
  int64_t count = 0;
  for (int64_t i = 0; i < seen; i += kLanes) {
    const Doubles phi = load<Doubles>(at.phase + i), tau = load<Doubles>(at.period + i), r_on = load<Doubles>(at.ratio_on + i);
    const Doubles margin = slack * (fabs(t) + load<Doubles>(at.shift + i) + tau);
    double low[kLanes], high[kLanes];
    store(low, t - (phi - r_on) * tau + margin);
    store(high, t + (1 - phi) * tau - margin);
    for (int l = 0; l < kLanes; l++) at.low[at.found[i + l]] = low[l], at.high[at.found[i + l]] = high[l];
    for (int l = 0; l < kLanes; l++) {
      const double phi_l = at.phase[i + l], r_on_l = at.ratio_on[i + l];
      unit[count] = at.found[i + l], at.phase[count] = phi_l, at.ratio_on[count] = r_on_l;
      count += phi_l < r_on_l;
    }
  }

  const bool square = static_cast<Shape>(layer.shape) == Shape::square;
  for (int64_t i = 0; i < count; i += kLanes) {
    const Doubles phi = load<Doubles>(at.phase + i), r_on = load<Doubles>(at.ratio_on + i);
    store(k + i, __builtin_convertvector(openness(phi, r_on, 0.0, square), Events<T>));
    const auto falling = __builtin_convertvector(phi < r_on / 2, Vector<int8_t, kLanes>) + 1;  // a true lane is -1
    const Vector<int8_t, kLanes> sides = square ? Vector<int8_t, kLanes>{} + int8_t(Side::flat) : falling + int8_t(Side::rising);
    store(side_of + i, sides);
  }
  store(unit + count, Vector<int32_t, kLanes>{});  // whoever takes whole vectors finds units there are
  return count;
}

static_assert(int(Side::falling) == int(Side::rising) + 1);

// The open events of steps from `step` on, until all are done or the slots left might not do for one more; returns the step it stopped at.
// start[j + 1] is where step j's events end, start[step] where the first begin.
template <class T>
int64_t schedule_steps(const Layer<T>& layer, const Closed& closed, const double* time, int64_t step, int64_t steps, int64_t* start,
                       int32_t* unit, T* k, uint8_t* side_of, int64_t capacity) {
  int64_t count = start[step];
  for (; step < steps && count + padded_units(layer.units) <= capacity; step++) {
    count += open_units(layer, closed, time[step], unit + count, k + count, side_of + count);
    start[step + 1] = count;
  }
  return step;
}

}  // namespace
}  // namespace phased
