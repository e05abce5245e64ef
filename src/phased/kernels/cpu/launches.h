// Launches of GPU kernels whose arguments are known except for addresses, one after another. Nothing of CUDA is needed to build
// this: the driver's function cuLaunchKernel is passed by its address.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace phased {

// cuLaunchKernel: kernel, grid, block, bytes of shared memory, stream, and the arguments in one of two forms.
using LaunchKernel = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);

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
};

class Launches {
 public:
  void add(Launch launch) { launches_.push_back(std::move(launch)); }

  // Launches numbers `first` to before `end`. Returns the number of the next launch, and the status of the last call.
  std::pair<size_t, int> run(LaunchKernel start, void* stream, const std::vector<uint64_t>& addresses, size_t first,
                             size_t end) const {
    std::vector<uint64_t> arguments;
    for (size_t i = first; i < end; i++) {
      const Launch& launch = launches_.at(i);
      arguments = launch.arguments;
      for (const Place& place : launch.places) arguments[place.argument] += addresses.at(place.number);
      size_t size = arguments.size() * sizeof(uint64_t);
      void* packed[] = {pointer(1), arguments.data(), pointer(2), &size, pointer(0)};  // CU_LAUNCH_PARAM_BUFFER_POINTER, _SIZE
      const int status = start(launch.kernel, launch.grid[0], launch.grid[1], launch.grid[2], launch.block, 1, 1, launch.shared,
                               stream, nullptr, packed);
      if (status) return {i, status};
    }
    return {end, 0};
  }

 private:
  static void* pointer(uintptr_t mark) { return reinterpret_cast<void*>(mark); }

  std::vector<Launch> launches_;
};

}  // namespace phased
