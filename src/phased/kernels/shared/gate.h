// The time gate (Eq. 6): phase, openness and its slopes. Scalar and dependency-free: compiled by the C++ compiler and by NVRTC alike.
// Every operation and its order is that of phased/gate.py, so both decide bit for bit alike who is open.
#pragma once

#ifdef __CUDACC__
#define PHASED_FUNCTION __host__ __device__ __forceinline__
#else
#include <math.h>
#define PHASED_FUNCTION inline __attribute__((always_inline))
#endif

namespace phased {

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

// A shape of the open phase: its openness k, and the derivatives of k to phi in units of 2 / r_on and to r_on in units of 1 / r_on, from k
// and from whether it rises there (phi < r_on / 2). V is a number or a vector of them, M a bool or a vector of them. Sums of the
// derivatives over all a unit's events become gradients by one multiplication each: see finish_gate.
struct Triangle {
  static constexpr const char* name = "triangle";
  template <class V>
  static PHASED_FUNCTION V openness(V phi, V r_on) {
    const V rise = 2 * phi / r_on;
    return phi < r_on / 2 ? rise : 2 - rise;
  }
  template <class M, class V>
  static PHASED_FUNCTION V to_phase(M rises, V k) {
    const V rising = k - k + 1;
    return rises ? rising : -rising;
  }
  template <class M, class V>
  static PHASED_FUNCTION V to_ratio(M rises, V k) {
    return rises ? -k : 2 - k;
  }
};

struct Square {
  static constexpr const char* name = "square";
  template <class V>
  static PHASED_FUNCTION V openness(V phi, V r_on) {
    const V rise = 2 * phi / r_on;
    return rise - rise + 1;  // 1, or NaN
  }
  template <class M, class V>
  static PHASED_FUNCTION V to_phase(M, V k) {
    return k - k;
  }
  template <class M, class V>
  static PHASED_FUNCTION V to_ratio(M, V k) {
    return k - k;
  }
};

// How far a gate of a shape is open (Eq. 6, right), for one unit or, V being a vector, for several, and the derivatives. NaN in gives NaN.
template <class Shape, class V>
PHASED_FUNCTION V openness(V phi, V r_on, double alpha) {
  const V closed = alpha * phi;
  return phi >= r_on ? closed : Shape::openness(phi, r_on);
}

template <class Shape, class V>
PHASED_FUNCTION V slope_to_phase(V phi, V k, V r_on, double alpha) {
  return phi < r_on ? Shape::to_phase(phi < r_on / 2, k) : alpha / 2 * r_on;
}

template <class Shape, class V>
PHASED_FUNCTION V slope_to_ratio(V phi, V k, V r_on) {
  return phi < r_on ? Shape::to_ratio(phi < r_on / 2, k) : phi - phi;
}

// The same for the GPU's kernels, which have these two shapes and are told at run time which it is.
template <class V>
PHASED_FUNCTION V openness(V phi, V r_on, double alpha, bool square) {
  const V rise = 2 * phi / r_on, full = rise - rise + 1, closed = alpha * phi;
  const V triangle = phi < r_on / 2 ? rise : 2 - rise;
  return phi >= r_on ? closed : (square ? full : triangle);
}

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

}  // namespace phased
