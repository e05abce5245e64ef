// A GPU's grid on one CPU thread: each of a block's threads is a context of its own. They run in turns, in an order that is drawn anew
// each time, and give way at barriers and exchanges: a missing barrier gives wrong numbers. The compiler's command line includes this
// file, so that it is compiled once for all programs. SHARED says what a kernel's variables in shared memory are: `static`, or nothing
// where all are extern.
#pragma once

#include <sched.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <type_traits>
#include <vector>

#define __device__
#define __global__
#define __shared__ SHARED
#define __align__(bytes)
#define __forceinline__ inline
#define __launch_bounds__(...)

struct alignas(16) int4 {
  int x, y, z, w;
};
struct Place3 {
  unsigned x = 0, y = 0, z = 0;
};
static Place3 threadIdx, blockIdx, blockDim, gridDim;

// Passed when all of its threads have come.
struct Meeting {
  unsigned wanted = 0, come = 0, passed = 0;

  inline void wait();
};
struct Thread {
  ucontext_t context;  // where it begins
  jmp_buf place;       // where it is; to jump there takes no call of the system, as swapcontext does
  std::vector<char> stack;
  const Meeting* meeting;  // that it waits for until this number has passed
  unsigned passed;
  bool begun, done;

  bool waits() const { return meeting && meeting->passed == passed; }
};
static jmp_buf scheduler;
static std::vector<Thread> threads;
static unsigned running;  // its number

inline void give_way() {
  const unsigned own = running;
  if (!_setjmp(threads[own].place)) _longjmp(scheduler, 1);
  running = own, threadIdx.x = own;
}
void Meeting::wait() {
  Thread& own = threads[running];
  own.meeting = this, own.passed = passed;
  if (++come == wanted) come = 0, passed++;
  while (own.waits()) give_way();
}
static Meeting block_meeting, warp_meetings[32], team_meetings[16];
static unsigned long long sent[32][32];

inline void __syncthreads() { block_meeting.wait(); }
inline void __syncwarp() { warp_meetings[threadIdx.x / 32].wait(); }

// What each lane of a warp has sent, given to `read`.
template <class T, class Read>
auto exchanged(T value, const Read& read) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  std::memcpy(&sent[warp][lane], &value, sizeof(T));
  warp_meetings[warp].wait();
  T values[32];
  for (int i = 0; i < 32; i++) std::memcpy(&values[i], &sent[warp][i], sizeof(T));
  const auto found = read(values, int(lane));
  warp_meetings[warp].wait();
  return found;
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int apart) {
  return exchanged(value, [&](const T* of, int lane) { return of[lane ^ apart]; });
}
template <class T>
T __shfl_sync(unsigned, T value, int from) {
  return exchanged(value, [&](const T* of, int) { return of[from]; });
}
template <class T>
T __shfl_up_sync(unsigned, T value, int apart) {
  return exchanged(value, [&](const T* of, int lane) { return of[lane < apart ? lane : lane - apart]; });
}
inline unsigned __match_any_sync(unsigned, int value) {
  return exchanged(value, [](const int* of, int lane) {
    unsigned same = 0;
    for (int i = 0; i < 32; i++) same |= unsigned(of[i] == of[lane]) << i;
    return same;
  });
}
inline unsigned __ballot_sync(unsigned, int value) {
  return exchanged(value, [](const int* of, int) {
    unsigned bits = 0;
    for (int i = 0; i < 32; i++) bits |= unsigned(of[i] != 0) << i;
    return bits;
  });
}
template <class T>
T __reduce_max_sync(unsigned, T value) {
  return exchanged(value, [](const T* of, int) { return *std::max_element(of, of + 32); });
}
template <class T>
T __reduce_add_sync(unsigned, T value) {
  return exchanged(value, [](const T* of, int) { return std::accumulate(of, of + 32, T(0)); });
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
inline int __ffs(unsigned bits) { return __builtin_ffs(int(bits)); }
inline int __clz(unsigned bits) { return bits ? __builtin_clz(bits) : 32; }
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}
template <class T>
T atomicMax(T* to, T value) {
  const T before = *to;
  *to = std::max(before, value);
  return before;
}

// Asynchronous copies of each thread: at once, or as late as they may be, by turns. Either order may happen on a GPU. Until then what
// they overwrite is NaN.
struct Copy {
  void* to;
  const void* from;
  int bytes, group;
};
static std::vector<Copy> copies[1024];
static int groups[1024];  // ended by each thread
static bool late = true;

// Those of all groups that have ended except the last `left`.
inline void make_copies(int left) {
  std::vector<Copy> rest;
  for (const Copy& each : copies[threadIdx.x])
    if (each.group < groups[threadIdx.x] - left) std::memcpy(each.to, each.from, each.bytes);
    else rest.push_back(each);
  copies[threadIdx.x] = rest;
}
inline void end_group() { groups[threadIdx.x]++; }
inline void copy_later(void* to, const void* from, int bytes) {
  if (reinterpret_cast<size_t>(to) % bytes || reinterpret_cast<size_t>(from) % bytes) std::printf("a copy is not aligned\n");
  if (late) std::memset(to, 0xff, bytes), copies[threadIdx.x].push_back({to, from, bytes, groups[threadIdx.x]});
  else std::memcpy(to, from, bytes);
}

static std::mt19937 generator(1), turns(1);
static void (*start_of_thread)();

inline void thread_entry() {
  start_of_thread();
  threads[running].done = true;
  _longjmp(scheduler, 1);
}
inline void go_on(unsigned number) {
  Thread& own = threads[number];
  running = number, threadIdx.x = number;
  if (_setjmp(scheduler)) return;
  if (own.begun) _longjmp(own.place, 1);
  own.begun = true;
  setcontext(&own.context);
}

// Runs the threads of the block that blockIdx names; before it, dynamic shared memory, if there is any, is NaN.
inline void run_block(unsigned count, unsigned char* memory, size_t bytes) {
  if (memory) std::memset(memory, 0xff, bytes);
  block_meeting = {count};
  for (Meeting& each : warp_meetings) each = {32};
  std::vector<unsigned> order(count);
  for (unsigned i = 0; i < count; i++) {
    Thread& each = threads[i];
    getcontext(&each.context);
    each.context.uc_stack.ss_sp = each.stack.data(), each.context.uc_stack.ss_size = each.stack.size();
    each.context.uc_link = nullptr, each.meeting = nullptr, each.begun = each.done = false;
    makecontext(&each.context, thread_entry, 0);
    order[i] = i, groups[i] = 0, copies[i].clear();
  }
  while (!order.empty()) {
    std::shuffle(order.begin(), order.end(), turns);
    bool all_wait = true;
    for (const unsigned i : order)
      if (!threads[i].waits()) go_on(i), all_wait = false;
    if (all_wait) std::puts("all threads wait"), std::fflush(stdout), _exit(1);
    order.erase(std::remove_if(order.begin(), order.end(), [](unsigned i) { return threads[i].done; }), order.end());
  }
}

template <class Kernel>
void prepare(Place3 grid, unsigned count, const Kernel& kernel) {
  static const Kernel* current;
  current = &kernel, start_of_thread = [] { (*current)(); };
  gridDim = grid, blockDim = {count, 1, 1};
  threads.resize(std::max<size_t>(threads.size(), count));
  for (Thread& each : threads) each.stack.resize(1 << 16);
}

// Runs a kernel block by block.
template <class Kernel>
void run_grid(Place3 grid, unsigned count, const Kernel& kernel, unsigned char* memory = nullptr, size_t bytes = 0) {
  prepare(grid, count, kernel);
  for (unsigned block = 0; block < grid.x * grid.y * grid.z; block++) {
    blockIdx = {block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y};
    run_block(count, memory, bytes);
  }
}

// Runs all blocks at once, each in a process of its own; they share the memory that `visible` gave.
template <class Kernel>
void run_together(unsigned blocks, unsigned count, const Kernel& kernel, unsigned char* memory, size_t bytes) {
  prepare({blocks, 1, 1}, count, kernel);
  for (unsigned block = 0; block < blocks; block++)
    if (!fork()) {
      turns.seed(block), blockIdx = {block, 0, 0};
      run_block(count, memory, bytes);
      _exit(0);
    }
  for (unsigned block = 0; block < blocks; block++) wait(nullptr);
}
template <class T>
T* visible(size_t count, int byte = 0xff) {
  void* const found = mmap(nullptr, count * sizeof(T) + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  std::memset(found, byte, count * sizeof(T));
  return static_cast<T*>(found);
}

static int wrong = 0;

inline void expect(double found, double expected, const char* what, double error = 0) {
  if (found == expected || (std::isnan(found) && std::isnan(expected))) return;
  if (std::fabs(found - expected) <= error * (1 + std::fabs(expected))) return;
  if (wrong++ < 5) std::printf("%s: expected %.9g, got %.9g\n", what, expected, found);
}
inline double uniform(double low, double high) { return std::uniform_real_distribution<double>(low, high)(generator); }
template <class T>
std::vector<T> drawn(size_t count, double scale = 1) {
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> found(count);
  for (T& each : found) each = T(normal(generator));
  return found;
}
