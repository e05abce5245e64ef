// One step of a layer with many units, of which each has an event: between two steps the host multiplies all states with all
// weights, as matrix products of some parts of the sum, which are added up here. A thread has a unit of a sequence.
#include "steps.h"

namespace phased {

// Where the events of a run are, and the step that offsets count from. It is in GPU memory, so that launches that were recorded
// once serve every run.
struct Place {
  Index first, steps;
  const Index* lengths;
  const Arrival* arrivals;
  Real* output;
  Record* tape;            // or null
  const Real* to_output;   // or null; see Backward
  Index output_step, output_batch;
  Real *to_products, *to_others;

  __device__ __forceinline__ Index length(Index b) const {
    const Index own = lengths ? lengths[b] : steps;
    return own < steps ? own : steps;
  }
};
static_assert(sizeof(Place) == PHASED_PLACE * sizeof(Index));

extern "C" __global__ void place_steps(Place* to, const Place place) { *to = place; }

// Step `first` + `offset`: parts of the products (parts, batch, units, 4), without the terms of input and bias; h and c (batch,
// units) are replaced. Steps after the last change nothing.
extern "C" __global__ void __launch_bounds__(PHASED_THREADS)
    step_forward(const Place* place, Index offset, Index batch, Index units, Index parts, const Real* products,
                 const Real* peephole, Real* h, Real* c) {
  const Place at = *place;
  const Index i = blockIdx.x * Index(blockDim.x) + threadIdx.x, b = i / units, unit = i % units, j = at.first + offset;
  if (b >= batch || j >= at.steps) return;
  Real& out = at.output[j * batch * units + i];
  if (j >= at.length(b)) {
    out = 0;
    return;
  }
  const Index event = (b * at.steps + j) * units + unit;
  const Arrival arrival = at.arrivals[event];
  Four terms = load_four(arrival.terms);
#pragma unroll 8
  for (Index part = 0; part < parts; part++) terms = terms + load_four(products + 4 * (part * batch * units + i));
  Real w[3] = {}, new_c, record[kRecord];
  peepholes(peephole, units, static_cast<int>(unit), w);
  out = h[i] = accept(terms.v, arrival.head.k, h[i], Cell::has_c ? c[i] : Real(0), w, new_c, record);
  if (Cell::has_c) c[i] = new_c;
  if (at.tape) at.tape[event].write(record);
}

// Step `first` - `offset`. The gradients to the state after it are to_c and the sum of to_h (batch, units) and of all parts of
// `through` (parts, batch, units), which the step after it has given through its products. They are replaced by those to the state
// before it, without what its own products give, whose gradients are `shares` (batch, units, 4). Before the first step `through` is
// added, and there are no shares.
extern "C" __global__ void __launch_bounds__(PHASED_THREADS)
    step_backward(const Place* place, Index offset, Index batch, Index units, Index parts, const Real* through,
                  const Real* peephole, Real* to_h, Real* to_c, Real* shares) {
  const Place at = *place;
  const Index i = blockIdx.x * Index(blockDim.x) + threadIdx.x, b = i / units, unit = i % units, j = at.first - offset;
  if (b >= batch) return;
  Real own_h = to_h[i];
#pragma unroll 8
  for (Index part = 0; part < parts; part++) own_h += through[part * batch * units + i];
  if (j < 0 || j >= at.length(b)) {
    to_h[i] = own_h;
    store_four(shares + 4 * i, Four{});
    return;
  }
  const Index event = (b * at.steps + j) * units + unit;
  Real record[kRecord], w[3] = {}, own_c = Cell::has_c ? to_c[i] : Real(0);
  if (at.to_output) own_h += at.to_output[j * at.output_step + b * at.output_batch + unit];
  at.tape[event].read(record);
  peepholes(peephole, units, static_cast<int>(unit), w);
  const Shares share(record, w, own_h, own_c);
  to_h[i] = own_h;
  if (Cell::has_c) to_c[i] = own_c;
  store_four(shares + 4 * i, share.products);
  store_four(at.to_products + 4 * event, share.products);
  if (kPeephole) {
    store_four(at.to_others + 4 * event, share.others);
  } else {
    at.to_others[event] = share.others.v[0];
  }
}

}  // namespace phased
