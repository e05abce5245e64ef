// Runs the grid of a GPU kernel on one CPU thread. Each thread of the grid is a context. The contexts run in turns and give way at
// barriers and exchanges. The order is drawn anew for each turn, so that a missing barrier gives wrong numbers. g++ compiles this header
// once for all kernels.
#pragma once

#include <sched.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <tuple>
#include <type_traits>
#include <vector>

#define __device__
#define __global__
#define __shared__ static  // of the block that runs: others run before or after it
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
static unsigned char* dynamic_memory;  // shared memory of the block that runs
static const char* fault;              // what is wrong with this launch
static bool left;                      // the batch is another kernel's

inline bool noted(bool is_called) { return left |= !is_called, is_called; }

// Passed when all of its threads have come.
struct Meeting {
  unsigned wanted = 0, come = 0, passed = 0;

  inline void wait();
};
// An asynchronous copy of a thread. All are made at once, or as late as they may be; until then what they overwrite is NaN. Either order
// may happen on a GPU.
struct Copy {
  void* to;
  const void* from;
  int bytes, group;
};
static bool late;
struct Thread {
  ucontext_t context;  // where it begins
  jmp_buf place;       // where it is; to jump there takes no call of the system, as swapcontext does
  std::unique_ptr<char[]> stack;
  const Meeting* meeting;  // that it waits for until this number has passed
  unsigned passed;
  bool begun = false, done;
  std::vector<Copy> copies;
  int groups;  // of copies that it has ended

  bool waits() const { return meeting && meeting->passed == passed; }
};
struct Block {
  Place3 place;
  std::vector<Thread> threads;
  std::vector<unsigned> rest;  // threads that are not done
  std::vector<unsigned char> memory;
  Meeting all, warps[32], teams[16];
  unsigned long long sent[32][32];
};
static jmp_buf scheduler;
static Block* block;
static Thread* running;

inline void resume(Thread& thread) {
  running = &thread, threadIdx.x = unsigned(&thread - block->threads.data());
}
inline void give_way() {
  Thread& own = *running;
  if (!_setjmp(own.place)) _longjmp(scheduler, 1);
}
void Meeting::wait() {
  Thread& own = *running;
  own.meeting = this, own.passed = passed;
  if (++come == wanted) come = 0, passed++;
  while (own.waits()) give_way();
}
inline void __syncthreads() { block->all.wait(); }
inline void __syncwarp() { block->warps[threadIdx.x / 32].wait(); }

// What each lane of a warp has sent, given to `read`.
template <class T, class Read>
auto exchanged(T value, const Read& read) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  std::memcpy(&block->sent[warp][lane], &value, sizeof(T));
  block->warps[warp].wait();
  T values[32];
  for (int i = 0; i < 32; i++) std::memcpy(&values[i], &block->sent[warp][i], sizeof(T));
  const auto found = read(values, int(lane));
  block->warps[warp].wait();
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

// The copies of all groups that have ended except the last `left`.
inline void make_copies(int left) {
  std::vector<Copy> rest;
  for (const Copy& each : running->copies)
    if (each.group < running->groups - left) std::memcpy(each.to, each.from, each.bytes);
    else rest.push_back(each);
  running->copies = rest;
}
inline void end_group() { running->groups++; }
inline void copy_later(void* to, const void* from, int bytes) {
  if (reinterpret_cast<size_t>(to) % bytes || reinterpret_cast<size_t>(from) % bytes) fault = "a copy is not aligned";
  if (late) std::memset(to, 0xff, bytes), running->copies.push_back({to, from, bytes, running->groups});
  else std::memcpy(to, from, bytes);
}

static std::mt19937 turns(1);
static void (*kernel_of_thread)();

inline void live() {
  for (;;) {  // a kernel for each block that the context belongs to
    kernel_of_thread();
    running->done = true;
    give_way();
  }
}
inline void go_on(Thread& thread) {
  resume(thread);
  if (_setjmp(scheduler)) return;
  if (thread.begun) _longjmp(thread.place, 1);
  thread.begun = true;
  setcontext(&thread.context);
}

constexpr size_t kStack = 1 << 16, kBeyond = 64;  // bytes after dynamic memory that nothing may write to

inline void begin(Block& own, unsigned number, unsigned count) {
  own.place = {number % gridDim.x, number / gridDim.x % gridDim.y, number / gridDim.x / gridDim.y};
  std::fill(own.memory.begin(), own.memory.end(), 0xff);  // NaN
  own.all = {count};
  for (Meeting& each : own.warps) each = {32};
  own.threads.resize(count), own.rest.resize(count);
  std::iota(own.rest.begin(), own.rest.end(), 0);
  for (Thread& each : own.threads) {
    each.meeting = nullptr, each.done = false, each.groups = 0, each.copies.clear();
    if (each.begun) continue;
    each.stack.reset(new char[kStack]);
    getcontext(&each.context);
    each.context.uc_stack.ss_sp = each.stack.get(), each.context.uc_stack.ss_size = kStack, each.context.uc_link = nullptr;
    makecontext(&each.context, live, 0);
  }
}

// A turn for each thread; whether any is left.
inline bool go_on(Block& own) {
  block = &own, blockIdx = own.place, dynamic_memory = own.memory.data();
  std::shuffle(own.rest.begin(), own.rest.end(), turns);
  bool all_wait = true;
  for (const unsigned i : own.rest)
    if (!own.threads[i].waits()) go_on(own.threads[i]), all_wait = false;
  if (all_wait) fault = "all threads wait";
  own.rest.erase(std::remove_if(own.rest.begin(), own.rest.end(), [&](unsigned i) { return own.threads[i].done; }), own.rest.end());
  if (!own.rest.empty()) return !fault;
  if (std::any_of(own.memory.end() - kBeyond, own.memory.end(), [](unsigned char byte) { return byte != 0xff; }))
    fault = "shared memory is too small";
  return false;
}

// Runs a kernel with its packed arguments, block by block or all blocks at once; returns "ran", "left", or what is wrong.
template <class... P>
const char* launch(void (*kernel)(P...), const unsigned* grid, unsigned count, const unsigned char* packed, size_t size,
                   size_t memory, bool together) {
  static void (*current)(P...);
  static const unsigned char* arguments;
  if (size != (sizeof(P) + ... + 0)) return "the arguments are not the kernel's";
  current = kernel, arguments = packed, late = !late, fault = nullptr, left = false;
  kernel_of_thread = [] {
    const unsigned char* from = arguments;
    std::tuple<std::remove_const_t<P>...> given;
    std::apply([&](auto&... each) { ((std::memcpy(&each, from, sizeof(each)), from += sizeof(each)), ...); }, given);
    std::apply(current, given);
  };
  gridDim = {grid[0], grid[1], grid[2]}, blockDim = {count, 1, 1};
  const unsigned blocks = grid[0] * grid[1] * grid[2];
  std::vector<Block> all(together ? blocks : 1);
  for (Block& each : all) each.memory.resize(memory + kBeyond);
  if (together) {
    for (unsigned number = 0; number < blocks; number++) begin(all[number], number, count);
    for (bool any = true; any && !fault;) {
      any = false;
      for (Block& each : all) any |= !each.rest.empty() && go_on(each);
    }
  }
  for (unsigned number = 0; number < blocks && !together && !fault; number++) {
    begin(all[0], number, count);
    while (go_on(all[0]));
  }
  return fault ? fault : left ? "left" : "ran";
}
