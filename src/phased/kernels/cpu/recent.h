// Running summaries of a sequence's last-known values: how far each has recently been above and below its present value, and how
// rough it is. Shared by batches and by sequences that arrive event by event.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace phased {

// Of each variable: its last-known value, how far above and below that it has been, each forgotten over time, the sum of its
// absolute changes, and the number of its measurements.
template <class T>
struct Recent {
  T *value, *above, *below, *path, *count;

  static constexpr int64_t kRows = 5;
  // In one piece of memory, (kRows, variables), of zeros before the first step.
  Recent(T* memory, int64_t variables)
      : value(memory),
        above(value + variables),
        below(above + variables),
        path(below + variables),
        count(path + variables) {}

  // A step with these last-known values, some of them new (1, else 0). `kept`: the share of the past that is not forgotten.
  void advance(const T* now, const T* is_new, T kept, int64_t variables) const {
#pragma omp simd
    for (int64_t v = 0; v < variables; v++) {
      const T change = count[v] > 0 ? now[v] - value[v] : T(0);
      above[v] = std::max(above[v] * kept - change, T(0));
      below[v] = std::max(below[v] * kept + change, T(0));
      path[v] += std::fabs(change);
      count[v] += is_new[v];
      value[v] = now[v];
    }
  }

  // The highest and lowest recent values, and the mean absolute change from one measurement to the next.
  void write(T* highest, T* lowest, T* roughness, int64_t variables) const {
#pragma omp simd
    for (int64_t v = 0; v < variables; v++) {
      highest[v] = value[v] + above[v];
      lowest[v] = value[v] - below[v];
      roughness[v] = path[v] / std::max(count[v] - 1, T(1));
    }
  }
};

// Inputs of steps, row (step, b) at step * of_step + b * of_sequence: values, which of them are new, and more, the last of them a
// time. The results go to rows of 3 * variables numbers, likewise; with to_step 0 only those of each sequence's last step.
template <class T>
struct RecentBatch {
  int64_t batch, variables, features;
  const T* x;
  int64_t of_step, of_sequence;
  const int64_t* lengths;
  T* to;
  int64_t to_step, to_sequence;
};

// `rate`: how fast the past is forgotten, by exp(-rate * time).
template <class T>
void recent(const RecentBatch<T>& p, T rate) {
  std::vector<T> memory;
  for (int64_t b = 0; b < p.batch; b++) {
    memory.assign(Recent<T>::kRows * p.variables, T(0));
    const Recent<T> own(memory.data(), p.variables);
    T last = 0;
    for (int64_t step = 0; step < p.lengths[b]; step++) {
      const T* row = p.x + step * p.of_step + b * p.of_sequence;
      const T time = row[p.features - 1];
      own.advance(row, row + p.variables, std::exp(-rate * (time - last)), p.variables);
      last = time;
      if (!p.to_step && step + 1 < p.lengths[b]) continue;
      T* to = p.to + step * p.to_step + b * p.to_sequence;
      own.write(to, to + p.variables, to + 2 * p.variables, p.variables);
    }
  }
}

}  // namespace phased
