#include "stream.h"

#include <algorithm>

namespace phased {

template <class T>
StackState<T>::StackState(const std::vector<StackLayer<T>>& layers) : units_(layers[0].units) {
  for (const auto& layer : layers) {
    z_.emplace_back(layer.get().width);
    c_.emplace_back(layer.units);
    z_.back()[layer.units + layer.features] = 1;
  }
}

template <class T>
StackState<T>::StackState(const StackState& other) : units_(other.units_) {
  const std::lock_guard<std::mutex> hold(other.lock_);
  last_ = other.last_;
  const auto copied = [](const Buffer<T>& from) {
    Buffer<T> made(from.size());
    std::copy_n(from.get(), from.size(), made.get());
    return made;
  };
  for (size_t i = 0; i < other.z_.size(); i++) {
    z_.push_back(copied(other.z_[i]));
    c_.push_back(copied(other.c_[i]));
  }
}

template <class T>
double StackState<T>::last() const {
  const std::lock_guard<std::mutex> hold(lock_);
  return last_;
}

template <class T>
void StackState<T>::get(T* h, T* c) const {
  const std::lock_guard<std::mutex> hold(lock_);
  for (size_t i = 0; i < z_.size(); i++) {
    std::copy_n(z_[i].get(), units_, h + i * units_);
    if (c != h) std::copy_n(c_[i].get(), units_, c + i * units_);
  }
}

template <class T>
void StackState<T>::set(const T* h, const T* c, double last) {
  const std::lock_guard<std::mutex> hold(lock_);
  last_ = last;
  for (size_t i = 0; i < z_.size(); i++) {
    std::copy_n(h + i * units_, units_, z_[i].get());
    if (c != h) std::copy_n(c + i * units_, units_, c_[i].get());
  }
}

template <class T>
Stack<T>::Work::Work(int64_t units, int64_t layers)
    : start(kChunk + 1),
      unit(16 * padded_units(units)),
      k(16 * padded_units(units)),
      products(4 * (units + kLanes)),
      side(16 * padded_units(units)),
      looked(units, kCandidates),
      between(layers > 1 ? 2 * kChunk * units : 0) {}

template <class T>
bool Stack<T>::run(StackState<T>& state, const T* x, const int64_t* index, const double* time, int64_t count, T* out) const {
  const std::lock_guard<std::mutex> hold(state.lock_);
  if (count && time[0] < state.last_) return false;
  const int64_t depth = static_cast<int64_t>(layers_.size());
  std::unique_ptr<Work> work = work_.take([&] { return std::make_unique<Work>(units(), depth); });
  large_pages(out, count * units());
  for (int64_t at = 0; at < count;) {
    const int64_t events = std::min(kChunk, count - at);
    for (int64_t i = 0; i < depth; i++) {
      const auto& owned = layers_[i];
      const Layer<T> layer = owned.get();
      const T* from = i == 0 ? x + at * owned.features : work->between.get() + (i % 2) * kChunk * units();
      T* to = i == depth - 1 ? out + at * units() : work->between.get() + ((i + 1) % 2) * kChunk * units();
      for (int64_t done = 0; done < events;) {  // a schedule may have room for fewer
        const int64_t more = engine_.schedule(layer, work->looked.get(), time + at + done, 0, events - done, work->start.get(),
                                              work->unit.get(), work->k.get(), work->side.get(), work->unit.size());
        engine_.forward[static_cast<int>(cell_)](
            layer, {state.z_[i].get(), state.c_[i].get(), work->products.get()}, {from + done * owned.features, owned.features},
            {to + done * layer.units, layer.units}, more,
            {work->start.get(), work->unit.get(), work->k.get(), work->side.get(), nullptr, 0},
            {owned.table.get(), index ? index + at + done : nullptr});
        done += more;
      }
    }
    at += events;
  }
  work_.give(std::move(work));
  if (count) state.last_ = time[count - 1];
  return true;
}

template class StackState<float>;
template class StackState<double>;
template class Stack<float>;
template class Stack<double>;

}  // namespace phased
