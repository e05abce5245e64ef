// Gradients to weights, input and gates: sums over all open events, in no order of time.
#include "sums.h"

namespace phased {

// The gradients to weights, where many units are open: several are open in a row, so a block has many units, and reads a row once
// for all of them. It has kColumns * 32 columns and a split of the rows, which it processes in tiles of 32: their rows, and the
// gradients of their events, are copied to shared memory, a ring of two or three tiles, while it sums those of a tile before. A warp
// has kOwn units, and sums four products of each in registers, for kColumns columns a lane.
constexpr int kTile = kLanes, kOwn = PHASED_SUM_UNIT_BYTES / int(sizeof(Real));

template <int kColumns>
struct EventSums {
  static constexpr int kPitch = kColumns * kLanes;
  const Summing& p;
  const int lane, warp, warps, units, features, steps, words, rows, ring;
  const int unit, column;  // the warp's first unit, the block's first column
  const int from_h, first_x, end_x;  // columns of h; the features among the block's columns
  // In shared memory, each for `ring` tiles: rows (tile, pitch), products' gradients (warps, own units, tile), masks (tile, words)
  // and where events start (tile + 1).
  Real* tiles;
  Four* by;
  Index* starts;
  unsigned* masks;

  __device__ __forceinline__ EventSums(const Summing& p, unsigned char* shared)
      : p(p),
        lane(threadIdx.x % kLanes),
        warp(threadIdx.x / kLanes),
        warps(blockDim.x / kLanes),
        units(int(p.units)),
        features(int(p.features)),
        steps(int(p.steps)),
        words((units + 31) / 32),
        rows(int(p.batch * p.steps)),
        ring(int(p.ring)),
        unit((blockIdx.x * warps + warp) * kOwn),
        column(blockIdx.y * kPitch),
        from_h(units - column < 0 ? 0 : units - column < kPitch ? units - column : kPitch),
        first_x(column > units ? column - units : 0),
        end_x(column + kPitch - units < features ? column + kPitch - units : features) {
    tiles = reinterpret_cast<Real*>(shared);
    Four* const all = reinterpret_cast<Four*>(tiles + ring * kTile * kPitch);
    by = all + warp * ring * kOwn * kTile;
    starts = reinterpret_cast<Index*>(all + warps * ring * kOwn * kTile);
    masks = reinterpret_cast<unsigned*>(starts + ring * (kTile + 1));
  }

  // Copies where a tile's events start, and its mask, to a slot of the ring.
  __device__ __forceinline__ void copy_schedule(int tile, int slot) const {
    const int first = tile * kTile, count = rows - first < kTile ? rows - first : kTile, thread = threadIdx.x;
    Index* const to_starts = starts + slot * (kTile + 1);
    unsigned* const to_masks = masks + slot * kTile * words;
#pragma unroll 1
    for (int i = thread; i <= count; i += blockDim.x) copy_ahead(to_starts + i, p.start + first + i, 8);
#pragma unroll 1
    for (int i = thread; i < count * words; i += blockDim.x) copy_ahead(to_masks + i, p.mask + Index(first) * words + i, 4);
  }

  // Finds the events of a tile's rows, a row a lane, whose mask has come: a word of bits for each of the warp's units. Copies the
  // gradients to their products.
  __device__ __forceinline__ void find(int tile, int slot, unsigned bits[kOwn]) const {
    unsigned open = 0;
    if (unit < units && tile * kTile + lane < rows) {
      const unsigned* const own = masks + (slot * kTile + lane) * words;
      const int word = unit / 32, place = unit % 32;
      open = own[word] >> place & ((1u << kOwn) - 1);
      if (open) {
        Index e = starts[slot * (kTile + 1) + lane] + __popc(own[word] & ((1u << place) - 1));
        for (int w = 0; w < word; w++) e += __popc(own[w]);
        const Four* from = reinterpret_cast<const Four*>(p.to_products) + e;
        Four* const to = by + slot * kOwn * kTile + lane;
#pragma unroll
        for (int u = 0; u < kOwn; u++)
          if (open >> u & 1) copy_struct(to + u * kTile, from++);
      }
    }
#pragma unroll
    for (int u = 0; u < kOwn; u++) bits[u] = __ballot_sync(kAll, open >> u & 1);
  }

  // Copies the block's columns of h, a lane `Each` numbers at a time.
  template <int Each>
  __device__ __forceinline__ void copy_h(Real* to, const Real* from) const {
#pragma unroll
    for (int first = 0; first < kPitch; first += Each * kLanes) {
      const int i = first + Each * lane;
      if (i < from_h) copy_ahead(to + i, from + i, Each * sizeof(Real));
    }
  }

  // Copies the rows [h before | x] of a tile that have events, a warp a row; the tile's first row is step j of sequence b.
  __device__ __forceinline__ void copy_rows_of(int tile, int slot, int b, int j) const {
    const Index* const begins = starts + slot * (kTile + 1);
    for (int i = warp; i < kTile && tile * kTile + i < rows; i += warps) {
      if (begins[i] == begins[i + 1]) continue;
      int own_b = b, own_j = j + i;
      while (own_j >= steps) own_j -= steps, own_b++;
      Real* const to = tiles + (slot * kTile + i) * kPitch;
      const Real* const h = own_j ? p.output + ((own_j - 1) * p.batch + own_b) * units : p.initial_h + own_b * p.initial_batch;
      const unsigned ends = static_cast<unsigned>(reinterpret_cast<unsigned long long>(h)) | unsigned(from_h * sizeof(Real));
      if (ends % 16 == 0) {  // the largest words to which the row is aligned
        copy_h<16 / sizeof(Real)>(to, h + column);
      } else if (ends % 8 == 0) {
        copy_h<8 / sizeof(Real)>(to, h + column);
      } else {
        copy_h<1>(to, h + column);
      }
      const Real* const x = p.x + own_j * p.x_step + own_b * p.x_batch;
#pragma unroll 1
      for (int d = first_x + lane; d < end_x; d += kLanes) copy_ahead(to + units - column + d, x + d, sizeof(Real));
    }
  }

  // An event: the gradients to its products, and its row, of which a lane has four columns that follow one another and one of
  // each further 32.
  struct Event {
    Four share;
    Real z[kColumns];

    __device__ __forceinline__ Event(const Four* shares, const Real* tile, int i, int lane) : share(shares[i]) {
      const Real* const row = tile + i * kPitch;
      const Four four = load_four(row + 4 * lane);
#pragma unroll
      for (int c = 0; c < kColumns; c++) z[c] = c < 4 ? four.v[c] : row[c * kLanes + lane];
    }
    __device__ __forceinline__ void add_to(Real sum[4][kColumns]) const {
#pragma unroll
      for (int c = 0; c < kColumns; c++)
#pragma unroll
        for (int g = 0; g < 4; g++) sum[g][c] += share.v[g] * z[c];
    }
  };

  // Adds a unit's events, given as the bits of a tile's rows, the last first (which saves an instruction). Each is loaded while the
  // one before it is added.
  static __device__ __forceinline__ void add(Real sum[4][kColumns], unsigned left, const Four* shares, const Real* tile, int lane) {
    if (!left) return;
    int i = 31 - __clz(left);
    const auto next = [&] {
      const Event event(shares, tile, i, lane);
      left ^= 1u << i, i = 31 - __clz(left);  // -1 after the last
      return event;
    };
    Event one = next();
    while (i >= 0) {
      const Event two = next();
      one.add_to(sum);
      if (i < 0) {
        two.add_to(sum);
        return;
      }
      one = next();
      two.add_to(sum);
    }
    one.add_to(sum);
  }

  __device__ __forceinline__ void run() const {
    const int count = (rows + kTile - 1) / kTile, share = (count + gridDim.z - 1) / gridDim.z;
    const int first = blockIdx.z * share, end = first + share < count ? first + share : count;
    const int ones = units + features - column;  // the biases' column
    for (int i = threadIdx.x; ones >= 0 && ones < kPitch && i < ring * kTile; i += blockDim.x) tiles[i * kPitch + ones] = 1;
    Real sum[kOwn][4][kColumns] = {};
    // Tiles are copied `ahead` tiles before they are summed, and their schedules twice as long before.
    const int ahead = ring - 1;
    unsigned bits[3][kOwn] = {};  // of this tile and the next ones
    int b = first * kTile / (steps ? steps : 1), j = first * kTile - b * steps;  // where the next tile to copy begins
    const auto fetch = [&](int tile, int slot, unsigned to[kOwn]) {
      if (tile < end) {
        find(tile, slot, to), copy_rows_of(tile, slot, b, j);
        for (j += kTile; j >= steps; j -= steps) b++;
      } else {
        for (int u = 0; u < kOwn; u++) to[u] = 0;
      }
    };
    if (first < end) {
      for (int i = 0; i < ring && first + i < end; i++) copy_schedule(first + i, i);
      end_of_copies(), wait_for_copies<0>();
      __syncthreads();
      fetch(first, 0, bits[0]);
      end_of_copies();
      if (ring == 3) {
        fetch(first + 1, 1, bits[1]);
        __syncthreads();  // the first schedule has been read
        if (first + 3 < end) copy_schedule(first + 3, 0);
        end_of_copies();
      }
    }
    int slot = 0;
    for (int tile = first; tile < end; tile++) {
      if (ring == 3) {
        wait_for_copies<1>();
      } else {
        wait_for_copies<0>();
      }
      __syncthreads();  // the tile has come, and the one before it, whose memory is written below, is done
      const int before = slot ? slot - 1 : ring - 1;  // the slot of the tile before, and of the one that is `ahead`
      if (ring == 3) {
        fetch(tile + ahead, before, bits[2]);
      } else {
        fetch(tile + ahead, before, bits[1]);
      }
      // Into the slot of the oldest schedule, which was read in the round before.
      if (tile + 2 * ahead < end) copy_schedule(tile + 2 * ahead, ring == 3 ? (before + 2) % 3 : slot);
      end_of_copies();
      const Real* const rows_here = tiles + slot * kTile * kPitch;
      const Four* const shares = by + slot * kOwn * kTile;
#pragma unroll
      for (int u = 0; u < kOwn; u++) {
        add(sum[u], bits[0][u], shares + u * kTile, rows_here, lane);
        bits[0][u] = bits[1][u], bits[1][u] = bits[2][u];
      }
      slot = slot + 1 < ring ? slot + 1 : 0;
    }
    const int columns = units + features + 1;
#pragma unroll
    for (int u = 0; u < kOwn; u++) {
      if (unit + u >= units) continue;
      Real* const to = p.sums + (Index(blockIdx.z) * units + unit + u) * 4 * columns;
#pragma unroll
      for (int c = 0; c < kColumns; c++) {
        const int own = column + (c < 4 ? 4 * lane + c : c * kLanes + lane);
        for (int g = 0; own < columns && g < 4; g++) to[Index(g) * columns + own] = sum[u][g][c];
      }
    }
  }
};

constexpr int kSumThreads = PHASED_SUM_WARPS * kLanes;

extern "C" __global__ void __launch_bounds__(kSumThreads) event_sums(const Summing summing) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (is_called(summing.found, summing.least, summing.below)) EventSums<PHASED_SUM_COLUMNS>(summing, shared).run();
}

// The same with a column a lane more: where that leaves fewer lanes without a column.
extern "C" __global__ void __launch_bounds__(kSumThreads) wide_event_sums(const Summing summing) {
  extern __shared__ __align__(16) unsigned char shared[];
  if (is_called(summing.found, summing.least, summing.below)) EventSums<PHASED_SUM_COLUMNS + 1>(summing, shared).run();
}

// The gates' sums over open events, in their order, a share of them a warp. A lane evaluates an event. Where several of a warp's
// events are those of one unit, they are added one after another. It is called as is_called has it.
extern "C" __global__ void gate_sums(const GateSumming p, const Index* start, const int* unit_of, const int* row_of, Index batch,
                                     Index steps, Index units, const Index* found, Index least, Index below) {
  if (!is_called(found, least, below)) return;
  extern __shared__ __align__(16) unsigned char shared[];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  const int kinds = p.kinds(), each = kinds * int(units);
  double* const all = reinterpret_cast<double*>(shared);  // (warps, kinds, units)
  double* const own = all + warp * each;
  for (int i = threadIdx.x; i < warps * each; i += blockDim.x) all[i] = 0;
  __syncthreads();
  const Index count = start[batch * steps];  // the host may know only how many there are at most
  const Index rounds = (count + kLanes - 1) / kLanes, all_warps = Index(gridDim.x) * warps;
  const Index share = (rounds + all_warps - 1) / all_warps * kLanes, first = (blockIdx.x * Index(warps) + warp) * share;
  const Index end = first + share < count ? first + share : count;
  for (Index base = first; base < end; base += kLanes) {
    const Index e = base + lane;
    const bool there = e < end;
    const int unit = there ? unit_of[e] : -1 - lane;
    GateSums sum;
    if (there) {
      const unsigned row = unsigned(row_of[e]), b = row / unsigned(steps), j = row % unsigned(steps);
      const double t = p.time[b * p.time_batch + j * p.time_step];
      sum.add(p.to_others, e, p.peephole, t, Gate::load(p.gates, units, unit), 0.0, p.square);
    }
    const int before = __popc(__match_any_sync(kAll, unit) & ((1u << lane) - 1));
    const int most = __reduce_max_sync(kAll, before);
    for (int turn = 0; turn <= most; turn++) {
      if (there && before == turn) {
#pragma unroll
        for (int s = 0; s < kGateSums; s++)
          if (s < kinds) own[s * int(units) + unit] += sum.v[s];
      }
      __syncwarp();
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < each; i += blockDim.x) {
    double total = 0;
    for (int w = 0; w < warps; w++) total += all[w * each + i];
    p.partial[blockIdx.x * Index(kGateSums) * units + i] = total;
  }
}

// The gates' sums where every unit has an event in every row. A block has a stretch of rows, a thread a unit; partial (stretches,
// kGateSums, units).
extern "C" __global__ void dense_gate_sums(const Real* to_others, const double* time, Index time_batch, Index time_step,
                                           const Index* lengths, const double* all_gates, Index batch, Index steps, Index units,
                                           double leak, Index square, Index peephole, double* partial) {
  const Index rows = batch * steps, stretch = (rows + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * stretch;
  const Index end = begin + stretch < rows ? begin + stretch : rows;
  for (Index unit = threadIdx.x; unit < units; unit += blockDim.x) {
    const Gate gate = Gate::load(all_gates, units, unit);
    GateSums sum;
    Index b = begin / steps, j = begin % steps;
    for (Index row = begin; row < end; row++) {
      if (!lengths || j < lengths[b])
        sum.add(to_others, row * units + unit, peephole, time[b * time_batch + j * time_step], gate, leak, square);
      if (++j == steps) j = 0, b++;
    }
    for (int s = 0; s < kGateSums; s++) partial[(blockIdx.x * kGateSums + Index(s)) * units + unit] = sum.v[s];
  }
}

// Where every unit has an event in every row: rows (batch * steps, units + features + 1), the input of all units, [h before | x |
// 1]. Rows of padding are zero, and so are the gradients to their products (batch * steps, units, 4): no pass writes these, and what
// is there may not be finite. A warp has a row.
extern "C" __global__ void dense_rows(const Real* output, const Real* initial_h, const Real* x, Index x_step, Index x_batch,
                                      Index features, const Index* lengths, Index batch, Index steps, Index units, Real* rows,
                                      Real* to_products) {
  const int lane = threadIdx.x % kLanes, columns = int(units + features) + 1;
  const unsigned warps = gridDim.x * blockDim.x / kLanes, all = unsigned(batch * steps);
  for (unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / kLanes; row < all; row += warps) {
    const unsigned b = row / unsigned(steps), j = row % unsigned(steps);
    const bool padding = lengths && Index(j) >= lengths[b];
    const Real* const before = j ? output + (Index(j - 1) * batch + b) * units : initial_h ? initial_h + b * units : nullptr;
    const Real* const own = x + j * x_step + b * x_batch - units;
    Real* const to = rows + Index(row) * columns;
    for (int column = lane; column < columns; column += kLanes) {
      Real value = 0;
      if (!padding) value = column >= units ? (column + 1 < columns ? own[column] : Real(1)) : before ? before[column] : Real(0);
      to[column] = value;
    }
    if (padding)
      for (int i = lane; i < 4 * units; i += kLanes) to_products[Index(row) * 4 * units + i] = 0;
  }
}

// to_input (steps, batch, features): the products' gradients through the input weights (units, features, 4). A warp has several
// rows if they have few features. Without `start`, every unit has an event in every row.
extern "C" __global__ void input_gradient(const Real* to_products, const Index* start, const int* unit_of, const Real* wx,
                                          Index batch, Index steps, Index units, Index features, Real* to_input) {
  const int inputs = int(features);
  int lanes = 1;  // of a row
  while (lanes < inputs && lanes < kLanes) lanes *= 2;
  const unsigned rows = unsigned(batch * steps), at_once = gridDim.x * blockDim.x / lanes;
  const int lane = threadIdx.x % lanes;
  for (unsigned row = (blockIdx.x * blockDim.x + threadIdx.x) / lanes; row < rows; row += at_once) {
    const unsigned b = row / unsigned(steps), j = row % unsigned(steps);
    Real* const to = to_input + (j * batch + b) * features;
    const Index first = start ? start[row] : row * units;
    const int count = start ? int(start[row + 1] - first) : int(units), *const own = start ? unit_of + first : nullptr;
    const Real* const by = to_products + 4 * first;
    for (int d = lane; d < inputs; d += lanes) {
      Real sum = 0;
#pragma unroll 4
      for (int e = 0; e < count; e++) {
        const Four share = load_four(by + 4 * e), weight = load_four(wx + (Index(own ? own[e] : e) * inputs + d) * 4);
        for (int g = 0; g < 4; g++) sum += share.v[g] * weight.v[g];
      }
      to[d] = sum;
    }
  }
}

}  // namespace phased
