#include "readout.h"

#include "engine.h"
#include "memory.h"

namespace phased {

template <class T>
void read_out(const Engine<T>& engine, const Readout<T>& r, const Pooled<T>& pooled, T* y) {
  const Buffer<T> row(r.row());
  engine.read_out(r, pooled, row.get(), y);
}

template <class T>
void read_out_backward(const Engine<T>& engine, const Readout<T>& r, const Pooled<T>& pooled, const T* to_y,
                       const ReadoutGradients<T>& to) {
  const Buffer<T> row(r.row()), to_pooled(r.batch * r.states());
  engine.read_out_backward(r, pooled, to_y, row.get(), to_pooled.get(), to);
}

#define PHASED_INSTANCES(T)                                                             \
  template void read_out(const Engine<T>&, const Readout<T>&, const Pooled<T>&, T*); \
  template void read_out_backward(const Engine<T>&, const Readout<T>&, const Pooled<T>&, const T*, const ReadoutGradients<T>&);
PHASED_INSTANCES(float)
PHASED_INSTANCES(double)

}  // namespace phased
