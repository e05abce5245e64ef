// A rough phase, the fraction of t / period - shift / period without whole periods taken off first, and how wrong it can be.
// Compiled by the C++ compiler and by NVRTC alike.
#pragma once

namespace phased {

// It is off by at most 2**-52 of the periods counted, and twice that for 1 / period and shift / period: less than kBlur of a
// cycle for times up to kNearPeriods periods from zero.
constexpr double kBlur = 1.0 / (1 << 11), kNearPeriods = 549755813888.0;  // 2**-11, 2**39

}  // namespace phased
