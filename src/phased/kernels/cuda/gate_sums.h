// Sums over events that become gradients to the gates and the peepholes.
#pragma once

#include "weights.h"

namespace phased {

// Where the gradients to the events' openness and peepholes are, their times and gates, and where the sums go: (blocks or splits,
// kGateSums, units), of which the peepholes' are written only with a peephole.
struct GateSumming {
  const Real* to_others;  // (events, 1), or (events, 4) followed by the three peepholes
  const double* time;     // step j of sequence b at b * time_batch + j * time_step
  Index time_batch, time_step;
  const double* gates;
  Index square, peephole;
  double* partial;

  __device__ __forceinline__ int kinds() const { return peephole ? kGateSums : 3; }
};

// What an event adds for period, shift, ratio_on and the peepholes.
struct GateSums {
  double v[kGateSums] = {};

  __device__ __forceinline__ void add(const Real* to_others, Index e, bool peephole, double t, const Gate& gate, double leak,
                                      bool square) {
    const double phi = phase(t, gate.period, gate.offset), r_on = gate.ratio_on;
    const double to_k = to_others[peephole ? 4 * e : e], k = openness(phi, r_on, leak, square);
    const double to_phase = to_k * slope_to_phase(phi, r_on, leak, square);
    v[0] += to_phase * (t - gate.shift), v[1] += to_phase, v[2] += to_k * slope_to_ratio(phi, k, r_on, square);
    for (int p = 0; peephole && p < 3; p++) v[3 + p] += to_others[4 * e + 1 + p];
  }
};

}  // namespace phased
