#include "stream.h"

#include <algorithm>

namespace phased {
namespace {

// Working memory of one thread, for all stacks that it runs.
template <class T>
struct Work {
  PieceMemory<T> piece;
  Buffer<T> products;
  Buffer<T> between;  // (2, kSteps, units): what one layer hands to the next

  explicit Work(int64_t units) : piece(units), products(kProducts * (units + kLanes)) {}

  static Work& of(int64_t units, bool deep) {
    thread_local std::unique_ptr<Work> own;
    if (!own || own->piece.units < units) own = std::make_unique<Work>(units);
    if (deep) own->between.grow(2 * PieceMemory<T>::kSteps * units);
    return *own;
  }
};

}  // namespace

template <class T>
bool Stack<T>::run(StackState<T>& state, const T* x, const int64_t* index, const double* time, int64_t count, T* out) const {
  if (count && time[0] < state.last) return false;
  constexpr int64_t chunk = PieceMemory<T>::kSteps;
  const int64_t depth = static_cast<int64_t>(layers_.size());
  const Work<T>& work = Work<T>::of(units_, depth > 1);
  large_pages(out, count * units_);
  for (int64_t at = 0; at < count; at += chunk) {
    const int64_t events = std::min(chunk, count - at);
    const T* from = x + at * features();
    for (int64_t i = 0; i < depth; i++) {
      const Layer<T> layer = layers_[i].get();
      T* to = i == depth - 1 ? out + at * units_ : work.between.get() + (i % 2) * chunk * units_;
      work.piece.each(engine_, layer, time + at, events, [&](int64_t step, int64_t steps) {
        engine_.forward[cell_](
            layer, {state.z(i), state.c(i), work.products.get()}, {from + step * layer.features, layer.features},
            {to + step * units_, units_}, steps, work.piece.events(), {layers_[i].table.get(), index ? index + at + step : nullptr});
      });
      from = to;
    }
  }
  if (count) state.last = time[count - 1];
  return true;
}

template class Stack<float>;
template class Stack<double>;

}  // namespace phased
