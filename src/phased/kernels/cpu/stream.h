// A stack of layers, event by event: weights that sequences share and that never change, and the state of one sequence.
#pragma once

#include <memory>
#include <vector>

#include "memory.h"
#include "pack.h"

namespace phased {

// One layer as a stack owns it.
template <class T>
struct StackLayer {
  int64_t features;
  int shape;
  Buffer<T> weights, peephole;  // packed; peephole (3, units) or empty
  Gates gates;
  Buffer<T> table;  // (entries, units, 4), or empty

  Layer<T> get() const { return gates.layer(features, weights.get(), peephole.get(), shape); }
};

// The state of one sequence, a value: of each layer z, which begins with h (see Layer), and c; and the time of the last event.
template <class T>
class StackState {
 public:
  StackState(int64_t units, int64_t features, int64_t layers)
      : units_(units), layers_(layers), first_(padded<T>(units + features + 1)), next_(padded<T>(2 * units + 1)),
        values_(first_ + (layers - 1) * next_ + layers * padded<T>(units)) {
    for (int64_t i = 0; i < layers; i++) z(i)[units + (i ? units : features)] = 1;
  }
  StackState(const StackState& other)
      : last(other.last), units_(other.units_), layers_(other.layers_), first_(other.first_), next_(other.next_),
        values_(other.values_.get(), other.values_.size()) {}
  StackState(StackState&&) = default;
  StackState& operator=(StackState&&) = default;

  T* z(int64_t layer) const { return values_.get() + (layer ? first_ + (layer - 1) * next_ + layer * padded<T>(units_) : 0); }
  T* c(int64_t layer) const { return z(layer) + (layer ? next_ : first_); }
  // Calls visit(values, count) for the time, as bytes, then for h of each layer, then for c of each layer that has one.
  template <class Visit>
  void each_part(bool has_c, const Visit& visit) {
    visit(&last, sizeof(last));
    for (int64_t i = 0; i < layers_; i++) visit(z(i), units_ * sizeof(T));
    for (int64_t i = 0; has_c && i < layers_; i++) visit(c(i), units_ * sizeof(T));
  }

  double last = -__builtin_inf();

 private:
  int64_t units_, layers_, first_, next_;  // first, next: widths of z
  Buffer<T> values_;
};

// Threads may run a stack at once, each on a state of its own.
template <class T>
class Stack {
 public:
  Stack(const Engine<T>& engine, int cell, int64_t units, std::vector<StackLayer<T>> layers)
      : engine_(engine), cell_(cell), units_(units), layers_(std::move(layers)) {}
  Stack(Stack&&) = default;

  int64_t units() const { return units_; }
  int64_t features() const { return layers_[0].features; }
  int64_t entries() const { return layers_[0].table.size() / (4 * units_); }
  bool has_c() const { return numbers_of(cell_).has_c; }
  StackState<T> start() const { return {units_, features(), static_cast<int64_t>(layers_.size())}; }

  // `count` events: input rows, or indices into the first layer's table; the last layer's h after each, (count, units).
  // False, and nothing is taken, if the first comes before the last of those already taken.
  bool run(StackState<T>& state, const T* x, const int64_t* index, const double* time, int64_t count, T* out) const;

 private:
  const Engine<T>& engine_;
  int cell_;  // its number
  int64_t units_;
  std::vector<StackLayer<T>> layers_;
};

}  // namespace phased
