// Threads over the sequences of a batch: the assignment is fixed beforehand, so the same thread count gives the same bits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <numeric>
#include <thread>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif
#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace phased {

// Sequences for each thread, the longest first: each is assigned to the thread with the least work.
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

// torch already has a pool of threads. Where its OpenMP runtime can be found in the process we
// share them, since a second set would fight with the first, which keeps spinning for a while after its own work is done.
struct Team {
  void (*parallel)(void (*)(void*), void*, unsigned threads, unsigned flags);
  int (*number)();
  int (*size)();

  static const Team& of_process() {
    static const Team team = [] {
      Team found{};
#if defined(__unix__) || defined(__APPLE__)
      found.parallel = reinterpret_cast<decltype(found.parallel)>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
      found.number = reinterpret_cast<decltype(found.number)>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
      found.size = reinterpret_cast<decltype(found.size)>(dlsym(RTLD_DEFAULT, "omp_get_num_threads"));
#endif
      return found;
    }();
    return team;
  }
  bool usable() const { return parallel && number && size; }
};

// Runs work(0) to work(count - 1) in as many threads, and throws what the first of them threw. The caller's treatment of denormal
// numbers (torch.set_flush_denormal) holds in all of them.
template <class Work>
void in_parallel(int64_t count, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
#if defined(__SSE2__)
  const unsigned control = _mm_getcsr();
#endif
  const auto guarded = [&](int64_t i) {
#if defined(__SSE2__)
    const unsigned own = _mm_getcsr();
    _mm_setcsr(control);
#endif
    try {
      work(i);
    } catch (...) {
      failures[i] = std::current_exception();
    }
#if defined(__SSE2__)
    _mm_setcsr(own);
#endif
  };
  if (count == 1) {
    guarded(0);
  } else if (Team::of_process().usable()) {
    struct Shared {
      const decltype(guarded)& run;
      int64_t count;
    } shared{guarded, count};
    Team::of_process().parallel(
        [](void* data) {
          const Shared& with = *static_cast<Shared*>(data);
          const Team& team = Team::of_process();
          for (int64_t i = team.number(), step = team.size(); i < with.count; i += step) with.run(i);  // the team may be smaller
        },
        &shared, static_cast<unsigned>(count), 0);
  } else {
    std::vector<std::thread> others;
    for (int64_t i = 1; i < count; i++) others.emplace_back([&, i] { guarded(i); });
    guarded(0);
    for (auto& other : others) other.join();
  }
  for (auto& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace phased
