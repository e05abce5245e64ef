// CUDA's words for a CPU's threads: where a thread is, barriers, and exchanges between the lanes of a warp. Before the kernels.
#pragma once

#include <pthread.h>

#define __device__
#define __global__
#define __shared__
#define __align__(bytes)
#define __forceinline__ inline
#define __launch_bounds__(threads)

struct alignas(16) int4 {
  int x, y, z, w;
};
struct Place3 {
  int x;
};
static thread_local Place3 threadIdx, blockIdx;
static Place3 blockDim;
static pthread_barrier_t all, warps[32], teams[16];

inline void __syncthreads() { pthread_barrier_wait(&all); }
inline void __syncwarp() { pthread_barrier_wait(warps + threadIdx.x / 32); }

// What lane `from` of the thread's warp gives.
template <class T>
T exchanged(T value, int from) {
  static T sent[32][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  sent[warp][lane] = value;
  pthread_barrier_wait(warps + warp);
  const T found = sent[warp][from];
  pthread_barrier_wait(warps + warp);
  return found;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int apart) {
  return exchanged(value, threadIdx.x % 32 ^ apart);
}
template <class T>
T __shfl_sync(unsigned, T value, int from) {
  return exchanged(value, from);
}
inline unsigned __ballot_sync(unsigned, bool value) {
  unsigned bits = 0;
  for (int lane = 0; lane < 32; lane++) bits |= unsigned(exchanged(value, lane)) << lane;
  return bits;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
