#include "stream.h"

#include <algorithm>

namespace phased {

template <class T>
Stream<T>::Stream(const Engine<T>& engine, std::shared_ptr<const StreamModel<T>> model)
    : engine_(engine),
      model_(std::move(model)),
      start_(kChunk + 1),
      unit_(16 * padded_units(units())),
      k_(16 * padded_units(units())),
      side_(16 * padded_units(units())),
      between_(2 * kChunk * units()) {
  for (const auto& layer : model_->layers) {
    states_.push_back({Buffer<T>(layer.get().width), Buffer<T>(layer.units), Buffer<T>(4 * (layer.units + kLanes)),
                       LookedMemory(layer.units, kCandidates)});
    states_.back().z[layer.units + layer.features] = 1;
  }
}

template <class T>
Stream<T>::Stream(const Stream& other) : Stream(other.engine_, other.model_) {
  const std::lock_guard<std::mutex> hold(other.lock_);
  last_ = other.last_;
  for (size_t i = 0; i < states_.size(); i++) {
    std::copy_n(other.states_[i].z.get(), other.states_[i].z.size(), states_[i].z.get());
    std::copy_n(other.states_[i].c.get(), other.states_[i].c.size(), states_[i].c.get());
  }
}

template <class T>
bool Stream<T>::run(const T* x, const int64_t* index, const double* time, int64_t count, T* out) {
  const std::lock_guard<std::mutex> hold(lock_);
  if (count && time[0] < last_) return false;
  const int64_t depth = layers();
  large_pages(out, count * units());
  for (int64_t at = 0; at < count;) {
    int64_t events = std::min(kChunk, count - at);  // each layer may stop a chunk earlier: those above it then take as many
    for (int64_t i = 0; i < depth; i++) {
      const auto& owned = model_->layers[i];
      const Layer<T> layer = owned.get();
      State& state = states_[i];
      const T* from = i == 0 ? x + at * owned.features : between_.get() + (i % 2) * kChunk * units();
      T* to = i == depth - 1 ? out + at * units() : between_.get() + ((i + 1) % 2) * kChunk * units();
      for (int64_t done = 0; done < events;) {
        const int64_t more = engine_.schedule(layer, state.looked.get(), time + at + done, 0, events - done, start_.get(),
                                              unit_.get(), k_.get(), side_.get(), unit_.size());
        engine_.forward[model_->cell](
            layer, {state.z.get(), state.c.get(), state.products.get()}, {from + done * owned.features, owned.features},
            {to + done * layer.units, layer.units}, more, {start_.get(), unit_.get(), k_.get(), side_.get(), nullptr, 0},
            {owned.table.get(), index ? index + at + done : nullptr});
        done += more;
      }
    }
    at += events;
  }
  if (count) last_ = time[count - 1];
  return true;
}

template <class T>
double Stream<T>::last() const {
  const std::lock_guard<std::mutex> hold(lock_);
  return last_;
}

template <class T>
void Stream<T>::get(T* h, T* c) const {
  const std::lock_guard<std::mutex> hold(lock_);
  for (int64_t i = 0; i < layers(); i++) {
    std::copy_n(states_[i].z.get(), units(), h + i * units());
    if (has_c()) std::copy_n(states_[i].c.get(), units(), c + i * units());
  }
}

template <class T>
void Stream<T>::set(const T* h, const T* c, double last) {
  const std::lock_guard<std::mutex> hold(lock_);
  last_ = last;
  for (int64_t i = 0; i < layers(); i++) {
    std::copy_n(h + i * units(), units(), states_[i].z.get());
    if (has_c()) std::copy_n(c + i * units(), units(), states_[i].c.get());
  }
}

template class Stream<float>;
template class Stream<double>;

}  // namespace phased
