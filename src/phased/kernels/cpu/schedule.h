// Which units are open at a time. A rough phase, without a division, rules out all units except the open ones and very few
// others; only those have their phase computed exactly. Steps do not depend on one another, so a processor works on several at
// once.
#pragma once

#include "gate.h"
#include "layout.h"
#include "simd.h"

namespace phased {
namespace {

// The units that may be open at time t, in order; returns their number. Misses none: see Layer::reach.
template <class T>
PHASED_INLINE int64_t candidates(const Layer<T>& layer, double t, int32_t* unit) {
  int64_t count = 0;
  if (!(fabs(t) <= layer.near)) {  // too many periods for a rough phase: all units are candidates
    for (; count < layer.units; count++) unit[count] = static_cast<int32_t>(count);
    return count;
  }
  for (int64_t block = 0; block < layer.units; block += 64) {
    uint64_t seek = 0;
    for (int64_t eight = 0; eight < 64 && block + eight < layer.units; eight += 8) {
      const int64_t n = block + eight;
      seek |= static_cast<uint64_t>(within_reach(layer.rate + n, layer.lag + n, layer.reach + n, t)) << eight;
    }
    for (; seek; seek &= seek - 1) unit[count++] = static_cast<int32_t>(block + __builtin_ctzll(seek));
  }
  return count;
}

// Their phases, exactly, a vector of them at a time.
template <class T>
PHASED_INLINE void phases(const Layer<T>& layer, const Looked& at, double t, const int32_t* unit, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const int64_t n = unit[i];
    at.period[i] = layer.period[n], at.shift[i] = layer.offset[n], at.ratio_on[i] = layer.ratio_on[n];
  }
  for (int64_t i = count; i < count + kLanes; i++)
    at.period[i] = at.ratio_on[i] = 1, at.shift[i] = 0;  // the last vector's other lanes
  if (fabs(t) <= layer.near) {
    for (int64_t i = 0; i < count; i += kDoubles)
      store(at.phase + i, phase_of(t, load<Doubles>(at.period + i), load<Doubles>(at.shift + i)));
    return;
  }
  for (int64_t i = 0; i < count; i++) at.phase[i] = phase(t, at.period[i], at.shift[i]);
}

// The units open at time t, in order, with their openness and side. Returns their number; the arrays have room for all units and
// a vector.
template <class T>
PHASED_INLINE int64_t open_units(const Layer<T>& layer, const Looked& at, double t, int32_t* unit, T* k, uint8_t* side_of) {
  int64_t count = candidates(layer, t, unit);
  phases(layer, at, t, unit, count);
  int64_t open = 0;
  for (int64_t i = 0; i < count; i++)
    open += !(at.phase[i] >= at.ratio_on[i]);  // a gate that is NaN is open, and its openness NaN
  if (open < count) {  // rare: reach is hardly more than the ratio
    open = 0;
    for (int64_t i = 0; i < count; i++) {
      unit[open] = unit[i], at.phase[open] = at.phase[i], at.ratio_on[open] = at.ratio_on[i];
      open += !(at.phase[open] >= at.ratio_on[open]);
    }
    count = open;
  }

  const bool square = static_cast<Shape>(layer.shape) == Shape::square;
  for (int64_t i = 0; i < count; i += kDoubles) {
    const Doubles phi = load<Doubles>(at.phase + i), r_on = load<Doubles>(at.ratio_on + i);
    store(k + i, __builtin_convertvector(openness(phi, r_on, 0.0, square), Vector<T, kDoubles>));
    const auto falling = __builtin_convertvector(phi < r_on / 2, Vector<int8_t, kDoubles>) + 1;  // a true lane is -1
    const Vector<int8_t, kDoubles> sides =
        square ? Vector<int8_t, kDoubles>{} + int8_t(Side::flat) : falling + int8_t(Side::rising);
    store(side_of + i, sides);
  }
  store(unit + count, Vector<int32_t, kLanes>{});  // loops over whole vectors then read units that exist
  return count;
}

static_assert(int(Side::falling) == int(Side::rising) + 1);

// The open events of steps from `step` on, until all are done or the slots left may be too few for another; returns the step
// after the last. start[j + 1] is where step j's events end, start[step] where the first begin.
template <class T>
int64_t schedule_steps(const Layer<T>& layer, const Looked& at, const double* time, int64_t step, int64_t steps, int64_t* start,
                       int32_t* unit, T* k, uint8_t* side_of, int64_t capacity) {
  int64_t count = start[step];
  for (; step < steps && count + padded_units(layer.units) <= capacity; step++) {
    count += open_units(layer, at, time[step], unit + count, k + count, side_of + count);
    start[step + 1] = count;
  }
  return step;
}

}  // namespace
}  // namespace phased
