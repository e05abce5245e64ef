// Whether times can be those of sequences.
#pragma once

#include <cstdint>

namespace phased {

// Whether the times of every sequence are finite and never decrease; element (step, sequence) at the sum of their strides.
// Without lengths, all steps count.
bool is_clock(const double* time, int64_t steps, int64_t batch, int64_t of_step, int64_t of_sequence, const int64_t* lengths);

}  // namespace phased
