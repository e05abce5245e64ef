// The schedule, built on the GPU. A row is one step of one sequence, b * steps + j; its events are start[row] to start[row + 1].
#include "common.h"

namespace phased {

// Whether a unit is open at time t. A rough phase decides without a division, except within `blur` of where a gate opens or closes;
// `near` is how far from zero it is that good. See GateMemory in csrc for the bound.
__device__ __forceinline__ bool is_open(const Gates& gates, Index unit, double t, double near, double blur) {
  const double cycles = t * gates.rate[unit] - gates.lag[unit], rough = cycles - floor(cycles), ratio_on = gates.ratio_on[unit];
  if (fabs(t) <= near * gates.period[unit]) {
    if (rough > 2 * blur && rough < ratio_on) return true;
    if (rough > ratio_on + 2 * blur) return false;
  }
  return phase(t, gates.period[unit], gates.offset[unit]) < ratio_on;
}

// A warp a row: which units are open, a bit each, and how many, at start[row + 1].
extern "C" __global__ void find_open(const double* time, Index time_batch, Index time_step, const Index* lengths, const double* all_gates,
                                     Index batch, Index steps, Index units, double near, double blur, unsigned* mask, Index* start) {
  const Gates gates = gates_of(all_gates, units);
  const Index words = (units + 31) / 32, warps = Index(gridDim.x) * (blockDim.x / kLanes);
  const int lane = threadIdx.x % kLanes;
  if (blockIdx.x == 0 && threadIdx.x == 0) start[0] = 0;
  for (Index row = (blockIdx.x * Index(blockDim.x) + threadIdx.x) / kLanes; row < batch * steps; row += warps) {
    const Index b = row / steps, j = row % steps;
    const bool there = !lengths || j < lengths[b];
    const double t = there ? time[b * time_batch + j * time_step] : 0;
    Index sum = 0;
    for (Index w = 0; w < words; w++) {
      const Index unit = w * 32 + lane;
      const unsigned open = __ballot_sync(kAll, there && unit < units && is_open(gates, unit, t, near, blur));
      if (lane == 0) mask[row * words + w] = open;
      sum += __popc(open);
    }
    if (lane == 0) start[row + 1] = sum;  // to be added up
  }
}

// A warp a row: its events, in the order of their units, with their openness. Without a mask every unit has one.
extern "C" __global__ void fill(const double* time, Index time_batch, Index time_step, const double* all_gates, Index batch, Index steps,
                                Index units, double leak, Index square, const unsigned* mask, const Index* start, int* unit_of, int* row_of, Arrival* arrivals) {
  const Gates gates = gates_of(all_gates, units);
  const Index words = (units + 31) / 32, warps = Index(gridDim.x) * (blockDim.x / kLanes);
  const int lane = threadIdx.x % kLanes;
  for (Index row = (blockIdx.x * Index(blockDim.x) + threadIdx.x) / kLanes; row < batch * steps; row += warps) {
    Index first = start[row];
    if (first == start[row + 1]) continue;
    const double t = time[row / steps * time_batch + row % steps * time_step];
    for (Index w = 0; w < words; w++) {
      const unsigned open = mask ? mask[row * words + w] : units - w * 32 < 32 ? (1u << (units - w * 32)) - 1 : kAll;
      if (open >> lane & 1) {
        const Index unit = w * 32 + lane, e = first + __popc(open & ((1u << lane) - 1));
        const double k = openness(phase(t, gates.period[unit], gates.offset[unit]), gates.ratio_on[unit], leak, square != 0);
        arrivals[e].head = {static_cast<int>(unit), static_cast<int>(row), static_cast<Real>(k)};
        if (unit_of) unit_of[e] = static_cast<int>(unit), row_of[e] = static_cast<int>(row);
      }
      first += __popc(open);
    }
  }
}

// A warp a word of units and a stretch of rows: how often each unit is open in it, (words * 32, stretches).
extern "C" __global__ void count_by_unit(const unsigned* mask, Index rows, Index words, Index stretch, Index stretches, Index* count) {
  const Index warp = (blockIdx.x * Index(blockDim.x) + threadIdx.x) / kLanes, word = warp % words, at = warp / words;
  const int lane = threadIdx.x % kLanes;
  if (at >= stretches) return;
  const Index end = (at + 1) * stretch < rows ? (at + 1) * stretch : rows;
  Index sum = 0;
#pragma unroll 8
  for (Index row = at * stretch; row < end; row++) sum += mask[row * words + word] >> lane & 1;
  count[(word * 32 + lane) * stretches + at] = sum;
}

// Events by unit, and in their order within a unit: ends[unit][stretch] is where a unit's events up to a stretch end.
extern "C" __global__ void order_by_unit(const unsigned* mask, const Index* start, Index rows, Index words, Index stretch, Index stretches,
                                         const Index* ends, int* order) {
  const Index warp = (blockIdx.x * Index(blockDim.x) + threadIdx.x) / kLanes, word = warp % words, at = warp / words;
  const int lane = threadIdx.x % kLanes;
  if (at >= stretches) return;
  const Index end = (at + 1) * stretch < rows ? (at + 1) * stretch : rows, place = (word * 32 + lane) * stretches + at;
  Index next = place ? ends[place - 1] : 0;
#pragma unroll 4
  for (Index row = at * stretch; row < end; row++) {
    const unsigned open = mask[row * words + word];
    if (!open) continue;
    Index first = start[row];
    for (Index w = 0; w < word; w++) first += __popc(mask[row * words + w]);
    if (open >> lane & 1) order[next++] = static_cast<int>(first + __popc(open & ((1u << lane) - 1)));
  }
}

}  // namespace phased
