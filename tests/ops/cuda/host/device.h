// A GPU's blocks on a CPU's threads: a thread for each of theirs, barriers, and exchanges between the lanes of a warp.
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

namespace phased {

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
inline float tanh(float x) { return std::tanh(x); }
inline double tanh(double x) { return std::tanh(x); }

#if PHASED_TAPE == 1
inline float widened(unsigned short bits) {
  const unsigned all = static_cast<unsigned>(bits) << 16;
  float x;
  std::memcpy(&x, &all, 4);
  return x;
}
inline unsigned short rounded(float x) {  // of a finite number
  unsigned bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<unsigned short>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#elif PHASED_TAPE == 2
inline float widened(unsigned short bits) {
  _Float16 x;
  std::memcpy(&x, &bits, 2);
  return static_cast<float>(x);
}
inline unsigned short rounded(float x) {
  const _Float16 half = static_cast<_Float16>(x);
  unsigned short bits;
  std::memcpy(&bits, &half, 2);
  return bits;
}
#endif

#if PHASED_TAPE
inline unsigned rounded_pair(float low, float high) { return rounded(low) | static_cast<unsigned>(rounded(high)) << 16; }
inline void widen_pair(unsigned bits, float& low, float& high) {
  low = widened(static_cast<unsigned short>(bits)), high = widened(static_cast<unsigned short>(bits >> 16));
}
inline bool has_sign(float x) { return std::signbit(x); }
#endif

inline unsigned long long bits_of(double x) {
  unsigned long long bits;
  std::memcpy(&bits, &x, 8);
  return bits;
}
inline unsigned low_word(double x) { return static_cast<unsigned>(bits_of(x)); }
inline unsigned high_word(double x) { return static_cast<unsigned>(bits_of(x) >> 32); }
inline double of_high_word(unsigned word) {
  const unsigned long long bits = static_cast<unsigned long long>(word) << 32;
  double x;
  std::memcpy(&x, &bits, 8);
  return x;
}

alignas(16) unsigned char shared[1 << 18];  // of the block that runs

#ifdef COPIES_ARE_LATE  // as late as they may be: host/grid.h makes them when a thread waits for them
inline void copy_ahead(void* to_shared, const void* from, int bytes) { copy_later(to_shared, from, bytes); }
template <int Left>
void wait_for_copies() {
  make_copies(Left);
}
inline void end_of_copies() { end_group(); }
#else
// Asynchronous copies are made as late as they may be: at the wait for them. Until then what they overwrite is NaN.
struct Copy {
  void* to;
  const void* from;
  int bytes;
};
static thread_local std::vector<Copy> issued;
static thread_local std::deque<std::vector<Copy>> groups;

inline void copy_ahead(void* to_shared, const void* from, int bytes) {
  std::memset(to_shared, 0xff, bytes);
  issued.push_back({to_shared, from, bytes});
}
inline void end_of_copies() { groups.push_back(std::move(issued)), issued.clear(); }
template <int Left>
void wait_for_copies() {
  for (; groups.size() > Left; groups.pop_front())
    for (const Copy& copy : groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
}
#endif
inline void bring_near(const void*) {}

// Numbers that blocks exchange: a thread that looks one up gives way, so that others write.
inline float unwritten() {
  const unsigned bits = 0xffffffffu;
  float number;
  std::memcpy(&number, &bits, 4);
  return number;
}
inline bool is_written(float number) {
  unsigned bits;
  std::memcpy(&bits, &number, 4);
  return bits != 0xffffffffu;
}
inline void publish(float* to, float number) { __atomic_store(to, &number, __ATOMIC_RELAXED); }
inline void publish_four(float* to, const float v[4]) {
  for (int i = 3; i >= 0; i--) publish(to + i, v[i]);
}
#ifdef COPIES_ARE_LATE
inline float look_up(const float* from) {
  float number;
  __atomic_load(from, &number, __ATOMIC_RELAXED);
  if (!is_written(number)) sched_yield();
  give_way();
  return number;
}
inline void look_up_four(float to[4], const float* from) {
  for (int i = 0; i < 4; i++) to[i] = look_up(from + i);
}
#endif
template <class T>
T* fixed(T* in_shared) {
  return in_shared;
}
inline int of_warp(int number) { return number; }
inline float loaded(float number) { return number; }
inline double loaded(double number) { return number; }

template <int Threads>
void barrier(int number) {
  pthread_barrier_wait(teams + number);
}

// Runs a kernel block by block; before each, shared memory is NaN. A team has `team` threads.
template <class Kernel>
void run(int grid, int threads, int team, const Kernel& kernel) {
  blockDim.x = threads;
  for (int block = 0; block < grid; block++) {
    std::memset(shared, 0xff, sizeof(shared));
    pthread_barrier_init(&all, nullptr, threads);
    for (int warp = 0; warp < threads / 32; warp++) pthread_barrier_init(warps + warp, nullptr, 32);
    for (int number = 1; number <= threads / team && number < 16; number++) pthread_barrier_init(teams + number, nullptr, team);
    std::vector<std::thread> started;
    for (int i = 0; i < threads; i++)
      started.emplace_back([&, i] {
        threadIdx.x = i, blockIdx.x = block;
        kernel();
      });
    for (auto& each : started) each.join();
  }
}

}  // namespace phased
