// Which units are open at a time. A rough phase, without a division, rules out all units except the open ones and very few
// others; only those have their phase computed exactly. Steps do not depend on one another, so a processor works on several at
// once.
#pragma once

#include "simd.h"  // first: the cells use its functions
#include "layout.h"
#include "tables.h"

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
  for (int64_t first = 0; first < layer.units; first += 2 * kLanes) {
    unsigned seek = within_reach(layer.rate + first, layer.lag + first, layer.reach + first, t);
    if (first + kLanes < layer.units) {
      const int64_t next = first + kLanes;
      seek |= within_reach(layer.rate + next, layer.lag + next, layer.reach + next, t) << kLanes;
    }
    count += list_set(seek, static_cast<int32_t>(first), unit + count);
  }
  return count;
}

// The candidates of steps from `step` on, with their times and gates, until all steps are done, or the slots up to `capacity` or
// the working memory may be too few for another step. Returns the step after the last. start[j + 1] is where step j's end.
template <class T>
PHASED_INLINE int64_t look(const Layer<T>& layer, const Looked& at, const double* time, int64_t step, int64_t steps,
                           int64_t* start, int32_t* unit, int64_t capacity) {
  const int64_t first = start[step];
  int64_t count = first;
  for (; step < steps && count + padded_units(layer.units) <= capacity && count - first + layer.units <= at.capacity; step++) {
    const int64_t found = candidates(layer, time[step], unit + count);
    for (int64_t i = 0; i < found; i++) {
      const int64_t n = unit[count + i], place = count - first + i;
      at.time[place] = time[step], at.period[place] = layer.period[n], at.shift[place] = layer.offset[n];
      at.ratio_on[place] = layer.ratio_on[n];
    }
    start[step + 1] = count += found;
  }
  for (int64_t i = count - first; i < count - first + kLanes; i++)  // the last vector's other lanes
    at.period[i] = at.ratio_on[i] = 1, at.time[i] = at.shift[i] = 0;
  return step;
}

// The exact phases of `count` candidates, a vector of them at a time.
template <class T>
PHASED_INLINE void phases(const Layer<T>& layer, const Looked& at, int64_t count) {
  bool near = true;
  for (int64_t i = 0; i < count; i++) near &= fabs(at.time[i]) <= layer.near;
  if (near) {
    for (int64_t i = 0; i < count; i += kDoubles)
      store(at.phase + i,
            phase_of(load<Doubles>(at.time + i), load<Doubles>(at.period + i), load<Doubles>(at.shift + i)));
    return;
  }
  for (int64_t i = 0; i < count; i++) at.phase[i] = phase(at.time[i], at.period[i], at.shift[i]);
}

// Leaves out the candidates of these steps that are closed: few, because reach is hardly more than the ratio.
inline void leave_out_closed(const Looked& at, int64_t step, int64_t end, int64_t* start, int32_t* unit) {
  const int64_t first = start[step];
  int64_t open = first, i = first;
  for (; step < end; step++) {
    for (const int64_t last = start[step + 1]; i < last; i++) {
      const double phi = at.phase[i - first], r_on = at.ratio_on[i - first];
      unit[open] = unit[i], at.phase[open - first] = phi, at.ratio_on[open - first] = r_on;
      open += !(phi >= r_on);  // a gate that is NaN is open, and its openness NaN
    }
    start[step + 1] = open;
  }
}

// The openness and the sides of `count` open units.
template <class T>
PHASED_INLINE void open_by(const Layer<T>& layer, const Looked& at, int64_t count, T* k, uint8_t* side_of) {
  with_shape(layer.shape, [&](auto shape) PHASED_LAMBDA {
    for (int64_t i = 0; i < count; i += kDoubles) {
      const Doubles phi = load<Doubles>(at.phase + i), r_on = load<Doubles>(at.ratio_on + i);
      store(k + i, __builtin_convertvector(openness<decltype(shape)>(phi, r_on, 0.0), Vector<T, kDoubles>));
      store(side_of + i, __builtin_convertvector(phi < r_on / 2, Vector<int8_t, kDoubles>) + 1);  // a true lane is -1
    }
  });
}

// The open events of steps from `step` on, in the order of steps and units, until all are done or the slots left may be too few
// for another; returns the step after the last. start[j + 1] is where step j's events end, start[step] where the first begin. The
// arrays have room for a vector after the last event.
//
// Candidates of many steps are listed before any of their phases is computed, so that vectors are full and divisions overlap.
template <class T>
int64_t schedule_steps(const Layer<T>& layer, const Looked& at, const double* time, int64_t step, int64_t steps, int64_t* start,
                       int32_t* unit, T* k, uint8_t* side_of, int64_t capacity) {
  while (step < steps) {
    const int64_t begin = step, first = start[begin];
    step = look(layer, at, time, begin, steps, start, unit, capacity);
    if (step == begin) break;
    const int64_t found = start[step] - first;
    phases(layer, at, found);
    int64_t open = 0;
    for (int64_t i = 0; i < found; i++) open += !(at.phase[i] >= at.ratio_on[i]);
    if (open < found) leave_out_closed(at, begin, step, start, unit);
    open_by(layer, at, open, k + first, side_of + first);
  }
  store(unit + start[step], Vector<int32_t, kLanes>{});  // loops over whole vectors then read units that exist
  return step;
}

}  // namespace
}  // namespace phased
