// One sequence, event by event: weights shared between streams, state its own.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engine.h"
#include "memory.h"
#include "pack.h"

namespace phased {

// One layer as a stream owns it.
template <class T>
struct StreamLayer {
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

template <class T>
struct StreamModel {
  int cell;  // its number
  std::vector<StreamLayer<T>> layers;
};

// The state and the time of the last event, which move together. Not for two threads at once: each call holds the stream's lock.
template <class T>
class Stream {
 public:
  Stream(const Engine<T>& engine, std::shared_ptr<const StreamModel<T>> model);
  Stream(const Stream& other);

  int64_t units() const { return model_->layers[0].units; }
  int64_t layers() const { return static_cast<int64_t>(model_->layers.size()); }
  bool has_c() const { return numbers_of(model_->cell).has_c; }

  // `count` events: input rows, or indices into the first layer's table; the last layer's h after each, (count, units).
  // False, and nothing is taken, if the first comes before the last of those already taken.
  bool run(const T* x, const int64_t* index, const double* time, int64_t count, T* out);
  void get(T* h, T* c) const;
  void set(const T* h, const T* c, double last);
  double last() const;

 private:
  struct State {
    Buffer<T> z, c, products;
    LookedMemory looked;
  };
  static constexpr int64_t kChunk = 256;

  const Engine<T>& engine_;
  std::shared_ptr<const StreamModel<T>> model_;
  std::vector<State> states_;
  Buffer<int64_t> start_;
  Buffer<int32_t> unit_;
  Buffer<T> k_;
  Buffer<uint8_t> side_;
  double last_ = -__builtin_inf();
  Buffer<T> between_;  // (2, kChunk, units): what one layer hands to the next
  mutable std::mutex lock_;
};

}  // namespace phased
