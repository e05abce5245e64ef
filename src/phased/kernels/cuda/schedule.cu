// The schedule, built on the GPU. A row is one step of one sequence, b * steps + j; its events are start[row] to start[row + 1].
#include "bits.h"
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

// The same for nearly all rows by one multiply-add and two comparisons of integers. A number as large as kBase has steps of 1 /
// kCycle: the lowest bits of t / period - shift / period + kBase are the phase in kCycle steps. They are off by less than two
// steps for times and shifts up to kFar periods from zero: one by the roundings of the sum and of its constant, and 2**-20 of a
// cycle by those of 1 / period and shift / period. Where kMargin steps would change the decision, it is left to RoughGate.
struct FixedGate {
  static constexpr unsigned kCycle = 1u << 18, kMargin = 4;
  static constexpr unsigned kInfinite = 0x7ff00000u;  // the upper half of infinity's bits; that of a NaN is not smaller
  static constexpr double kBase = 1.5 * 17179869184.0, kFar = 4294967296.0;  // 1.5 * 2**34: half a step is 2**-19; 2**32
  double rate, from, reach;
  unsigned width, closed;  // steps surely open, from 2 * kMargin on; the first surely closed, 0 for a unit that does not exist

  __device__ __forceinline__ FixedGate(const Packing& packing, Index unit) {
    const bool there = unit < packing.units;
    const Index own = there ? unit : 0;
    const double tau = packing.period_of(own), r_on = packing.ratio_of(own), shift = packing.shift[own];
    rate = 1 / tau, reach = kFar * tau;
    const double lag = shift * rate;
    from = kBase + double(kMargin) / kCycle - (lag - floor(lag));
    if (!(fabs(shift) <= reach && r_on <= 1)) reach = -1;  // also if one of them is NaN
    const unsigned last = static_cast<unsigned>(r_on * kCycle);
    width = there && last >= 2 * kMargin ? last - 2 * kMargin + 1 : 0;
    closed = there ? last + 2 * kMargin : 0;
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

// Packs the weights, and finds which units are open: a bit for each unit, by rows (rows, words); and in start[row + 1] the number
// of events from the block's first row on. A block has kStretch rows; a warp has one or more words of 32 units and, where there
// are fewer words than warps, half of the rows. Blocks without rows only pack.
extern "C" __global__ void find_open(const Packing packing, const double* time, Index time_batch, Index time_step,
                                     const Index* lengths, Index batch, Index steps, unsigned* mask, Index* start, Found* found) {
  __shared__ double moments[kStretch];
  __shared__ unsigned data[kStretch / kLanes];  // a bit for each row that is not padding
  __shared__ int counts[kStretch];
  packing.pack(blockIdx.x * Index(blockDim.x) + threadIdx.x, Index(gridDim.x) * blockDim.x);
  const int units = int(packing.units), words = (units + 31) / 32;
  const unsigned rows = unsigned(batch * steps), first = blockIdx.x * unsigned(kStretch);
  if (blockIdx.x == 0 && threadIdx.x == 0) start[0] = 0;
  if (blockIdx.x * Index(kStretch) >= rows) return;
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  const int share = words < warps ? 2 : 1;  // warps for a word
  int w = warp / share;
  FixedGate gate(packing, w * 32 + lane);  // its loads overlap with those of the times
  for (int i = threadIdx.x; i < kStretch; i += blockDim.x) {
    const unsigned row = first + i < rows ? first + i : rows - 1, b = row / unsigned(steps), j = row % unsigned(steps);
    const double moment = time[b * time_batch + j * time_step];
    const bool is_data = first + i < rows && (!lengths || Index(j) < lengths[b]);
    moments[i] = is_data ? moment : 0;
    const unsigned bits = __ballot_sync(kAll, is_data);
    if (lane == 0) data[i / kLanes] = bits;
    counts[i] = 0;
  }
  __syncthreads();
  for (; w < words; w += warps / share) {
    const int unit = w * 32 + lane;
    for (int half = warp % share; half < kStretch / kLanes; half += share) {
      const int own = half * kLanes;  // the first of these rows
      const unsigned farthest = __reduce_max_sync(kAll, high_word(fabs(moments[own + lane])));
      unsigned open = 0, maybe = 0;
      if (farthest < FixedGate::kInfinite && of_high_word(farthest + 1) <= gate.reach) {
#pragma unroll
        for (int i = 0; i < kLanes; i++) {
          const unsigned step = low_word(fma(moments[own + i], gate.rate, gate.from)) & (FixedGate::kCycle - 1);
          if (step - 2 * FixedGate::kMargin < gate.width) open |= 1u << i;
          if (step < gate.closed) maybe |= 1u << i;
        }
      } else {
        maybe = gate.closed ? kAll : 0;
      }
      const unsigned rest = maybe & ~open & data[half];
      open &= data[half];
      if (rest) {
        const RoughGate exact(packing.gate(unit));
        for (unsigned left = rest; left; left &= left - 1) {
          const int i = __ffs(left) - 1;
          open |= unsigned(exact.open_at(moments[own + i])) << i;
        }
      }
      open = transposed(open);
      if (first + own + lane < rows) mask[Index(first + own + lane) * words + w] = open;
      if (open) atomicAdd(&counts[own + lane], __popc(open));
    }
    gate = FixedGate(packing, (w + warps / share) * 32 + lane);
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
  const Index row = Index(first) + 2 * lane;
  if (row < rows) start[row + 1] = sum - two;
  if (row + 1 < rows) start[row + 2] = sum;
  if (lane == kLanes - 1) found->blocks()[blockIdx.x].own = {sum, most};
}

// The prefix sum over the blocks' numbers of events, by one block: a thread has some that follow one another. For few blocks
// `fill` computes it instead.
extern "C" __global__ void add_up(Found* found, Index blocks, const Slot slot) {
  const Index each = (blocks + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
  const Index end = first + each < blocks ? first + each : blocks;
  OfBlock* const of = found->blocks();
  Index own = 0;
  int most = 0;
#pragma unroll 8
  for (Index i = first; i < end; i++) {
    const OfBlock block = of[i];
    own += block.own.all, most = most > block.own.most ? most : block.own.most;
  }
  const Scan scan(own);
  Index before = scan.before;
#pragma unroll 8
  for (Index i = first; i < end; i++) {
    const int all = of[i].own.all;
    of[i].before = before, before += all;
  }
  most = largest_of(most);
  if (threadIdx.x) return;
  found->most = most, found->all = scan.all;
  slot.report(most, scan.all);
}

// Bytes that a thread writes at once.
struct alignas(16) Sixteen {
  unsigned words[4];
};

constexpr int kRowBits = 6;
static_assert(kStretch == 1 << kRowBits);

// What input and bias add to the four products of listed events: `Lanes` threads have an event, each every Lanes-th feature. They
// exchange their sums so that each adds up one of the four, half of the threads if there are eight.
template <int Lanes>
__device__ __forceinline__ void multiply_input(const unsigned* listed, int count, const Real* const* seen, const Real* wx,
                                               const Real* bias, int inputs, Arrival* made) {
  const int part = threadIdx.x % Lanes, groups = blockDim.x / Lanes;
  const bool upper = part & Lanes / 2, odd = part & Lanes / 4;
  for (int base = 0; base < count; base += groups) {  // whole warps, to the end
    const int i = base + threadIdx.x / Lanes;
    const unsigned event = listed[i < count ? i : 0];
    const int unit = int(event >> kRowBits);
    const Real *x = seen[event % kStretch] + part, *w = wx + (Index(unit) * inputs + part) * 4;
    Four sums = {};
#pragma unroll 4
    for (int d = part; d < inputs; d += Lanes, x += Lanes, w += 4 * Lanes) {
      const Four weight = load_four(w);
      for (int g = 0; g < 4; g++) sums.v[g] += weight.v[g] * *x;
    }
    Real two[2];
    for (int n = 0; n < 2; n++) {
      const Real given = __shfl_xor_sync(kAll, upper ? sums.v[n] : sums.v[n + 2], Lanes / 2);
      two[n] = (upper ? sums.v[n + 2] : sums.v[n]) + given;
    }
    Real one = __shfl_xor_sync(kAll, odd ? two[0] : two[1], Lanes / 4);
    one += odd ? two[1] : two[0];
    if (Lanes == 8) one += __shfl_xor_sync(kAll, one, 1);
    const int product = 2 * upper + odd;
    if (i < count && (Lanes == 4 || part % 2 == 0)) made[i].terms[product] = one + bias[4 * unit + product];
  }
}

// The Arrival of every event: unit, row and openness, and what bias and input add to its unit's products. A block has the same
// rows as in find_open, and finishes their `start`. It lists its events first, in the order of rows and units. Then a thread
// computes the openness of an event, and `lanes` threads (1, 4 or 8) its products with the input; or these are read from
// `products` (steps, batch, units, 4), if they are given. Without mask, start and found every unit has an event in every
// row. Unit and row are written to the tape only if it has capacity for all, and nothing is written unless `arrivals` has. Unless
// `added_up`, every block computes the prefix sum for itself, and the first one reports to the CPU.
extern "C" __global__ void __launch_bounds__(128, 8)
    fill(const double* time, Index time_batch, Index time_step, const double* all_gates, Index batch, Index steps, Index units,
         double leak, Index square, const unsigned* mask, Index* start, Found* found, const Real* x, Index x_step, Index x_batch,
         Index features, const Real* wx, const Real* bias, const Real* products, Index lanes, int* unit_of, int* row_of,
         Index room, Arrival* arrivals, Index capacity, Index added_up, const Slot slot) {
  constexpr int kListed = 384, kParts = sizeof(Arrival) / sizeof(Sixteen);
  __shared__ unsigned listed[kListed];  // an event's unit << kRowBits | its row of the block's
  __shared__ Arrival made[kListed];  // written to memory together, so that each of a warp's stores fills whole sectors
  __shared__ int starts[kStretch + 1];  // counted from the block's first
  __shared__ double moments[kStretch];
  __shared__ const Real* seen[kStretch];  // a row's input, or its `products`
  const int width = int(units), words = (width + 31) / 32, count_of_steps = int(steps), inputs = int(features);
  const int first_row = blockIdx.x * kStretch;
  const Index left = batch * steps - first_row;
  const int rows = left < kStretch ? int(left) : kStretch;
  Index first = Index(first_row) * units, all = first;  // without a schedule `all` is not used
  for (int i = threadIdx.x; i < rows; i += blockDim.x) {
    const int b = (first_row + i) / count_of_steps, j = (first_row + i) % count_of_steps;
    moments[i] = time[b * time_batch + j * time_step];
    seen[i] = products ? products + (j * batch + b) * units * 4 : x + j * x_step + b * x_batch;
  }
  for (int i = threadIdx.x; i <= rows; i += blockDim.x)
    starts[i] = i == 0 ? 0 : start ? int(start[first_row + i]) : i * width;
  if (found && added_up) first = found->blocks()[blockIdx.x].before, all = found->all;
  if (found && !added_up) {
    Index before = 0, others = 0;
    int most = 0;
#pragma unroll 4
    for (Index i = threadIdx.x; i < gridDim.x; i += blockDim.x) {
      const OfBlock block = found->blocks()[i];
      (i < blockIdx.x ? before : others) += block.own.all;
      most = most > block.own.most ? most : block.own.most;
    }
    first = Scan(before).all, all = first + Scan(others).all, most = largest_of(most);
    if (blockIdx.x == 0 && threadIdx.x == 0) found->most = most, found->all = all, slot.report(most, all);
  }
  if (found && all > capacity) return;
  const bool listing = unit_of && all <= room;
  __syncthreads();
  for (int i = threadIdx.x + 1; start && i <= rows; i += blockDim.x) start[first_row + i] = first + starts[i];
  const int count = starts[rows];
  // Rows follow one another in `mask`, so that all its words are loaded at once.
  const unsigned* const open_units = mask ? mask + Index(first_row) * words : nullptr;
  for (int from = 0; from < count; from += kListed) {
    const int here = count - from < kListed ? count - from : kListed;
    __syncthreads();
    for (int i = threadIdx.x; mask && i < rows * words; i += blockDim.x) {
      const int r = i / words, w = i % words;
      if (starts[r] - from >= kListed || starts[r + 1] <= from) continue;
      int at = starts[r] - from;
      for (int v = 0; v < w; v++) at += __popc(open_units[r * words + v]);
      for (unsigned open = open_units[i]; open; open &= open - 1, at++)
        if (at >= 0 && at < kListed) listed[at] = unsigned(w * 32 + __ffs(open) - 1) << kRowBits | r;
    }
    for (int i = threadIdx.x; !mask && i < here; i += blockDim.x)
      listed[i] = unsigned((from + i) % width) << kRowBits | (from + i) / width;
    __syncthreads();
    for (int i = threadIdx.x; i < here; i += blockDim.x) {
      const int unit = int(listed[i] >> kRowBits), r = int(listed[i] % kStretch), row = first_row + r;
      const double* const gate = all_gates + unit;
      const double period = gate[0], ratio_on = gate[2 * units], offset = gate[3 * units];
      const double k = openness(phase(moments[r], period, offset), ratio_on, leak, square != 0);
      made[i].head = {unit, row, static_cast<Real>(k)};
      if (listing) unit_of[first + from + i] = unit, row_of[first + from + i] = row;
      if (products) store_four(made[i].terms, load_four(seen[r] + 4 * unit) + load_four(bias + 4 * unit));
      if (!products && lanes == 1) {  // there is at most one feature
        Four sums = {};
        if (inputs) {
          const Four weight = load_four(wx + Index(unit) * 4);
          for (int g = 0; g < 4; g++) sums.v[g] = weight.v[g] * seen[r][0];
        }
        store_four(made[i].terms, sums + load_four(bias + 4 * unit));
      }
    }
    if (!products && lanes == 4) multiply_input<4>(listed, here, seen, wx, bias, inputs, made);
    if (!products && lanes > 4) multiply_input<8>(listed, here, seen, wx, bias, inputs, made);
    __syncthreads();
    const Sixteen* const parts = reinterpret_cast<const Sixteen*>(made);
    Sixteen* const to = reinterpret_cast<Sixteen*>(arrivals + first + from);
    for (int i = threadIdx.x; i < here * kParts; i += blockDim.x) to[i] = parts[i];
  }
}

}  // namespace phased
