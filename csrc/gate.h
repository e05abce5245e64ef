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
#if defined(FP_FAST_FMA) || defined(__CUDACC__)
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

// Where in its cycle a unit is: what its openness comes from, and all that its derivatives need beside it.
enum class Side : int { closed = 0, rising = 1, falling = 2, flat = 3 };

PHASED_FUNCTION Side side(double phi, double r_on, Shape shape) {
  if (!(phi < r_on)) return Side::closed;
  if (shape == Shape::square) return Side::flat;
  return phi < r_on / 2 ? Side::rising : Side::falling;
}

PHASED_FUNCTION double openness(double phi, double r_on, double alpha, Shape shape) {
  const double rise = 2 * phi / r_on, closed = alpha * phi;
  if (shape == Shape::square) return phi < r_on ? 1.0 : closed;
  return phi < r_on / 2 ? rise : phi < r_on ? 2 - rise : closed;
}

// The derivatives of the openness k: to phi in units of 2 / r_on, to r_on in units of 1 / r_on. Sums of these, over all a unit's
// events, become gradients by one multiplication each: see finish_gate.
PHASED_FUNCTION double slope_to_phase(Side side, double r_on, double alpha) {
  return side == Side::rising ? 1.0 : side == Side::falling ? -1.0 : side == Side::closed ? alpha * r_on / 2 : 0.0;
}

PHASED_FUNCTION double slope_to_ratio(Side side, double k) { return side == Side::rising ? -k : side == Side::falling ? 2 - k : 0.0; }

}  // namespace phased
