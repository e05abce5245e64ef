// Compiled once for each instruction set, with PHASED_ISA its name.
#include "simd.h"  // first: the cells use its functions
#include "engine.h"

#include "dense.h"
#include "schedule.h"
#include "sparse.h"

namespace phased {
namespace {

template <class T, class... Cell>
Engine<T> engine(Table<Cell...>) {
  return {
      schedule_steps<T>,
      {forward_sequence<Cell, T>...},
      {backward_sequence<Cell, T>...},
      {forward_dense<Cell, T>...},
      {backward_dense<Cell, T>...},
  };
}

}  // namespace

#define PHASED_JOIN(a, b) a##b
#define PHASED_NAME(isa) PHASED_JOIN(engines_, isa)
#define PHASED_TEXT(isa) #isa
#define PHASED_STRING(isa) PHASED_TEXT(isa)

Engines PHASED_NAME(PHASED_ISA)() { return {PHASED_STRING(PHASED_ISA), engine<float>(Cells()), engine<double>(Cells())}; }

}  // namespace phased
