// What needs instructions of a GPU: fast functions, asynchronous copies and barriers. Tests run kernels on a CPU's threads, with
// another file of this name.
#pragma once

namespace phased {

// The error of both is about the rounding of 1, 1e-7. As few dependent instructions as possible.
__device__ __forceinline__ float sigmoid(float x) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-1.4426950408889634f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
}
__device__ __forceinline__ double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }
__device__ __forceinline__ float tanh(float x) {
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(2.8853900817779268f * x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return 1.0f - 2.0f * result;
}
__device__ __forceinline__ double tanh(double x) { return ::tanh(x); }

// Two numbers of 16 bits, as bits: bfloat16 with PHASED_TAPE 1, float16 with 2. Both are rounded to the nearest, ties to even.
#if PHASED_TAPE == 1
__device__ __forceinline__ unsigned rounded_pair(float low, float high) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ void widen_pair(unsigned bits, float& low, float& high) {
  low = __uint_as_float(bits << 16), high = __uint_as_float(bits & 0xffff0000u);
}
#elif PHASED_TAPE == 2
__device__ __forceinline__ unsigned rounded_pair(float low, float high) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
__device__ __forceinline__ void widen_pair(unsigned bits, float& low, float& high) {
  asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }" : "=f"(low), "=f"(high) : "r"(bits));
}
#endif
__device__ __forceinline__ bool has_sign(float x) { return __float_as_int(x) < 0; }  // -0 has one

// The two halves of a number's bits, and a number of an upper half.
__device__ __forceinline__ unsigned low_word(double x) { return static_cast<unsigned>(__double2loint(x)); }
__device__ __forceinline__ unsigned high_word(double x) { return static_cast<unsigned>(__double2hiint(x)); }
__device__ __forceinline__ double of_high_word(unsigned word) { return __hiloint2double(static_cast<int>(word), 0); }

// Asynchronous copies to shared memory.
__device__ __forceinline__ void copy_ahead(void* to_shared, const void* from, int bytes) {
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(to_shared));
  if (bytes == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  if (bytes == 8) asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
  if (bytes == 4) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void end_of_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Left>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

// Brings the 128 bytes around an address to the L2 cache.
__device__ __forceinline__ void bring_near(const void* from) { asm volatile("prefetch.global.L2 [%0];" ::"l"(from)); }

// An address in shared memory that stays in a register. Otherwise the compiler computes it anew at each use, from a special
// register that takes long to read.
template <class T>
__device__ __forceinline__ T* fixed(T* in_shared) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(in_shared));
  asm volatile("" : "+r"(address));
  return static_cast<T*>(__cvta_shared_to_generic(address));
}

// A number that is the same in all lanes of a warp, all of which call this: it stays in a register. A kernel's argument would
// otherwise be read anew at each use.
__device__ __forceinline__ int of_warp(int number) { return __shfl_sync(0xffffffffu, number, 0); }

// A number that is loaded now. Otherwise it may be loaded only when it is clear that it is used.
__device__ __forceinline__ float loaded(float number) {
  asm volatile("" : "+f"(number));
  return number;
}
__device__ __forceinline__ double loaded(double number) {
  asm volatile("" : "+d"(number));
  return number;
}

// Waits until so many threads of a block have come to the barrier of this number.
template <int Threads>
__device__ __forceinline__ void barrier(int number) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(Threads) : "memory");
}

// Memory by which blocks that run at once exchange numbers. What has not been written has all bits set. That is a NaN; one that is
// published has other bits.
__device__ __forceinline__ float unwritten() { return __uint_as_float(0xffffffffu); }
__device__ __forceinline__ bool is_written(float number) { return __float_as_uint(number) != 0xffffffffu; }
__device__ __forceinline__ float as_written(float number) { return is_written(number) ? number : __uint_as_float(0x7fffffffu); }

__device__ __forceinline__ void publish(float* to, float number) {
  asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(to), "f"(as_written(number)) : "memory");
}
__device__ __forceinline__ void publish_four(float* to, const float v[4]) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(as_written(v[0])), "f"(as_written(v[1])),
               "f"(as_written(v[2])), "f"(as_written(v[3]))
               : "memory");
}
__device__ __forceinline__ float look_up(const float* from) {
  float number;
  asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(number) : "l"(from) : "memory");
  return number;
}
__device__ __forceinline__ void look_up_four(float to[4], const float* from) {
  asm volatile("ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
               : "l"(from)
               : "memory");
}

}  // namespace phased
