// Launches of GPU kernels whose arguments are known except for addresses, one after another. Several are launched as one CUDA
// graph: to replace its arguments and launch it takes less CPU time than single launches (docs/gpu.md). Nothing of CUDA is needed
// to build this: the driver's functions are passed by their addresses.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace phased {

// CUDA_KERNEL_NODE_PARAMS_v2.
struct KernelNode {
  void* function;
  unsigned grid[3], block[3], shared;
  void **pointers, **packed;  // the arguments in one of two forms
  void *kernel, *context;     // instead of a function; the current context
};

// The driver's functions. Without those of graphs, which are null, every kernel is launched by itself.
struct Driver {
  // cuLaunchKernel: kernel, grid, block, bytes of shared memory, stream, and the arguments in one of two forms.
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*create)(void** graph, unsigned flags);                                                  // cuGraphCreate
  int (*add)(void** node, void* graph, void* const* after, size_t count, const KernelNode*);    // cuGraphAddKernelNode_v2
  int (*instantiate)(void** executable, void* graph, unsigned long long flags);                 // cuGraphInstantiateWithFlags
  int (*replace)(void* executable, void* node, const KernelNode*);                              // cuGraphExecKernelNodeSetParams_v2
  int (*start)(void* executable, void* stream);                                                 // cuGraphLaunch
  int (*destroy)(void* graph);                                                                  // cuGraphDestroy
  int (*destroy_executable)(void* executable);                                                  // cuGraphExecDestroy
  int (*exchange_mode)(int* mode);  // cuThreadExchangeStreamCaptureMode
};

// While a user records a graph, in this thread or in another, calls that may wait for the GPU or allocate fail, and the recording
// is lost. In the relaxed mode of a thread they are allowed: nothing that this file does belongs to a recorded stream.
class Relaxed {
 public:
  explicit Relaxed(const Driver& driver) : exchange_(driver.exchange_mode) { exchange_(&mode_); }
  ~Relaxed() { exchange_(&mode_); }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  int (*exchange_)(int*);
  int mode_ = 2;  // CU_STREAM_CAPTURE_MODE_RELAXED; then the one before
};

constexpr int kNoContext = 201;  // CUDA_ERROR_INVALID_CONTEXT: the thread has to attach to one, and to try again

// An argument that is an offset from the address of this number.
struct Place {
  int64_t argument, number;
};

struct Launch {
  void* kernel;
  unsigned grid[3];
  unsigned block, shared;
  std::vector<uint64_t> arguments;  // 64 bits each
  std::vector<Place> places;

  std::vector<uint64_t> filled(const std::vector<uint64_t>& addresses) const {
    std::vector<uint64_t> found = arguments;
    for (const Place& place : places) found[place.argument] += addresses.at(place.number);
    return found;
  }
};

// Arguments as the driver takes them: CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END.
class Packed {
 public:
  explicit Packed(std::vector<uint64_t> arguments)
      : arguments_(std::move(arguments)),
        size_(arguments_.size() * sizeof(uint64_t)),
        parts_{mark(1), arguments_.data(), mark(2), &size_, mark(0)} {}
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  void** parts() { return parts_; }

 private:
  static void* mark(uintptr_t number) { return reinterpret_cast<void*>(number); }

  std::vector<uint64_t> arguments_;
  size_t size_;
  void* parts_[5];
};

// Launches as a graph, one after another.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { clear(); }

  bool refused() const { return refused_; }  // the driver could not make or run it, and it is not tried again

  // Runs all launches, or none. Returns the status of the driver's last call.
  int run(const Driver& driver, void* stream, const Launch* launches, size_t count, const std::vector<uint64_t>& addresses) {
    const Relaxed mode(driver);
    int status = executable_ ? replace(launches, count, addresses) : make(driver, launches, count, addresses);
    if (!status) status = driver.start(executable_, stream);
    refused_ = status && status != kNoContext;
    if (refused_) clear();
    return status;
  }

 private:
  int make(const Driver& driver, const Launch* launches, size_t count, const std::vector<uint64_t>& addresses) {
    clear();
    driver_ = driver;
    int status = driver.create(&graph_, 0);
    for (size_t i = 0; i < count && !status; i++) {
      Packed packed(launches[i].filled(addresses));
      const KernelNode node = node_of(launches[i], packed);
      void* made = nullptr;
      status = driver.add(&made, graph_, nodes_.empty() ? nullptr : &nodes_.back(), nodes_.empty() ? 0 : 1, &node);
      nodes_.push_back(made);
    }
    return status ? status : driver.instantiate(&executable_, graph_, 0);
  }

  int replace(const Launch* launches, size_t count, const std::vector<uint64_t>& addresses) {
    int status = 0;
    for (size_t i = 0; i < count && !status; i++) {
      Packed packed(launches[i].filled(addresses));
      const KernelNode node = node_of(launches[i], packed);
      status = driver_.replace(executable_, nodes_[i], &node);
    }
    return status;
  }

  static KernelNode node_of(const Launch& launch, Packed& packed) {
    return {nullptr, {launch.grid[0], launch.grid[1], launch.grid[2]}, {launch.block, 1, 1}, launch.shared,
            nullptr, packed.parts(),  launch.kernel, nullptr};
  }

  // What runs is freed when it has ended.
  void clear() {
    nodes_.clear();
    if (!graph_) return;
    const Relaxed mode(driver_);
    if (executable_) driver_.destroy_executable(executable_);
    driver_.destroy(graph_);
    executable_ = graph_ = nullptr;
  }

  Driver driver_{};
  bool refused_ = false;
  void *graph_ = nullptr, *executable_ = nullptr;
  std::vector<void*> nodes_;
};

class Launches {
 public:
  void add(Launch launch) { launches_.push_back(std::move(launch)); }

  // Launches numbers `first` to before `end`. Returns the number of the next launch, and the status of the last call.
  std::pair<size_t, int> run(const Driver& driver, void* stream, const std::vector<uint64_t>& addresses, size_t first, size_t end) {
    const std::lock_guard<std::mutex> alone(mutex_);  // of several threads that run the same launches
    if (driver.create && first + 1 < end && end <= launches_.size()) {
      Graph& graph = graphs_[{first, end}];
      const int status = graph.refused() ? 0 : graph.run(driver, stream, &launches_[first], end - first, addresses);
      if (!graph.refused()) return {status ? first : end, status};
    }
    for (size_t i = first; i < end; i++) {
      const Launch& launch = launches_.at(i);
      Packed packed(launch.filled(addresses));
      const int status = driver.launch(launch.kernel, launch.grid[0], launch.grid[1], launch.grid[2], launch.block, 1, 1,
                                       launch.shared, stream, nullptr, packed.parts());
      if (status) return {i, status};
    }
    return {end, 0};
  }

 private:
  std::vector<Launch> launches_;
  std::map<std::pair<size_t, size_t>, Graph> graphs_;
  std::mutex mutex_;
};

}  // namespace phased
