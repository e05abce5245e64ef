// What this x86 CPU can run, read from the CPUID instruction. GCC's __builtin_cpu_supports would do, but Clang's needs a runtime
// library that is not linked into every shared library.
#pragma once

#include <cpuid.h>

#include <cstdint>

namespace phased {

struct CpuFeatures {
  bool avx2 = false, avx512 = false;  // x86-64-v3 and x86-64-v4, as the engines are compiled for

  static CpuFeatures detect() {
    CpuFeatures found;
    const Registers basic = leaf(1), extended = leaf(7), amd = leaf(0x80000001);
    if (!all(basic.ecx, {12, 22, 27, 28, 29})) return found;  // fma, movbe, osxsave, avx, f16c
    const uint64_t saved = saved_by_system();
    found.avx2 = all(saved, {1, 2}) && all(extended.ebx, {3, 5, 8}) && all(amd.ecx, {5});  // xmm, ymm; bmi1, avx2, bmi2; lzcnt
    found.avx512 =
        found.avx2 && all(saved, {5, 6, 7}) && all(extended.ebx, {16, 17, 28, 30, 31});  // k, zmm; avx512 f, dq, cd, bw, vl
    return found;
  }

 private:
  struct Registers {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  };
  // Zeros where the CPU has no such leaf.
  static Registers leaf(unsigned number) {
    Registers r;
    if (!__get_cpuid_count(number, 0, &r.eax, &r.ebx, &r.ecx, &r.edx)) r = {};
    return r;
  }
  // The registers that the operating system saves for a process; needs osxsave.
  static uint64_t saved_by_system() {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return uint64_t(high) << 32 | low;
  }
  template <int N>
  static bool all(uint64_t bits, const int (&wanted)[N]) {
    for (int bit : wanted)
      if (!(bits >> bit & 1)) return false;
    return true;
  }
};

}  // namespace phased
