// Whether times can be those of sequences.
#pragma once

#include <cmath>
#include <cstdint>

namespace phased {

// Whether the times of every sequence are finite and never decrease; element (step, sequence) at the sum of their strides.
// Without lengths, all steps count.
inline bool is_clock(const double* time, int64_t steps, int64_t batch, int64_t of_step, int64_t of_sequence, const int64_t* lengths) {
  bool rising = true;
  for (int64_t b = 0; b < batch; b++) {
    const double* own = time + b * of_sequence;
    const int64_t count = lengths ? lengths[b] : steps;
    if (!count) continue;
    double before = own[0];
    // From a finite time to a finite time without a step back, all are finite.
    rising &= std::isfinite(before) && std::isfinite(own[(count - 1) * of_step]);
    for (int64_t j = 1; j < count; j++) {
      const double now = own[j * of_step];
      rising &= now >= before;
      before = now;
    }
  }
  return rising;
}

}  // namespace phased
