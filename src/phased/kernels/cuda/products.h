// A unit's rows of weights, as a warp reads them: forwards for its four products with h, backwards for what they add to h's
// gradient.
#pragma once

#include "common.h"

namespace phased {

constexpr int kBlocksAtOnce = PHASED_BLOCKS_AT_ONCE;  // blocks of a row that a warp has in registers at once, at most
constexpr int kQuads = 4 * (kBlocks < kBlocksAtOnce ? kBlocks : kBlocksAtOnce);  // fours of a row in a lane's registers at once
constexpr int kColumns = 32 * kQuads;  // eight lanes share a row: columns they have at once

// Forwards: some columns of the row that a lane's eight share: lanes 8 g to 8 g + 7 have product g.
struct Part {
  Four w[kQuads];

  // `Whole`: the columns that lanes have at once divide a row, so that all of them exist.
  template <bool Whole = false>
  __device__ __forceinline__ void load(const Real* weights, int unit, int pitch, int lane, int column = 0) {
    const int first = column + 4 * (lane % 8);
    const Real* const from = weights + (lane / 8 * pitch + first) + unit * (4 * pitch);
#pragma unroll
    for (int i = 0; i < kQuads; i++) w[i] = Whole || first + 32 * i < pitch ? load_four(from + 32 * i) : Four{};
  }
  __device__ __forceinline__ void add_to(Four& sum, const Real* h, int lane, int column = 0) const {
#pragma unroll
    for (int i = 0; i < kQuads; i++) {
      const Four x = load_four(h + column + 4 * (lane % 8) + 32 * i);
      for (int l = 0; l < 4; l++) sum.v[l] += w[i].v[l] * x.v[l];
    }
  }
};

// Product g of a unit with h, in each of the eight lanes that share it; `part` has its first columns.
template <bool Whole = false>
__device__ __forceinline__ Real product(Part& part, const Real* weights, int unit, const Real* h, int pitch, int lane) {
  Four sum = {};
  part.add_to(sum, h, lane);
  if (kBlocks > kBlocksAtOnce)
    for (int column = kColumns; column < pitch; column += kColumns) {
      part.load<Whole>(weights, unit, pitch, lane, column);
      part.add_to(sum, h, lane, column);
    }
  Real all = (sum.v[0] + sum.v[1]) + (sum.v[2] + sum.v[3]);
  for (int apart = 4; apart; apart /= 2) all += __shfl_xor_sync(kAll, all, apart);
  return all;
}

// Backwards: a lane's four columns of all four rows, from a block of 128 columns.
struct Rows {
  Four g[4];

  // `Whole`: all of these columns exist.
  template <bool Whole = false>
  __device__ __forceinline__ void load(const Real* weights, int unit, int pitch, int q) {
    const Real* const rows = weights + q + unit * (4 * pitch);
    for (int i = 0; i < 4; i++) g[i] = Whole || q < pitch ? load_four(rows + i * pitch) : Four{};
  }
  __device__ __forceinline__ void add_to(Four& sum, const Real a[4]) const {
    for (int i = 0; i < 4; i++)
      for (int l = 0; l < 4; l++) sum.v[l] += a[i] * g[i].v[l];
  }
};

}  // namespace phased
