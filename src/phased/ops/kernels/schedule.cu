// The schedule, built on the GPU. A row is one step of one sequence, b * steps + j; its events are start[row] to start[row + 1].
#include "common.h"

namespace phased {

// A unit's gate, for telling roughly where in its cycle it is. A rough phase decides without a division, except within `blur` of where a
// gate opens or closes; `near` is how many periods from zero it is that good. See GateMemory in csrc for the bound.
struct RoughGate {
  double rate, lag, ratio_on, reach;

  __device__ RoughGate(const Gates& gates, Index unit, double near)
      : rate(gates.rate[unit]), lag(gates.lag[unit]), ratio_on(gates.ratio_on[unit]), reach(near * gates.period[unit]) {}

  __device__ __forceinline__ bool open_at(double t, double blur, const Gates& gates, Index unit) const {
    const double cycles = t * rate - lag, rough = cycles - floor(cycles);
    if (fabs(t) <= reach) {
      if (rough > 2 * blur && rough < ratio_on) return true;
      if (rough > ratio_on + 2 * blur) return false;
    }
    return phase(t, gates.period[unit], gates.offset[unit]) < ratio_on;
  }
};

constexpr int kStretch = 64;  // rows of a block

// What is found besides `start`: the most events of a row, how many there are in all, and how many before each block's rows. Until the last block
// has come, `all` counts blocks.
struct Found {
  unsigned long long most, all;
  Index before[1];
};

// Turns the blocks' numbers of events into how many come before each. By all threads of one block.
__device__ __forceinline__ void add_up(Found* found, Index blocks) {
  __shared__ Index sums[kLanes], done;
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  if (threadIdx.x == 0) done = 0;
  for (Index first = 0; first < blocks; first += blockDim.x) {
    const Index i = first + threadIdx.x;
    const Index own = i < blocks ? __ldcg(found->before + i) : 0;  // others wrote it
    Index sum = own;
    for (int apart = 1; apart < kLanes; apart *= 2) {
      const Index left = __shfl_up_sync(kAll, sum, apart);
      if (lane >= apart) sum += left;
    }
    if (lane == kLanes - 1) sums[warp] = sum;
    __syncthreads();
    Index before = done, all = done;
    for (int w = 0; w < warps; w++) {
      if (w < warp) before += sums[w];
      all += sums[w];
    }
    if (i < blocks) found->before[i] = before + sum - own;
    __syncthreads();
    if (threadIdx.x == 0) done = all;
  }
  if (threadIdx.x == 0) found->all = done;
}

// Which units are open: a bit each for every row, (rows, words), and a bit for every row each, (32 words, rows / 32); and in start[row + 1], how many
// from the block's first row on. A block has 64 rows, a warp 32 of them and a word of units, or every so many. The last block adds up.
extern "C" __global__ void find_open(const double* time, Index time_batch, Index time_step, const Index* lengths, const double* all_gates,
                                     Index batch, Index steps, Index units, double near, double blur, unsigned* mask, unsigned* by_unit,
                                     Index* start, Found* found) {
  constexpr int kShare = kStretch / kLanes;  // warps for a word
  __shared__ double moments[kStretch];
  __shared__ int counts[kStretch];
  __shared__ bool is_last;
  const Gates gates = gates_of(all_gates, units);
  const Index words = (units + 31) / 32, rows = batch * steps, stretches = (rows + 31) / 32, first = blockIdx.x * Index(kStretch);
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  const double nobody = __longlong_as_double(0x7ff8000000000000ll);  // a time at which no unit is open
  for (int i = threadIdx.x; i < kStretch; i += blockDim.x) {
    const Index b = (first + i) / steps, j = (first + i) % steps;
    moments[i] = first + i < rows && (!lengths || j < lengths[b]) ? time[b * time_batch + j * time_step] : nobody;
    counts[i] = 0;
  }
  __syncthreads();
  const int own = warp % kShare * kLanes;  // the first of the warp's rows
  for (Index w = warp / kShare; w < words && first + own < rows; w += warps / kShare) {
    const Index unit = w * 32 + lane;
    const RoughGate gate(gates, unit < units ? unit : 0, near);
    unsigned bits = 0, row_bits = 0;
    for (int i = 0; i < kLanes; i++) {
      const double t = moments[own + i];
      const bool is_open = unit < units && t == t && gate.open_at(t, blur, gates, unit);
      const unsigned open = __ballot_sync(kAll, is_open);
      bits |= unsigned(is_open) << i;
      if (lane == i) row_bits = open;
    }
    if (first + own + lane < rows) mask[(first + own + lane) * words + w] = row_bits;
    if (row_bits) atomicAdd(&counts[own + lane], __popc(row_bits));
    by_unit[unit * stretches + (first + own) / 32] = bits;
  }
  __syncthreads();
  if (warp == 0) {  // two rows a lane
    const int one = counts[2 * lane], two = counts[2 * lane + 1], largest = __reduce_max_sync(kAll, one > two ? one : two);
    int sum = one + two;
    for (int apart = 1; apart < kLanes; apart *= 2) {
      const int left = __shfl_up_sync(kAll, sum, apart);
      if (lane >= apart) sum += left;
    }
    const Index row = first + 2 * lane;
    if (row < rows) start[row + 1] = sum - two;
    if (row + 1 < rows) start[row + 2] = sum;
    if (lane == kLanes - 1) {
      found->before[blockIdx.x] = sum;
      if (largest) atomicMax(&found->most, static_cast<unsigned long long>(largest));
      __threadfence();
      is_last = atomicAdd(&found->all, 1ull) == gridDim.x - 1;
    }
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) start[0] = 0;
  __syncthreads();
  if (is_last) add_up(found, gridDim.x);
}

// What every event brings: its place and openness, and what bias and input add to its unit's products. A block has the rows it had in find_open, and
// finishes their `start`. Their events lie side by side; they are listed first, in the order of rows and units, then `lanes` threads, a power
// of two up to 32, take one each. Without mask, start and found every unit has an event in every row.
extern "C" __global__ void fill(const double* time, Index time_batch, Index time_step, const double* all_gates, Index batch, Index steps,
                                Index units, double leak, Index square, const unsigned* mask, Index* start, const Found* found, const Real* x,
                                Index x_step, Index x_batch, Index features, const Real* wx, const Real* bias, Index lanes, int* unit_of,
                                int* row_of, Arrival* arrivals) {
  constexpr int kListed = 1024;
  __shared__ int listed_unit[kListed], listed_row[kListed];
  __shared__ Index starts[kStretch + 1];  // counted from the block's first
  const Gates gates = gates_of(all_gates, units);
  const Input input{x, x_step, x_batch, features};
  const Index words = (units + 31) / 32, first_row = blockIdx.x * Index(kStretch), left = batch * steps - first_row;
  const int rows = left < kStretch ? int(left) : kStretch;
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  const Index first = found ? found->before[blockIdx.x] : first_row * units;
  for (int i = threadIdx.x; i <= rows; i += blockDim.x) {
    starts[i] = i == 0 ? 0 : start ? start[first_row + i] : i * units;
    if (start && i > 0) start[first_row + i] = first + starts[i];
  }
  __syncthreads();
  const Index count = starts[rows];
  for (Index from = 0; from < count; from += kListed) {
    __syncthreads();
    for (int r = warp; r < rows; r += warps) {
      Index at = starts[r] - from;
      if (at >= kListed || starts[r + 1] <= from) continue;
      const Index row = first_row + r;
      for (Index w = 0; w < words; w++) {
        const unsigned open = mask ? mask[row * words + w] : units - w * 32 < 32 ? (1u << (units - w * 32)) - 1 : kAll;
        const Index place = at + __popc(open & ((1u << lane) - 1));
        if ((open >> lane & 1) && place >= 0 && place < kListed)
          listed_unit[place] = static_cast<int>(w * 32 + lane), listed_row[place] = static_cast<int>(row);
        at += __popc(open);
      }
    }
    __syncthreads();
    const int here = count - from < kListed ? int(count - from) : kListed, part = threadIdx.x % int(lanes);
    for (int base = 0; base < here; base += blockDim.x / int(lanes)) {  // whole warps, to the end
      const int i = base + threadIdx.x / int(lanes);
      const bool there = i < here;
      const Index unit = there ? listed_unit[i] : 0, row = there ? listed_row[i] : first_row;
      const Real *seen = input.row(row, steps), *w = wx + unit * 4 * features;
      Real sums[4] = {};
      for (Index d = part; d < features; d += lanes)
        for (int g = 0; g < 4; g++) sums[g] += w[g * features + d] * seen[d];
      for (int apart = int(lanes) / 2; apart; apart /= 2)
        for (int g = 0; g < 4; g++) sums[g] += __shfl_xor_sync(kAll, sums[g], apart);
      if (!there || part) continue;
      const double t = time[row / steps * time_batch + row % steps * time_step];
      const double k = openness(phase(t, gates.period[unit], gates.offset[unit]), gates.ratio_on[unit], leak, square != 0);
      const Four add = load_four(bias + 4 * unit);
      Arrival& to = arrivals[first + from + i];
      to.head = {static_cast<int>(unit), static_cast<int>(row), static_cast<Real>(k)};
      store_four(to.terms, Four{sums[0] + add.v[0], sums[1] + add.v[1], sums[2] + add.v[2], sums[3] + add.v[3]});
      if (unit_of) unit_of[first + from + i] = static_cast<int>(unit), row_of[first + from + i] = static_cast<int>(row);
    }
  }
}

}  // namespace phased
