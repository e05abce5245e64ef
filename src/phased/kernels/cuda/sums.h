// The gradients to weights as sums over events: of the gradients to a unit's products times the event's row [h before | x | 1].
#pragma once

#include "gate_sums.h"

namespace phased {

// What event_sums and sorted_sums read and write. `ring`: tiles that a block of the first has in shared memory, two or three; or
// events that a block of the second sorts at a time. Their sums are (splits, units, 4, units + features + 1).
struct Summing {
  const Real* to_products;
  const int *unit, *row;  // of each event
  const unsigned* mask;
  const Index* start;
  const Real *output, *initial_h;
  Index initial_batch;
  const Real* x;
  Index x_step, x_batch, features, batch, steps, units, ring;
  Real* sums;
  const Index* found;  // the number of events and for which numbers the kernel is called, as is_called has them
  Index least, below;
};

}  // namespace phased
