// The schedule, built on the GPU. A row is one step of one sequence, b * steps + j; its events are start[row] to start[row + 1].
#include "weights.h"

namespace phased {

// Whether a unit is open. A rough phase (rough.h) decides without a division, except within kBlur of where a gate opens or closes
// and for times more than kNearPeriods periods from zero.
struct RoughGate : Gate {
  double reach;

  explicit __device__ RoughGate(const Gate& gate) : Gate(gate), reach(kNearPeriods * gate.period) {}

  __device__ __forceinline__ bool open_at(double t) const {
    const double cycles = t * rate - lag, rough = cycles - floor(cycles);
    if (fabs(t) <= reach) {
      if (rough > 2 * kBlur && rough < ratio_on) return true;
      if (rough > ratio_on + 2 * kBlur) return false;
    }
    return !(phase(t, period, offset) >= ratio_on);  // a gate that is NaN is open, and its openness NaN
  }
};

constexpr int kStretch = PHASED_STRETCH;  // rows of a block
static_assert(kStretch == 2 * kLanes);  // find_open counts two rows a lane

// How many events a block's rows have, and the most that one of them has; after add_up, the prefix sum: how many events precede
// the block's.
union OfBlock {
  struct {
    int all, most;
  } own;
  Index before;
};

// The most events of a row, and the number of all events; after it in memory, an OfBlock for each block.
struct Found {
  Index most, all;

  __device__ __forceinline__ OfBlock* blocks() { return reinterpret_cast<OfBlock*>(this + 1); }
};

static_assert(sizeof(Found) == PHASED_FOUND_BYTES && sizeof(OfBlock) == PHASED_OF_BLOCK_BYTES);

// The slot in pinned memory where the CPU reads how many events there are; or null. Each number is written together with the mark
// of its launch, by which the CPU knows it, in whatever order it sees the two.
struct Slot {
  volatile Index* to;
  Index mark;

  __device__ __forceinline__ void report(Index most, Index all) const {
    if (to) to[0] = mark | most, to[1] = mark | all;
  }
};

// The prefix sum over the threads of a block: the sum of those before this thread, and the sum of all.
struct Scan {
  Index before, all;

  __device__ __forceinline__ Scan(Index own) {
    __shared__ Index sums[kLanes];
    const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
    Index sum = own;
    for (int apart = 1; apart < kLanes; apart *= 2) {
      const Index left = __shfl_up_sync(kAll, sum, apart);
      if (lane >= apart) sum += left;
    }
    __syncthreads();  // the old values have been read
    if (lane == kLanes - 1) sums[warp] = sum;
    __syncthreads();
    before = sum - own, all = 0;
    for (int w = 0; w < warps; w++) {
      if (w < warp) before += sums[w];
      all += sums[w];
    }
  }
};

// The maximum over the threads of a block. Called by all of them.
__device__ __forceinline__ int largest_of(int own) {
  __shared__ int largest;
  __syncthreads();
  if (threadIdx.x == 0) largest = 0;
  __syncthreads();
  own = __reduce_max_sync(kAll, own);
  if (threadIdx.x % kLanes == 0) atomicMax(&largest, own);
  __syncthreads();
  return largest;
}

// Packs the weights, and finds which units are open: a bit for each unit, by rows (rows, words), and by units (32 words, rows /
// 32); and in start[row + 1] the number of events from the block's first row on. A block has kStretch rows; a warp has 32 of
// them, and one or more words of 32 units. Blocks without rows only pack.
extern "C" __global__ void find_open(const Packing packing, const double* time, Index time_batch, Index time_step,
                                     const Index* lengths, Index batch, Index steps, unsigned* mask, unsigned* by_unit,
                                     Index* start, Found* found) {
  constexpr int kShare = kStretch / kLanes;  // warps for a word
  __shared__ double moments[kStretch];
  __shared__ bool is_data[kStretch];  // and not padding
  __shared__ int counts[kStretch];
  packing.pack(blockIdx.x * Index(blockDim.x) + threadIdx.x, Index(gridDim.x) * blockDim.x);
  const Index units = packing.units, words = (units + 31) / 32, rows = batch * steps, stretches = (rows + 31) / 32;
  const Index first = blockIdx.x * Index(kStretch);
  if (blockIdx.x == 0 && threadIdx.x == 0) start[0] = 0;
  if (first >= rows) return;
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  for (int i = threadIdx.x; i < kStretch; i += blockDim.x) {
    const Index b = (first + i) / steps, j = (first + i) % steps;
    is_data[i] = first + i < rows && (!lengths || j < lengths[b]);
    moments[i] = is_data[i] ? time[b * time_batch + j * time_step] : 0;
    counts[i] = 0;
  }
  __syncthreads();
  const int own = warp % kShare * kLanes;  // the first of the warp's rows
  for (Index w = warp / kShare; w < words && first + own < rows; w += warps / kShare) {
    const Index unit = w * 32 + lane;
    const RoughGate gate(packing.gate(unit < units ? unit : 0));
    unsigned bits = 0, row_bits = 0;
    for (int i = 0; i < kLanes; i++) {
      const double t = moments[own + i];
      const bool is_open = unit < units && is_data[own + i] && gate.open_at(t);
      const unsigned open = __ballot_sync(kAll, is_open);
      bits |= unsigned(is_open) << i;
      if (lane == i) row_bits = open;
    }
    if (first + own + lane < rows) mask[(first + own + lane) * words + w] = row_bits;
    if (row_bits) atomicAdd(&counts[own + lane], __popc(row_bits));
    by_unit[unit * stretches + (first + own) / 32] = bits;
  }
  __syncthreads();
  if (warp) return;
  // Two rows a lane.
  const int one = counts[2 * lane], two = counts[2 * lane + 1], most = __reduce_max_sync(kAll, one > two ? one : two);
  int sum = one + two;
  for (int apart = 1; apart < kLanes; apart *= 2) {
    const int left = __shfl_up_sync(kAll, sum, apart);
    if (lane >= apart) sum += left;
  }
  const Index row = first + 2 * lane;
  if (row < rows) start[row + 1] = sum - two;
  if (row + 1 < rows) start[row + 2] = sum;
  if (lane == kLanes - 1) found->blocks()[blockIdx.x].own = {sum, most};
}

// The prefix sum over the blocks' numbers of events, by one block. For few blocks `fill` computes it instead.
extern "C" __global__ void add_up(Found* found, Index blocks, const Slot slot) {
  Index done = 0;
  int most = 0;
  for (Index first = 0; first < blocks; first += blockDim.x) {
    const Index i = first + threadIdx.x;
    const OfBlock block = i < blocks ? found->blocks()[i] : OfBlock{};
    const Scan scan(block.own.all);
    if (i < blocks) found->blocks()[i].before = done + scan.before;
    done += scan.all, most = most > block.own.most ? most : block.own.most;
  }
  most = largest_of(most);
  if (threadIdx.x) return;
  found->most = most, found->all = done;
  slot.report(most, done);
}

// The Arrival of every event: unit, row and openness, and what bias and input add to its unit's products. A block has the same
// rows as in find_open, and finishes their `start`. It lists its events first, in the order of rows and units. Then a thread
// computes the openness of an event, and `lanes` threads, a power of two up to 8, its products with the input; or these are read
// from `products` (steps, batch, units, 4), if they are given. Without mask, start and found every unit has an event in every
// row. Unit and row are written to the tape only if it has capacity for all. Unless `added_up`, every block computes the prefix
// sum for itself, and the first one reports to the CPU.
extern "C" __global__ void fill(const double* time, Index time_batch, Index time_step, const double* all_gates, Index batch,
                                Index steps, Index units, double leak, Index square, const unsigned* mask, Index* start,
                                Found* found, const Real* x, Index x_step, Index x_batch, Index features, const Real* wx,
                                const Real* bias, const Real* products, Index lanes, int* unit_of, int* row_of, Index room, Arrival* arrivals,
                                Index added_up, const Slot slot) {
  constexpr int kListed = 1024;
  __shared__ int listed_unit[kListed], listed_row[kListed];
  __shared__ Index starts[kStretch + 1];  // counted from the block's first
  const Input input{x, x_step, x_batch, features};
  const Index words = (units + 31) / 32, first_row = blockIdx.x * Index(kStretch), left = batch * steps - first_row;
  const int rows = left < kStretch ? int(left) : kStretch;
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  Index first = first_row * units, all = first;  // without a schedule `all` is not used
  if (found && added_up) first = found->blocks()[blockIdx.x].before, all = found->all;
  if (found && !added_up) {
    Index before = 0, others = 0;
    int most = 0;
    for (Index i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
      const OfBlock block = found->blocks()[i];
      (i < blockIdx.x ? before : others) += block.own.all;
      most = most > block.own.most ? most : block.own.most;
    }
    first = Scan(before).all, all = first + Scan(others).all, most = largest_of(most);
    if (blockIdx.x == 0 && threadIdx.x == 0) found->most = most, found->all = all, slot.report(most, all);
  }
  const bool listing = unit_of && all <= room;
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
        const Index slot = at + __popc(open & ((1u << lane) - 1));
        if ((open >> lane & 1) && slot >= 0 && slot < kListed)
          listed_unit[slot] = static_cast<int>(w * 32 + lane), listed_row[slot] = static_cast<int>(row);
        at += __popc(open);
      }
    }
    __syncthreads();
    const int here = count - from < kListed ? int(count - from) : kListed;
    for (int i = threadIdx.x; i < here; i += blockDim.x) {
      const Index unit = listed_unit[i], row = listed_row[i], at = first + from + i;
      const double t = time[row / steps * time_batch + row % steps * time_step];
      const Gate gate = Gate::load(all_gates, units, unit);
      const double k = openness(phase(t, gate.period, gate.offset), gate.ratio_on, leak, square != 0);
      arrivals[at].head = {static_cast<int>(unit), static_cast<int>(row), static_cast<Real>(k)};
      if (listing) unit_of[at] = static_cast<int>(unit), row_of[at] = static_cast<int>(row);
      if (products) {
        const Four own = load_four(products + ((row % steps * batch + row / steps) * units + unit) * 4);
        store_four(arrivals[at].terms, own + load_four(bias + 4 * unit));
      }
    }
    if (products) continue;
    const int part = threadIdx.x % int(lanes);
    for (int base = 0; base < here; base += blockDim.x / int(lanes)) {  // whole warps, to the end
      const int i = base + threadIdx.x / int(lanes);
      const bool there = i < here;
      const Index unit = there ? listed_unit[i] : 0, row = there ? listed_row[i] : first_row;
      const Real *seen = input.row(row, steps), *w = wx + unit * 4 * features;
      Four sums = {};
      for (Index d = part; d < features; d += lanes)
        for (int g = 0; g < 4; g++) sums.v[g] += w[g * features + d] * seen[d];
      for (int apart = int(lanes) / 2; apart; apart /= 2)
        for (int g = 0; g < 4; g++) sums.v[g] += __shfl_xor_sync(kAll, sums.v[g], apart);
      if (there && !part) store_four(arrivals[first + from + i].terms, sums + load_four(bias + 4 * unit));
    }
  }
}

}  // namespace phased
