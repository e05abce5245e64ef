// An open event forwards, by plain loops in doubles: what tests of the recurrence compare kernels with. After the kernels.
#pragma once

#include <vector>

struct PlainEvent {
  float h, c, record[phased::kRecord];

  // Weights (units, 4, pitch); h of all units, and the unit's own c, before the step.
  PlainEvent(const std::vector<float>& weights, int pitch, const float* peephole, const phased::Arrival& arrival,
             const std::vector<float>& before, float c_before) {
    const int units = int(before.size()), unit = arrival.head.unit;
    float a[4], w[3] = {};
    for (int g = 0; g < 4; g++) {
      double sum = arrival.terms[g];
      for (int column = 0; column < units; column++) sum += double(weights[(unit * 4 + g) * pitch + column]) * before[column];
      a[g] = float(sum);
    }
    phased::peepholes(peephole, units, unit, w);
    h = phased::accept(a, arrival.head.k, before[unit], c_before, w, c, record);
  }
};
