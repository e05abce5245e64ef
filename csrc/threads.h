// Threads over the sequences of a batch: who takes which is settled beforehand, so the same thread count gives the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace phased {

// Sequences for each thread, the longest first: each goes to the thread that has least to do.
inline std::vector<std::vector<int64_t>> share(const int64_t* lengths, int64_t batch, int64_t threads) {
  std::vector<int64_t> order(batch);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  std::vector<std::vector<int64_t>> shares(std::max<int64_t>(1, std::min(threads, batch)));
  std::vector<int64_t> load(shares.size());
  for (int64_t b : order) {
    const auto least = std::min_element(load.begin(), load.end()) - load.begin();
    shares[least].push_back(b);
    load[least] += lengths[b] + 1;
  }
  return shares;
}

// Runs work(0) to work(count - 1), each in its own thread, and throws what the first of them threw. The caller's treatment of
// denormal numbers (torch.set_flush_denormal) holds in all of them.
template <class Work>
void in_parallel(int64_t count, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
#if defined(__SSE2__)
  const unsigned control = _mm_getcsr();
#endif
  const auto guarded = [&](int64_t i) {
    try {
      work(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < count; i++)
    others.emplace_back([&, i] {
#if defined(__SSE2__)
      _mm_setcsr(control);
#endif
      guarded(i);
    });
  guarded(0);
  for (auto& other : others) other.join();
  for (auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace phased
