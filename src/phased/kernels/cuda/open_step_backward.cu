// Backwards, one step of a layer with many units, over its open events: the mirror of open_step_forward.cu, in two launches.
#include "bits.h"
#include "steps.h"

namespace phased {

constexpr int kThreads = PHASED_THREADS;
static_assert(kThreads == kWarps * kLanes);

// The cells of a step; a thread has a unit of a sequence. To the gradient to h, in p.to_h (batch, units), are added that
// to the output and what the step after it has given (splits, batch, units), if that is not null. `shares` (batch, units, 4): the
// gradients to the products of open units. Without a step, -1, only what the first step has given is added.
extern "C" __global__ void __launch_bounds__(PHASED_THREADS)
    open_step_cells(const Backward p, Index step, const Real* given, Index splits, Real* shares) {
  const int unit = int(blockIdx.x) * kThreads + threadIdx.x, units = int(p.units), words = (units + 31) / 32, word = unit / 32;
  const int lane = threadIdx.x % kLanes, bit = unit % 32;
  for (Index b = blockIdx.y; b < p.batch; b += gridDim.y) {
    const Index row = b * p.steps + step, i = b * units + unit;
    const unsigned* const mask = p.mask + row * words;
    const unsigned own = step >= 0 && word < words ? mask[word] : 0;  // a warp has one word
    const int before = own ? open_in(mask, word, lane) : 0;
    if (unit >= units) continue;
    Real to_h = p.to_h[i];
    for (Index s = 0; given && s < splits; s++) to_h += given[(s * p.batch + b) * units + unit];
    if (p.to_output && step >= 0 && step < length_of(p, b)) to_h += p.to_output[step * p.output_step + b * p.output_batch + unit];
    if (own >> bit & 1) {
      const Index event = p.start[row] + before + __popc(own & ((1u << bit) - 1));
      Real record[kRecord], w[3] = {}, to_c = Cell::has_c ? p.to_c[i] : Real(0);
      p.tape[event].read(record);
      peepholes(p.peephole, units, unit, w);
      const Shares share(record, w, to_h, to_c);
      share.write(p, event);
      store_four(shares + 4 * i, share.products);
      if (Cell::has_c) p.to_c[i] = to_c;
    }
    p.to_h[i] = to_h;
  }
}

// What the products of a step's events give to the gradients to h. A block has 128 columns, some of the units and up to
// kTogether sequences, for which each of its warps sums in shared memory; a warp has words of 32 units in turn, and loads the weights
// of four open units at a time. The sums of all warps go to `given` (splits, batch, units).
constexpr int kTogether = PHASED_OPEN_SEQUENCES, kUnits = 4;
static_assert(kTogether <= kLanes);

extern "C" __global__ void __launch_bounds__(PHASED_THREADS)
    open_step_sums(const Backward p, Index step, const Real* shares, Real* given) {
  extern __shared__ __align__(16) unsigned char shared[];
  typedef Four Sums[kTogether][kLanes];
  Sums* const all = reinterpret_cast<Sums*>(shared);
  static_assert(sizeof(Sums) == PHASED_OPEN_SUMS_BYTES);
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, units = int(p.units), pitch = int(p.pitch);
  const int words = (units + 31) / 32, first_column = int(blockIdx.x) * 128, column = first_column + 4 * lane;
  const Index first = Index(blockIdx.z) * kTogether, b = first + lane;
  const bool there = lane < kTogether && b < p.batch;
#pragma unroll
  for (int s = 0; s < kTogether; s++) all[warp][s][lane] = Four{};
  for (int w = int(blockIdx.y) * kWarps + warp; w < words; w += int(gridDim.y) * kWarps) {
    // Of unit 32 w + lane: the sequences in which it is open, a bit each.
    const unsigned of_unit = transposed(there ? p.mask[(b * p.steps + step) * words + w] : 0);
    unsigned left = __ballot_sync(kAll, of_unit != 0);
    while (left) {
      Rows rows[kUnits];
      Four share[kUnits];
      unsigned open[kUnits];
#pragma unroll
      for (int n = 0; n < kUnits; n++) {
        const int u = left ? __ffs(left) - 1 : 0, unit = 32 * w + u;
        open[n] = __shfl_sync(kAll, of_unit, u);
        if (!left) open[n] = 0;
        left &= left - 1;
        if (open[n]) rows[n].load(p.wh, unit, pitch, column);
        if (open[n] >> lane & 1) share[n] = load_four(shares + 4 * (b * units + unit));
      }
#pragma unroll
      for (int n = 0; n < kUnits; n++)
        for (unsigned some = open[n]; some; some &= some - 1) {
          const int s = __ffs(some) - 1;
          Real by[4];
#pragma unroll
          for (int g = 0; g < 4; g++) by[g] = __shfl_sync(kAll, share[n].v[g], s);
          Four sum = all[warp][s][lane];
          rows[n].add_to(sum, by);
          all[warp][s][lane] = sum;
        }
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kTogether * kLanes; i += kThreads) {
    const int s = i / kLanes, at = first_column + 4 * (i % kLanes);
    if (first + s >= p.batch) break;
    Four sum = all[0][s][i % kLanes];
#pragma unroll
    for (int w = 1; w < kWarps; w++) sum = sum + all[w][s][i % kLanes];
    Real* const to = given + (blockIdx.y * p.batch + first + s) * units + at;
    for (int l = 0; l < 4; l++)
      if (at + l < units) to[l] = sum.v[l];
  }
}

}  // namespace phased
