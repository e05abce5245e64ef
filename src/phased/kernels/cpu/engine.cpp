// Compiled once for each instruction set, with PHASED_ISA its name.
#include "engine.h"

#include "dense.h"
#include "readout_loops.h"
#include "schedule.h"
#include "sparse.h"

namespace phased {
namespace {

template <class T>
Engine<T> engine() {
  return {
      schedule_steps<T>,
      {forward_sequence<Lstm, T>, forward_sequence<Gru, T>},
      {backward_sequence<Lstm, T>, backward_sequence<Gru, T>},
      {forward_dense<Lstm, T>, forward_dense<Gru, T>},
      {backward_dense<Lstm, T>, backward_dense<Gru, T>},
      read_out<T>,
      read_out_backward<T>,
  };
}

}  // namespace

#define PHASED_JOIN(a, b) a##b
#define PHASED_NAME(isa) PHASED_JOIN(engines_, isa)
#define PHASED_TEXT(isa) #isa
#define PHASED_STRING(isa) PHASED_TEXT(isa)

Engines PHASED_NAME(PHASED_ISA)() { return {PHASED_STRING(PHASED_ISA), engine<float>(), engine<double>()}; }

}  // namespace phased
