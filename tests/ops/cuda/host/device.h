// The words of device.h of the kernels, on one CPU thread: see grid.h.
#pragma once

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

inline void copy_ahead(void* to_shared, const void* from, int bytes) { copy_later(to_shared, from, bytes); }
template <int Left>
void wait_for_copies() {
  make_copies(Left);
}
inline void end_of_copies() { end_group(); }
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
template <class T>
T* fixed(T* in_shared) {
  return in_shared;
}
inline int of_warp(int number) { return number; }
inline float loaded(float number) { return number; }
inline double loaded(double number) { return number; }

template <int Threads>
void barrier(int number) {
  block->teams[number].wanted = Threads, block->teams[number].wait();
}

}  // namespace phased
