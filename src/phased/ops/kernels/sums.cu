// What needs no order in time: the input's share of the products, and gradients to weights, input and gates, over all open events at once.
#include "common.h"

namespace phased {

// Rows of the input: step j of sequence b at j * step + b * batch.
struct Input {
  const Real* x;
  Index step, batch, features;
  __device__ __forceinline__ const Real* row(Index r, Index steps) const { return x + r % steps * step + r / steps * batch; }
};

// What bias and input of each event's unit add to its products. `lanes`, a power of two up to 32, share an event.
extern "C" __global__ void input_terms(const Real* x, Index x_step, Index x_batch, Index features, Index steps, Index rows, const Index* start,
                                       const Real* wx, const Real* bias, Index lanes, Arrival* arrivals) {
  const Input input{x, x_step, x_batch, features};
  const Index events = start[rows], threads = Index(gridDim.x) * blockDim.x, at = blockIdx.x * Index(blockDim.x) + threadIdx.x;
  const Index rounds = (events * lanes + threads - 1) / threads;  // all lanes of a warp take part to the end
  for (Index round = 0; round < rounds; round++) {
    const Index e = (round * threads + at) / lanes, lane = at % lanes;
    Real sums[4] = {};
    Index unit = 0;
    if (e < events) {
      unit = arrivals[e].head.unit;
      const Real *row = input.row(arrivals[e].head.row, steps), *w = wx + unit * 4 * features;
      for (Index d = lane; d < features; d += lanes)
        for (int g = 0; g < 4; g++) sums[g] += w[g * features + d] * row[d];
    }
    for (Index apart = lanes / 2; apart; apart /= 2)
      for (int g = 0; g < 4; g++) sums[g] += __shfl_xor_sync(kAll, sums[g], static_cast<int>(apart));
    if (e < events && lane == 0) {
      const Four add = load_four(bias + 4 * unit);
      store_four(arrivals[e].terms, Four{sums[0] + add.v[0], sums[1] + add.v[1], sums[2] + add.v[2], sums[3] + add.v[3]});
    }
  }
}

// A unit's events, as order_by_unit sorted them.
struct Own {
  Index first, end;
};
__device__ __forceinline__ Own own_events(const Index* ends, Index stretches, Index unit) {
  return {unit ? ends[unit * stretches - 1] : 0, ends[(unit + 1) * stretches - 1]};
}

// sums (splits, units, 4, columns): gradients to a unit's products times the row [h before | x | 1] each of its events saw. A block has a
// unit, a stretch of columns and a split of the unit's events; a thread a column.
extern "C" __global__ void weight_sums(const Real* to_products, const int* order, const Index* ends, Index stretches, const int* row_of,
                                       const Real* output, const Real* initial_h, const Real* x, Index x_step, Index x_batch, Index features,
                                       Index batch, Index steps, Index units, Real* sums) {
  constexpr int kAtOnce = 64;
  __shared__ Four by[kAtOnce];
  __shared__ const Real *h_of[kAtOnce], *x_of[kAtOnce];
  const Input input{x, x_step, x_batch, features};
  const Index unit = blockIdx.x, columns = units + features + 1, column = blockIdx.y * Index(blockDim.x) + threadIdx.x;
  const Own own = own_events(ends, stretches, unit);
  const Index share = (own.end - own.first + gridDim.z - 1) / gridDim.z, begin = own.first + blockIdx.z * share;
  const Index end = begin + share < own.end ? begin + share : own.end;
  Real sum[4] = {};
  for (Index at = begin; at < end; at += kAtOnce) {
    const int count = end - at < kAtOnce ? int(end - at) : kAtOnce;
    __syncthreads();
    for (int i = threadIdx.x; i < kAtOnce; i += blockDim.x) {
      const int e = order[at + (i < count ? i : 0)];  // a last batch is filled up with events that count for nothing
      const Index row = row_of[e], b = row / steps, j = row % steps;
      by[i] = i < count ? load_four(to_products + 4 * Index(e)) : Four{};
      h_of[i] = j ? output + ((j - 1) * batch + b) * units : initial_h + b * units;
      x_of[i] = input.row(row, steps);
    }
    __syncthreads();
    const bool from_h = column < units, from_x = !from_h && column < units + features;
#pragma unroll 8
    for (int i = 0; i < kAtOnce; i++) {
      const Real z = from_h ? h_of[i][column] : from_x ? x_of[i][column - units] : Real(1);
      for (int g = 0; g < 4; g++) sum[g] += by[i].v[g] * z;
    }
  }
  if (column < columns)
    for (int g = 0; g < 4; g++) sums[((blockIdx.z * units + unit) * 4 + g) * columns + column] = sum[g];
}

// What an event adds to the sums that become gradients to period, shift, ratio_on and the peepholes.
struct GateSums {
  double v[6] = {};

  __device__ __forceinline__ void add(const Real* to_others, Index e, bool peephole, double t, double tau, double shift, double offset,
                                      double r_on, double leak, bool square) {
    const double phi = phase(t, tau, offset), to_k = to_others[peephole ? 4 * e : e], k = openness(phi, r_on, leak, square);
    const double to_phase = to_k * slope_to_phase(phi, r_on, leak, square);
    v[0] += to_phase * (t - shift), v[1] += to_phase, v[2] += to_k * slope_to_ratio(phi, k, r_on, square);
    for (int p = 0; peephole && p < 3; p++) v[3 + p] += to_others[4 * e + 1 + p];
  }
};

// Where the sums go: gradients to period, shift and ratio_on (units), and to the peepholes (3, units) or nowhere.
struct ToGate {
  double *period, *shift, *ratio_on;
  Real* peephole;

  __device__ __forceinline__ void write(int which, double total, double tau, double r_on, Index unit, Index units) const {
    const double to_shift = -2 / (r_on * tau);
    if (which == 0) period[unit] = total * to_shift / tau;
    if (which == 1) shift[unit] = total * to_shift;
    if (which == 2) ratio_on[unit] = total / r_on;
    if (which >= 3 && peephole) peephole[(which - 3) * units + unit] = static_cast<Real>(total);
  }
};

// Over a unit's events as order_by_unit sorted them. A block a unit.
extern "C" __global__ void gate_sums(const Real* to_others, const int* order, const Index* ends, Index stretches,
                                     const int* row_of, const double* time, Index time_batch, Index time_step, const double* all_gates,
                                     Index steps, Index units, double leak, Index square, double* to_period, double* to_shift,
                                     double* to_ratio_on, Real* to_peephole) {
  constexpr int kSums = 6;
  __shared__ double partial[kSums][kLanes];
  const Index unit = blockIdx.x;
  const Gates gates = gates_of(all_gates, units);
  const double tau = gates.period[unit], shift = gates.shift[unit], offset = gates.offset[unit], r_on = gates.ratio_on[unit];
  const Own own = own_events(ends, stretches, unit);
  GateSums sum;
  for (Index i = own.first + threadIdx.x; i < own.end; i += blockDim.x) {
    const Index e = order[i], row = row_of[e];
    sum.add(to_others, e, to_peephole, time[row / steps * time_batch + row % steps * time_step], tau, shift, offset, r_on, leak, square);
  }
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  for (int s = 0; s < kSums; s++) {
    for (int apart = kLanes / 2; apart; apart /= 2) sum.v[s] += __shfl_xor_sync(kAll, sum.v[s], apart);
    if (lane == 0) partial[s][warp] = sum.v[s];
  }
  __syncthreads();
  if (threadIdx.x < kSums) {
    double total = 0;
    for (int w = 0; w < warps; w++) total += partial[threadIdx.x][w];
    ToGate{to_period, to_shift, to_ratio_on, to_peephole}.write(threadIdx.x, total, tau, r_on, unit, units);
  }
}

// The same where every unit has an event in every row. A block a stretch of rows, a thread a unit; partial (stretches, 6, units).
extern "C" __global__ void dense_gate_sums(const Real* to_others, const double* time, Index time_batch, Index time_step, const Index* lengths,
                                           const double* all_gates, Index batch, Index steps, Index units, double leak, Index square,
                                           Index peephole, double* partial) {
  const Gates gates = gates_of(all_gates, units);
  const Index rows = batch * steps, stretch = (rows + gridDim.x - 1) / gridDim.x, begin = blockIdx.x * stretch;
  const Index end = begin + stretch < rows ? begin + stretch : rows;
  for (Index unit = threadIdx.x; unit < units; unit += blockDim.x) {
    const double tau = gates.period[unit], shift = gates.shift[unit], offset = gates.offset[unit], r_on = gates.ratio_on[unit];
    GateSums sum;
    for (Index row = begin; row < end; row++) {
      const Index b = row / steps, j = row % steps;
      if (lengths && j >= lengths[b]) continue;
      sum.add(to_others, row * units + unit, peephole, time[b * time_batch + j * time_step], tau, shift, offset, r_on, leak, square);
    }
    for (int s = 0; s < 6; s++) partial[(blockIdx.x * 6 + Index(s)) * units + unit] = sum.v[s];
  }
}

// A warp a unit and sum.
extern "C" __global__ void finish_gate_sums(const double* partial, Index stretches, const double* all_gates, Index units, double* to_period,
                                            double* to_shift, double* to_ratio_on, Real* to_peephole) {
  const Gates gates = gates_of(all_gates, units);
  const Index unit = blockIdx.x;
  const int which = threadIdx.x / kLanes, lane = threadIdx.x % kLanes;
  double total = 0;
  for (Index i = lane; i < stretches; i += kLanes) total += partial[(i * 6 + which) * units + unit];
  for (int apart = kLanes / 2; apart; apart /= 2) total += __shfl_xor_sync(kAll, total, apart);
  const ToGate to{to_period, to_shift, to_ratio_on, to_peephole};
  if (lane == 0) to.write(which, total, gates.period[unit], gates.ratio_on[unit], unit, units);
}

// to_input (steps, batch, features): the products' gradients through the input weights. A warp a row.
extern "C" __global__ void input_gradient(const Real* to_products, const Index* start, const int* unit_of, const Real* wx, Index batch,
                                          Index steps, Index features, Real* to_input) {
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
