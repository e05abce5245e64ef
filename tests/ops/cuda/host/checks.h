// What tests of kernels of a recurrence share: random numbers, and comparisons.
#pragma once

using namespace phased;
using Numbers = std::vector<float>;

constexpr float kTape = PHASED_TAPE == 1 ? 4e-3f : PHASED_TAPE == 2 ? 5e-4f : 2e-5f;  // how far numbers on it are rounded

inline Numbers drawn(size_t count, float scale = 1) { return drawn<float>(count, scale); }
inline Numbers unwritten(size_t count) { return Numbers(count, NAN); }
inline void expect(float found, float expected, const char* what, float error = 2e-5f) {
  expect(double(found), double(expected), what, double(error));
}
