// A stack of layers, event by event: weights that are shared and never change, and the state of one sequence.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "engine.h"
#include "memory.h"
#include "pack.h"

namespace phased {

// One layer as a stack owns it.
template <class T>
struct StackLayer {
  int64_t units, features;
  int shape;
  Buffer<T> weights, peephole;  // packed; peephole (3, units) or empty
  Buffer<double> period, shift, ratio_on;
  GateMemory gate;
  Buffer<T> table;  // (entries, units, 4), or empty

  Layer<T> get() const {
    return {units,           features,       padded<T>(units + features + 1),
            weights.get(),   peephole.get(), period.get(),
            shift.get(),     ratio_on.get(), gate.offset.get(),
            gate.rate.get(), gate.lag.get(), gate.reach.get(),
            gate.near,       shape};
  }
};

// The state of one sequence: of each layer z, which begins with h (see Layer), and c; and the time of the last event.
template <class T>
class StackState {
 public:
  explicit StackState(const std::vector<StackLayer<T>>& layers);
  StackState(const StackState& other);

  double last() const;
  // h and c of all layers, (layers, units) each. Without c, that of an LSTM, its address is that of h.
  void get(T* h, T* c) const;
  void set(const T* h, const T* c, double last);

 private:
  template <class U> friend class Stack;

  int64_t units_;
  std::vector<Buffer<T>> z_, c_;
  double last_ = -__builtin_inf();
  mutable std::mutex lock_;  // state and time move together
};

// Objects that one thread at a time works with: as many are made as threads work at once, and some are kept for later.
template <class T>
class Spare {
 public:
  template <class Make>
  std::unique_ptr<T> take(Make make) {
    for (std::atomic<T*>& place : idle_)
      if (T* found = place.exchange(nullptr, std::memory_order_acquire)) return std::unique_ptr<T>(found);
    return make();
  }
  void give(std::unique_ptr<T> back) {
    for (std::atomic<T*>& place : idle_) {
      T* none = nullptr;
      if (place.compare_exchange_strong(none, back.get(), std::memory_order_release)) {
        back.release();
        return;
      }
    }
  }
  ~Spare() {
    for (std::atomic<T*>& place : idle_) delete place.load();
  }

 private:
  std::atomic<T*> idle_[8] = {};
};

// Threads may run the same stack at once, each on a state of its own.
template <class T>
class Stack {
 public:
  Stack(const Engine<T>& engine, CellKind cell, std::vector<StackLayer<T>> layers)
      : engine_(engine), cell_(cell), layers_(std::move(layers)) {}

  int64_t units() const { return layers_[0].units; }
  int64_t features() const { return layers_[0].features; }
  int64_t entries() const { return layers_[0].table.size() / (4 * units()); }
  std::unique_ptr<StackState<T>> start() const { return std::make_unique<StackState<T>>(layers_); }

  // `count` events: input rows, or indices into the first layer's table; the last layer's h after each, (count, units).
  // False, and nothing is taken, if the first comes before the last of those already taken.
  bool run(StackState<T>& state, const T* x, const int64_t* index, const double* time, int64_t count, T* out) const;

 private:
  static constexpr int64_t kChunk = 256;
  struct Work {
    Work(int64_t units, int64_t layers);
    Buffer<int64_t> start;
    Buffer<int32_t> unit;
    Buffer<T> k, products;
    Buffer<uint8_t> side;
    LookedMemory looked;
    Buffer<T> between;  // (2, kChunk, units): what one layer hands to the next
  };

  const Engine<T>& engine_;
  CellKind cell_;
  std::vector<StackLayer<T>> layers_;
  mutable Spare<Work> work_;
};

}  // namespace phased
