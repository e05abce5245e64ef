// The core as a Python module. Memory is passed as addresses: the Python code in phased/ops/cpu owns it and has checked it.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdexcept>
#include <limits>

#include "batch.h"
#include "clock.h"
#ifdef PHASED_X86
#include "cpu_features.h"
#endif
#include "gpu_launches.h"
#include "inputs.h"
#include "online.h"
#include "recent.h"
#include "shares.h"
#include "stream.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace phased {
namespace {

using Address = uintptr_t;

template <class T>
T* at(Address address) {
  return reinterpret_cast<T*>(address);
}

// The engines this CPU can run, the best first.
const std::vector<Engines>& available() {
  static const std::vector<Engines> all = [] {
    std::vector<Engines> found;
#ifdef PHASED_X86
    const CpuFeatures cpu = CpuFeatures::detect();
    if (cpu.avx512) found.push_back(engines_avx512());
    if (cpu.avx2) found.push_back(engines_avx2());
#endif
    found.push_back(engines_baseline());
    return found;
  }();
  return all;
}

const Engines* named(const std::string& name) {
  for (const Engines& each : available())
    if (name == each.name) return &each;
  return nullptr;
}

// The engines in use: at first the best this CPU has, and none better than PHASED_INSTRUCTION_SET, if that is set.
std::atomic<const Engines*>& in_use() {
  static std::atomic<const Engines*> chosen = [] {
    const std::vector<std::string> sets{"avx512", "avx2", "baseline"};  // the best first
    const char* variable = std::getenv("PHASED_INSTRUCTION_SET");
    auto limit = std::find(sets.begin(), sets.end(), variable ? variable : sets.front());
    if (limit == sets.end())
      throw std::invalid_argument(std::string("PHASED_INSTRUCTION_SET must be avx512, avx2 or baseline, got ") + variable + ".");
    while (!named(*limit)) ++limit;  // every CPU has the baseline
    return named(*limit);
  }();
  return chosen;
}

const Engines& engines() { return *in_use().load(); }

template <class T>
TorchWeights<T> torch_weights(const std::vector<Address>& a) {
  return {at<T>(a[0]), at<T>(a[1]), at<T>(a[2]), at<T>(a[3])};
}

template <class T>
void bind(nb::module_& m, const char* suffix) {
  const auto with_suffix = [&](const char* name) { return std::string(name) + suffix; };
  using Release = nb::call_guard<nb::gil_scoped_release>;
  const auto def = [&](const char* name, const auto& function) { m.def(with_suffix(name).c_str(), function, Release()); };

  nb::class_<Problem<T>>(m, with_suffix("Problem").c_str())
      .def("__init__",
           [](Problem<T>* self, int cell, int shape, double leak, int64_t batch, int64_t steps, int64_t features, int64_t units,
              Address input, int64_t input_batch, int64_t input_step, Address time, Address lengths, Address h, Address c,
              const std::vector<Address>& weights, Address peephole, const std::vector<Address>& gate,
              const std::vector<double>& bounds, int64_t threads) {
             check_lengths(at<int64_t>(lengths), batch, steps);
             new (self) Problem<T>{cell,
                                   shape,
                                   leak,
                                   batch,
                                   steps,
                                   features,
                                   units,
                                   at<T>(input),
                                   input_batch,
                                   input_step,
                                   at<double>(time),
                                   at<int64_t>(lengths),
                                   at<T>(h),
                                   at<T>(c),
                                   torch_weights<T>(weights),
                                   at<T>(peephole),
                                   threads,
                                   Gates(at<double>(gate[0]), at<double>(gate[1]), at<double>(gate[2]), units,
                                         {bounds[0], bounds[1], bounds[2]})};
           })
      .def_prop_ro("ratio_on", [](const Problem<T>& p) {  // the mean
        double sum = 0;
        for (int64_t n = 0; n < p.units; n++) sum += p.gates.ratio_on()[n];
        return sum / static_cast<double>(p.units);
      });

  nb::class_<Schedule<T>>(m, with_suffix("Schedule").c_str()).def_ro("slots", &Schedule<T>::slots);

  def("schedule", [](const Problem<T>& p) { return make_schedule(of<T>(engines()), p); });
  def("forward", [](const Problem<T>& p, const Schedule<T>& schedule, Address output, Address h, Address c, Address start,
                    Address unit, Address k, Address side, Address tape) {
    forward<T>(of<T>(engines()), p, schedule, {at<T>(output), at<T>(h), at<T>(c)},
               {at<int64_t>(start), at<int32_t>(unit), at<T>(k), at<uint8_t>(side), at<T>(tape), schedule.slots});
  });
  def("infer", [](const Problem<T>& p, Address output, Address h, Address c) {
    infer<T>(of<T>(engines()), p, {at<T>(output), at<T>(h), at<T>(c)});
  });
  def("count_open", [](const Problem<T>& p, Address counts) { count_open<T>(of<T>(engines()), p, at<int64_t>(counts)); });
  def("backward", [](const Problem<T>& p, Address start, Address unit, Address k, Address side, Address tape, int64_t slots,
                     Address output, Address to_output, int64_t output_batch, int64_t output_step, Address to_h, Address to_c,
                     Address input, Address h, Address c, const std::vector<Address>& weights, Address peephole, Address gate) {
    backward<T>(of<T>(engines()), p, {at<int64_t>(start), at<int32_t>(unit), at<T>(k), at<uint8_t>(side), at<T>(tape), slots},
                at<T>(output), {at<T>(to_output), output_batch, output_step, at<T>(to_h), at<T>(to_c)},
                {at<T>(input), at<T>(h), at<T>(c), torch_weights<T>(weights), at<T>(peephole), at<double>(gate)});
  });
  def("forward_dense", [](const Problem<T>& p, Address output, Address h, Address c, Address tape) {
    forward_dense<T>(of<T>(engines()), p, {at<T>(output), at<T>(h), at<T>(c)}, at<T>(tape));
  });
  def("backward_dense", [](const Problem<T>& p, Address output, Address tape, Address to_output, int64_t output_batch,
                           int64_t output_step, Address to_h, Address to_c, Address to_products, Address h, Address c,
                           Address peephole, Address gate) {
    backward_dense<T>(of<T>(engines()), p, at<T>(output), at<T>(tape),
                      {at<T>(to_output), output_batch, output_step, at<T>(to_h), at<T>(to_c)}, at<T>(to_products),
                      {nullptr, at<T>(h), at<T>(c), {}, at<T>(peephole), at<double>(gate)});
  });

  // Sizes: steps, batch, variables, features, and the strides of RecentBatch.
  def("recent", [](const std::vector<int64_t>& n, Address x, Address lengths, Address to, double rate) {
    check_lengths(at<int64_t>(lengths), n[1], n[0]);
    recent<T>({n[1], n[2], n[3], at<T>(x), n[4], n[5], at<int64_t>(lengths), at<T>(to), n[6], n[7]}, static_cast<T>(rate));
  });

  using Row = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  using Out = nb::ndarray<nb::numpy, T, nb::ndim<1>>;
  nb::class_<StackState<T>>(m, with_suffix("StackState").c_str())
      .def("copy", [](const StackState<T>& self) { return self; })
      .def_ro("time", &StackState<T>::last);
  nb::class_<Stack<T>>(m, with_suffix("Stack").c_str())
      .def("__init__",
           [](Stack<T>* self, int cell, int64_t units, const std::vector<nb::dict>& layers) {
             std::vector<StackLayer<T>> made;
             for (const nb::dict& given : layers) {
               const auto number = [&](const char* key) { return nb::cast<int64_t>(given[key]); };
               const auto values = [&](const char* key) { return at<T>(nb::cast<Address>(given[key])); };
               const auto addresses = [&](const char* key) { return nb::cast<std::vector<Address>>(given[key]); };
               const std::vector<Address> gate = addresses("gate");
               const double inf = std::numeric_limits<double>::infinity();
               const int64_t features = number("features");
               made.push_back({features, static_cast<int>(number("shape")),
                               pack<T>(cell, units, features, torch_weights<T>(addresses("weights"))),
                               Buffer<T>(values("peephole"), values("peephole") ? 3 * units : 0),
                               Gates(at<double>(gate[0]), at<double>(gate[1]), at<double>(gate[2]), units, {-inf, inf, -inf}),
                               Buffer<T>(values("table"), number("entries") * units * 4)});
             }
             new (self) Stack<T>(of<T>(engines()), cell, units, std::move(made));
           })
      .def("start", &Stack<T>::start)
      // A state as bytes: the time as float64, h and c. And one from them.
      .def("pack",
           [](const Stack<T>& self, StackState<T>& state) {
             std::string bytes;
             state.each_part(self.has_c(), [&](void* values, size_t size) { bytes.append(static_cast<char*>(values), size); });
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("unpack",
           [](const Stack<T>& self, const nb::bytes& bytes) {
             StackState<T> state = self.start();
             size_t at = 0;
             state.each_part(self.has_c(), [&](void* values, size_t size) {
               if (at + size <= bytes.size()) std::memcpy(values, bytes.c_str() + at, size);
               at += size;
             });
             if (at != bytes.size()) throw nb::value_error("a state must have the bytes of its stack");
             return state;
           })
      .def(
          "run",
          [](const Stack<T>& self, StackState<T>& state, Address x, Address index, Address time, int64_t count, Address out) {
            if (!self.run(state, at<T>(x), at<int64_t>(index), at<double>(time), count, at<T>(out)))
              throw std::invalid_argument(
                  "time must not go backwards: another thread has pushed a later event. Use one stream a thread.");
          },
          Release())
      // One event by the shortest path: an array of the stack's type, or an index into its table. None, and nothing is taken, for
      // any other event, which the caller then checks.
      .def("push", [](const Stack<T>& self, StackState<T>& state, nb::handle x, double time) -> nb::object {
        Row row;
        const int64_t entries = self.entries();
        int64_t index = 0;
        bool usual = std::isfinite(time);
        if (entries) {
          usual = usual && nb::try_cast(x, index) && 0 <= index && index < entries;
        } else {
          usual = usual && nb::try_cast(x, row, false) && static_cast<int64_t>(row.shape(0)) == self.features();
          for (int64_t d = 0; usual && d < self.features(); d++) usual = std::fabs(row.data()[d]) <= std::numeric_limits<T>::max();
        }
        if (!usual) return nb::none();
        T* out = new T[self.units()];
        nb::capsule owner(out, [](void* p) noexcept { delete[] static_cast<T*>(p); });
        const bool taken = self.run(state, entries ? nullptr : row.data(), entries ? &index : nullptr, &time, 1, out);
        return taken ? nb::cast(Out(out, {static_cast<size_t>(self.units())}, owner)) : nb::none();
      });
}

void bind_clock(nb::module_& m) {
  m.def("is_clock", [](Address time, int64_t steps, int64_t batch, int64_t of_step, int64_t of_sequence, Address lengths) {
    return is_clock(at<double>(time), steps, batch, of_step, of_sequence, at<int64_t>(lengths));
  });
}

// The driver's functions are given by their addresses, in the order of Driver; those of graphs may be left out. The arguments of a
// launch are its packed bytes, and pairs (argument, number of the address that is added to it).
void bind_launches(nb::module_& m) {
  nb::class_<Driver>(m, "Driver").def("__init__", [](Driver* self, const std::vector<Address>& functions) {
    constexpr size_t count = sizeof(Driver) / sizeof(void*);
    Address all[count] = {};
    std::copy_n(functions.begin(), std::min(functions.size(), count), all);
    new (self) Driver;
    std::memcpy(self, all, sizeof(Driver));
  });
  nb::class_<Launches>(m, "Launches")
      .def(nb::init<>())
      .def("add",
           [](Launches& self, Address kernel, const std::vector<unsigned>& grid, unsigned block, unsigned shared,
              const nb::bytes& arguments, const std::vector<std::pair<int64_t, int64_t>>& places) {
             Launch launch{at<void>(kernel), {grid[0], grid[1], grid[2]}, block, shared, {}, {}};
             launch.arguments.resize(arguments.size() / sizeof(uint64_t));
             std::memcpy(launch.arguments.data(), arguments.c_str(), launch.arguments.size() * sizeof(uint64_t));
             for (const auto& [argument, number] : places) {
               if (argument < 0 || argument >= static_cast<int64_t>(launch.arguments.size()))
                 throw nb::index_error("a place must be that of an argument");
               launch.places.push_back({argument, number});
             }
             self.add(std::move(launch));
           })
      .def(
          "run",
          [](Launches& self, const Driver& driver, Address stream, const std::vector<uint64_t>& addresses, size_t first,
             size_t end) { return self.run(driver, at<void>(stream), addresses, first, end); },
          nb::call_guard<nb::gil_scoped_release>());
}

// Returns memory that was freed to the system. glibc keeps it otherwise, for allocations of similar sizes.
void trim() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

// Estimators are float32.
void bind_online(nb::module_& m) {
  using Memory = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  m.def("trim", trim);
  nb::class_<Inputs>(m, "Inputs")
      .def("__init__",
           [](Inputs* self, int64_t variables, int64_t numbers, const std::vector<int64_t>& number, const std::vector<double>& s) {
             new (self) Inputs{{variables, numbers}, number, s[0], s[1], s[2], s[3]};
           })
      .def(
          "batch",
          [](const Inputs& self, const std::vector<int64_t>& sizes, const std::vector<Address>& a) {
            inputs(self, {sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], at<int64_t>(a[0]), at<int64_t>(a[1]), at<int64_t>(a[2]),
                          at<int64_t>(a[3]), at<double>(a[4]), at<int32_t>(a[5]), at<float>(a[6]), at<float>(a[7])});
          },
          nb::call_guard<nb::gil_scoped_release>())
      // One step of one sequence. state: the arrays of InputState, one after another. values: of all variables, NaN where not
      // measured.
      .def("step", [](const Inputs& self, Address x, Address state, double now, double after, Address values) {
        const auto [variables, numbers] = self.sizes;
        const float* given = at<float>(values);
        std::vector<Measured> measured;
        for (int64_t v = 0; v < variables; v++)
          if (!std::isnan(given[v])) measured.push_back({v, given[v]});
        double* since = at<double>(state);
        double *count = since + variables, *mean = count + variables;
        self.step(at<float>(x), {since, count, mean, mean + numbers}, now, after, measured.data(),
                  static_cast<int64_t>(measured.size()), [](float age) { return std::log1p(age); });
      });
  nb::class_<Shares>(m, "Shares")
      .def("__init__",
           [](Shares* self, int64_t channels, int64_t kernels, const std::vector<Address>& a) {
             new (self) Shares(channels, kernels, at<int32_t>(a[0]), at<int32_t>(a[1]), at<int32_t>(a[2]), at<int32_t>(a[3]),
                               at<int32_t>(a[4]));
           })
      .def(
          "batch",
          [](const Shares& self, int64_t sequences, int64_t stride, Address offset, Address rows, Address counts) {
            self.batch(sequences, stride, at<int64_t>(offset), at<float>(rows), at<int32_t>(counts));
          },
          nb::call_guard<nb::gil_scoped_release>())
      .def("step",
           [](const Shares& self, Address row, Address ring, Address counts, int64_t before) {
             self.step(at<float>(row), at<int16_t>(ring), at<int32_t>(counts), before);
           })
      .def("read", [](const Shares& self, Address counts, int64_t steps, Address weight, int64_t outputs, Address out) {
        self.read(at<int32_t>(counts), steps, at<float>(weight), outputs, at<double>(out));
      });
  nb::class_<OnlineModel>(m, "OnlineModel")
      .def("__init__",
           [](OnlineModel* self, const Stack<float>& layer, const Inputs& inputs, const std::vector<int64_t>& n,
              const std::vector<int64_t>& places, const std::vector<double>& times, const std::vector<Address>& a,
              const Shares* shares, bool recurrent) {
             const OnlineSizes sizes{n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7]};
             const int64_t pieces = sizes.pieces * sizes.columns(), outputs = sizes.outputs, paired = sizes.paired;
             const auto floats = [&](int array, int64_t count) { return Buffer<float>(at<float>(a[array]), count); };
             const auto dense = [&](int array, int64_t read) { return Dense{floats(array, sizes.units * read), floats(array + 1, sizes.units)}; };
             new (self) OnlineModel{layer, inputs, sizes, places, times[0], times[1], times[2], static_cast<float>(times[3]),
                                    floats(0, pieces), floats(1, pieces), floats(2, outputs * pieces), dense(3, sizes.read()),
                                    dense(5, sizes.states()), floats(7, outputs * sizes.units),
                                    Buffer<double>(at<double>(a[8]), outputs), Buffer<int64_t>(at<int64_t>(a[9]), paired),
                                    floats(10, paired), floats(11, paired), floats(12, outputs * paired * paired), shares,
                                    floats(13, shares ? outputs * shares->features() : 0), recurrent};
           },
           nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(), nb::keep_alive<1, 2>(),
           nb::keep_alive<1, 3>(), nb::keep_alive<1, 8>())
      // One event; `measured` is a list of (variable, scaled value). None where nothing was taken because of the time.
      .def("take", [](const OnlineModel& self, const Memory& memory, StackState<float>& state, double time,
                      const nb::list& measured) -> nb::object {
        std::vector<Measured> values;
        values.reserve(measured.size());
        for (const nb::handle each : measured) {
          const nb::tuple pair = nb::borrow<nb::tuple>(each);
          values.push_back({nb::cast<int64_t>(pair[0]), static_cast<float>(nb::cast<double>(pair[1]))});
        }
        std::vector<double> out(self.sizes.outputs);
        return self.take(memory.data(), state, time, values, out.data()) ? nb::cast(out) : nb::none();
      });
}

}  // namespace
}  // namespace phased

NB_MODULE(_core, m) {
  // Lists of launches are cached until the process ends, and Python does not free caches then: nanobind would print each as a leak.
  // The setting applies to this module alone, because it has an NB_DOMAIN of its own.
  nb::set_leak_warnings(false);

  // Numbers that Python shares with the core.
  nb::dict cells, kept, rows, shapes;
  for (int cell = 0; cell < phased::Cells::size; cell++) {
    const phased::CellNumbers& numbers = phased::numbers_of(cell);
    cells[numbers.name] = cell;
    kept[numbers.name] = numbers.kept;
    rows[numbers.name] = std::vector<int>(std::begin(numbers.row_of_h), std::end(numbers.row_of_h));
  }
  for (int number = 0; number < phased::Shapes::size; number++)
    phased::with_shape(number, [&](auto shape) { shapes[decltype(shape)::name] = number; });
  m.attr("CELLS") = cells;
  m.attr("KEPT") = kept;
  m.attr("ROWS_OF_H") = rows;
  m.attr("SHAPES") = shapes;
  m.attr("PRODUCTS") = phased::kProducts;
  m.def("whole_units", &phased::whole_units);
  m.def("instruction_set", [] { return std::string(phased::engines().name); });
  m.def("instruction_sets", [] {
    std::vector<std::string> names;
    for (const auto& each : phased::available()) names.push_back(each.name);
    return names;
  });
  // For tests. Streams keep the engines they were made with.
  m.def("use_instruction_set", [](const std::string& name) {
    const phased::Engines* wanted = phased::named(name);
    if (!wanted) throw nb::value_error(("this CPU has no instruction set " + name).c_str());
    phased::in_use() = wanted;
  });
  phased::bind<float>(m, "32");
  phased::bind<double>(m, "64");
  phased::bind_clock(m);
  phased::bind_online(m);
  phased::bind_launches(m);
}
