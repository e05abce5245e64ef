// The time gate (Eq. 6): phase, openness and its slopes. Scalar and dependency-free: compiled by the C++ compiler and by NVRTC alike.
// Every operation and its order is that of phased/gate.py, so both decide bit for bit alike who is open.
#pragma once

#ifdef __CUDACC__
#define PHASED_FUNCTION __host__ __device__ __forceinline__
#else
#include <math.h>
#define PHASED_FUNCTION static inline __attribute__((always_inline))
#endif

namespace phased {

enum class Shape : int { triangle = 0, square = 1 };

// What is left of a time after whole periods, exactly. The fused multiply-add does it while `whole` is exact, to 2**52 periods.
PHASED_FUNCTION double rest_of(double t, double tau) {
  double rest;
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__CUDACC__)  // Clang does not define FP_FAST_FMA
  const double whole = floor(t / tau);
  rest = fabs(whole) < 4503599627370496.0 ? fma(-whole, tau, t) : fmod(t, tau);
#else
  rest = fmod(t, tau);
#endif
  return rest < 0 ? rest + tau : rest;
}

// Position in the cycle, in [0, 1); `offset` is what rest_of leaves of the shift.
PHASED_FUNCTION double phase(double t, double tau, double offset) {
  const double cycles = (rest_of(t, tau) - offset) / tau, phi = cycles - floor(cycles);
  return phi >= 1 ? phi - 1 : phi;
}

// How far the gate is open (Eq. 6, right), for one unit or, V being a vector, for several. NaN in gives NaN.
template <class V>
PHASED_FUNCTION V openness(V phi, V r_on, double alpha, bool square) {
  const V rise = 2 * phi / r_on, full = rise - rise + 1, closed = alpha * phi;
  const V triangle = phi < r_on / 2 ? rise : 2 - rise;
  return phi >= r_on ? closed : (square ? full : triangle);
}

// The derivatives of the openness k: to phi in units of 2 / r_on, to r_on in units of 1 / r_on. Sums of these over all a unit's
// events become gradients by one multiplication each: see finish_gate.
template <class V>
PHASED_FUNCTION V slope_to_phase(V phi, V r_on, double alpha, bool square) {
  const V none = phi - phi, rising = none + 1;
  const V triangle = phi < r_on / 2 ? rising : -rising;
  return phi < r_on ? (square ? none : triangle) : alpha / 2 * r_on;
}

template <class V>
PHASED_FUNCTION V slope_to_ratio(V phi, V k, V r_on, bool square) {
  const V none = phi - phi;
  const V triangle = phi < r_on / 2 ? -k : 2 - k;
  return phi < r_on ? (square ? none : triangle) : none;
}

// The slope an open unit is on: all its derivatives need beside k, and small enough to keep with every event.
enum class Side : int { rising = 0, falling = 1, flat = 2 };

PHASED_FUNCTION double slope_to_phase(Side side) { return side == Side::rising ? 1.0 : side == Side::falling ? -1.0 : 0.0; }
PHASED_FUNCTION double slope_to_ratio(Side side, double k) { return side == Side::rising ? -k : side == Side::falling ? 2 - k : 0.0; }

}  // namespace phased
