// Which units are open in a row, a bit each, in words of 32 units.
#pragma once

#include "common.h"

namespace phased {

// The transpose of 32 by 32 bits, a word a lane: bit i of lane j becomes bit j of lane i.
__device__ __forceinline__ unsigned transposed(unsigned bits) {
  const int lane = threadIdx.x % kLanes;
  unsigned kept = 0x0000ffffu;  // bits that stay in lanes without `apart`
#pragma unroll
  for (int apart = kLanes / 2; apart; apart /= 2, kept ^= kept << apart) {
    const unsigned other = __shfl_xor_sync(kAll, bits, apart);
    bits = lane & apart ? (bits & ~kept) | (other & ~kept) >> apart : (bits & kept) | (other & kept) << apart;
  }
  return bits;
}

// How many units are open in the first `count` words of a row. Called by whole warps.
__device__ __forceinline__ int open_in(const unsigned* words, int count, int lane) {
  int open = 0;
  for (int w = lane; w < count; w += kLanes) open += __popc(words[w]);
  return __reduce_add_sync(kAll, open);
}

}  // namespace phased
