// Gradients to weights, input and gates: sums over all open events, in no order of time.
#include "weights.h"

namespace phased {

// What an event adds to the sums that become gradients to period, shift, ratio_on and the peepholes.
struct GateSums {
  double v[kGateSums] = {};

  __device__ __forceinline__ void add(const Real* to_others, Index e, bool peephole, double t, const Gate& gate, double leak,
                                      bool square) {
    const double phi = phase(t, gate.period, gate.offset), r_on = gate.ratio_on;
    const double to_k = to_others[peephole ? 4 * e : e], k = openness(phi, r_on, leak, square);
    const double to_phase = to_k * slope_to_phase(phi, r_on, leak, square);
    v[0] += to_phase * (t - gate.shift), v[1] += to_phase, v[2] += to_k * slope_to_ratio(phi, k, r_on, square);
    for (int p = 0; peephole && p < 3; p++) v[3 + p] += to_others[4 * e + 1 + p];
  }
};

// Lists the events of one unit in the order of rows, kScan rows at a time. A thread has eight rows, a byte of bits.
struct OwnEvents {
  static constexpr int kThreads = PHASED_SUM_THREADS, kEach = 8, kScan = kThreads * kEach, kAtOnce = 64;
  int row[kScan + kAtOnce], event[kScan + kAtOnce], warps[kThreads / kLanes];

  // Appends the events of rows `first`, a multiple of 32, to `end`, kScan at most, to the `waiting` events already listed.
  // Returns the number listed.
  __device__ __forceinline__ int look(const unsigned* by_unit, const unsigned* mask, const Index* start, Index words, Index unit,
                                      Index stretches, Index first, Index end, int waiting) {
    const Index word = unit / 32, begin = first + kEach * Index(threadIdx.x);
    const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
    unsigned bits = begin < end ? by_unit[unit * stretches + begin / 32] >> (begin % 32) & 0xff : 0;
    const int own = __popc(bits);
    int place = own;
    for (int apart = 1; apart < kLanes; apart *= 2) {
      const int left = __shfl_up_sync(kAll, place, apart);
      if (lane >= apart) place += left;
    }
    __syncthreads();  // the old list has been read
    if (lane == kLanes - 1) warps[warp] = place;
    __syncthreads();
    place += waiting - own;
    for (int w = 0; w < kThreads / kLanes; w++) {
      if (w < warp) place += warps[w];
      waiting += warps[w];
    }
    for (; bits; bits &= bits - 1) {
      const Index r = begin + __ffs(bits) - 1;
      Index e = start[r] + __popc(mask[r * words + word] & ((1u << unit % 32) - 1));
      for (Index w = 0; w < word; w++) e += __popc(mask[r * words + w]);
      row[place] = static_cast<int>(r), event[place++] = static_cast<int>(e);
    }
    __syncthreads();
    return waiting;
  }
};

// Gradients to weights and gates: the sum over a unit's events of the gradients to its products times the event's row [h before |
// x | 1]; and the gates' sums. A block has a unit, kThreads columns, one a thread, and a split of the rows. If there are several
// splits it writes its sums to (splits, units, 4, columns) and (splits, kGateSums, units); the last block to finish a unit's
// columns, by the counters `turns` (units, blocks of columns), adds them up, in the order of the splits.
extern "C" __global__ void __launch_bounds__(OwnEvents::kThreads)
    event_sums(const Real* to_products, const Real* to_others, const unsigned* by_unit, const unsigned* mask, const Index* start,
               const Real* output, const Real* initial_h, Index initial_batch, const Real* x, Index x_step, Index x_batch,
               Index features, const double* time, Index time_batch, Index time_step, Index batch, Index steps, Index square,
               Index peephole, Real* sums, double* gate_sums, unsigned* turns, const Unpacking unpacking) {
  constexpr int kAtOnce = OwnEvents::kAtOnce;
  __shared__ OwnEvents own;
  __shared__ Four by[kAtOnce];
  __shared__ const Real *h_of[kAtOnce], *x_of[kAtOnce];
  __shared__ double partial[kGateSums][kAtOnce / kLanes];
  __shared__ bool is_last;
  const Input input{x, x_step, x_batch, features};
  const Index units = unpacking.units;
  const Index unit = blockIdx.x, words = (units + 31) / 32, columns = units + features + 1;
  const Index column = blockIdx.y * Index(blockDim.x) + threadIdx.x, rows = batch * steps;
  const Index stretches = (rows + 31) / 32, share = (stretches + gridDim.z - 1) / gridDim.z * 32;
  const Index first = blockIdx.z * share, end = first + share < rows ? first + share : rows;
  const Gate gate = Gate::load(unpacking.gates, units, unit);
  // Every thread loads, so that many loads are in flight: the last column, and those beyond it, load a number that is not used.
  const bool from_h = column < units, from_x = !from_h && column < units + features, for_gate = blockIdx.y == 0;
  const Real* const* const rows_of = from_x ? x_of : h_of;
  const Index place = from_h ? column : from_x ? column - units : 0;
  const int thread = threadIdx.x;
  Real sum[4] = {};
  GateSums gate_sum;
  int waiting = 0;
  for (Index at = first; at < end; at += OwnEvents::kScan) {
    waiting = own.look(by_unit, mask, start, words, unit, stretches, at, end, waiting);
    const bool last = at + OwnEvents::kScan >= end;
    int done = 0;
    for (; waiting - done >= kAtOnce || (last && waiting > done); done += kAtOnce) {
      __syncthreads();
      if (thread < kAtOnce) {
        const bool there = done + thread < waiting;  // the last events are padded with ones that add nothing
        const int i = there ? done + thread : done;
        const Index row = own.row[i], e = own.event[i], b = row / steps, j = row % steps;
        by[thread] = there ? load_four(to_products + 4 * e) : Four{};
        h_of[thread] = j ? output + ((j - 1) * batch + b) * units : initial_h + b * initial_batch;
        x_of[thread] = input.row(row, steps);
        if (for_gate && there)
          gate_sum.add(to_others, e, peephole, time[b * time_batch + j * time_step], gate, 0.0, square);
      }
      __syncthreads();
#pragma unroll 16
      for (int i = 0; i < kAtOnce; i++) {
        const Real loaded = rows_of[i][place], z = from_h || from_x ? loaded : Real(1);
        for (int g = 0; g < 4; g++) sum[g] += by[i].v[g] * z;
      }
    }
    if (done && done < waiting) {  // the rest, fewer than kAtOnce, moves to the front
      int row = 0, event = 0;
      if (thread < waiting - done) row = own.row[done + thread], event = own.event[done + thread];
      __syncthreads();
      if (thread < waiting - done) own.row[thread] = row, own.event[thread] = event;
    }
    if (done) waiting = waiting > done ? waiting - done : 0;
  }
  for (int s = 0; for_gate && s < kGateSums; s++) {
    for (int apart = kLanes / 2; apart; apart /= 2) gate_sum.v[s] += __shfl_xor_sync(kAll, gate_sum.v[s], apart);
    if (thread < kAtOnce && thread % kLanes == 0) partial[s][thread / kLanes] = gate_sum.v[s];
  }
  __syncthreads();
  const bool for_column = column < columns, for_sum = for_gate && thread < kGateSums;
  double one_of_gate = for_sum ? partial[thread][0] + partial[thread][1] : 0;
  if (gridDim.z > 1) {
    Real* const own = sums + unit * 4 * columns + column;
    double* const own_gate = gate_sums + thread * units + unit;
    const Index next = units * 4 * columns, next_gate = kGateSums * units;
    for (int g = 0; for_column && g < 4; g++) own[blockIdx.z * next + g * columns] = sum[g];
    if (for_sum) own_gate[blockIdx.z * next_gate] = one_of_gate;
    __threadfence();
    __syncthreads();
    unsigned* const turn = turns + unit * gridDim.y + blockIdx.y;
    if (thread == 0) is_last = atomicAdd(turn, 1u) == gridDim.z - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    if (thread == 0) *turn = 0;  // for the next launch
    for (int g = 0; g < 4; g++) sum[g] = 0;
    one_of_gate = 0;
#pragma unroll 4
    for (int split = 0; for_column && split < gridDim.z; split++)
      for (int g = 0; g < 4; g++) sum[g] += __ldcg(own + split * next + g * columns);
#pragma unroll 4
    for (int split = 0; for_sum && split < gridDim.z; split++) one_of_gate += __ldcg(own_gate + split * next_gate);
  }
  for (int g = 0; for_column && g < 4; g++) unpacking.put(unit, g, column, sum[g]);
  if (for_sum) unpacking.put_gate(unit, thread, one_of_gate);
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
    for (Index row = begin; row < end; row++) {
      const Index b = row / steps, j = row % steps;
      if (lengths && j >= lengths[b]) continue;
      sum.add(to_others, row * units + unit, peephole, time[b * time_batch + j * time_step], gate, leak, square);
    }
    for (int s = 0; s < kGateSums; s++) partial[(blockIdx.x * kGateSums + Index(s)) * units + unit] = sum.v[s];
  }
}

// to_input (steps, batch, features): the products' gradients through the input weights. A warp a row.
extern "C" __global__ void input_gradient(const Real* to_products, const Index* start, const int* unit_of, const Real* wx,
                                          Index batch, Index steps, Index features, Real* to_input) {
  const Index warps = Index(gridDim.x) * (blockDim.x / kLanes);
  const int lane = threadIdx.x % kLanes;
  for (Index row = (blockIdx.x * Index(blockDim.x) + threadIdx.x) / kLanes; row < batch * steps; row += warps) {
    Real* to = to_input + (row % steps * batch + row / steps) * features;
    const Index first = start[row], end = start[row + 1];
    for (Index d = lane; d < features; d += kLanes) {
      Real sum = 0;
      for (Index e = first; e < end; e++) {
        const Four by = load_four(to_products + 4 * e);
        for (int g = 0; g < 4; g++) sum += by.v[g] * wx[(unit_of[e] * 4 + Index(g)) * features + d];
      }
      to[d] = sum;
    }
  }
}

}  // namespace phased
