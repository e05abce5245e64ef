// What tests of kernels on a CPU's threads share: random numbers, and comparisons.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>

using namespace phased;
using Numbers = std::vector<float>;

constexpr float kTape = PHASED_TAPE == 1 ? 4e-3f : PHASED_TAPE == 2 ? 5e-4f : 2e-5f;  // how far numbers on it are rounded

static std::mt19937 generator(1);
static int wrong = 0;

inline Numbers drawn(size_t count, float scale = 1) {
  std::normal_distribution<float> normal(0, scale);
  Numbers found(count);
  for (float& each : found) each = normal(generator);
  return found;
}
inline Numbers unwritten(size_t count) { return Numbers(count, NAN); }
inline void expect(float found, float expected, const char* what, float error = 2e-5f) {
  if (std::fabs(found - expected) <= error * (1 + std::fabs(expected))) return;
  if (wrong++ < 5) std::printf("%s: expected %g, got %g\n", what, expected, found);
}
