// Last, mean and highest states of ragged sequences, and the gradient back to every state.
#pragma once

#include <cstdint>

namespace phased {

// States h (steps, batch, units) of sequences with so many steps each; later ones may be anything.
template <class T>
struct States {
  const T* h;
  const int64_t* lengths;
  int64_t steps, batch, units;
};

// Three results, each (batch, units): zeros for a sequence without steps.
template <class T>
struct PooledStates {
  T *last, *mean, *highest;
};

// Also counts the steps that have the highest state, (batch, units): a closed unit keeps its state, so there may be several.
// A state that is NaN stays so: then last and mean are NaN, and the highest is that of the other steps.
template <class T>
void pool(const States<T>& states, const PooledStates<T>& to, T* count);

// The gradient to h, with zeros after the end of a sequence. Steps that share the highest state share its gradient equally.
// `highest` and `count` are what `pool` found.
template <class T>
void pool_backward(const States<T>& states, const T* highest, const T* count, const PooledStates<const T>& given, T* to_h);

}  // namespace phased
