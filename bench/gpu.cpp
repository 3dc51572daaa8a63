// The kernels of a GPU beside what the device gives: rows of the table in docs/inside/gpus.md. A line
// of JSON for each row: seconds, those of the ceiling that was measured in the same rounds, and the bar.
//
//   bench_gpu --rows=softmax --out=rows.json
//   bench_gpu --scale=64      a 64th of the sizes, to see that everything runs
//   bench_gpu --count         counts instructions, and says what kernels of the whole sizes need; needs the
//   driver
//                             without a GPU (docs/cuda-without-a-gpu.md)
//
// bench/gpu.sh runs it beside its peers and writes the table.
#include "bench/gpu/ceilings.h"

#include "codegen/cuda/compiler.h"
#include "codegen/cuda/resources.h"
#include "frontend/engine/engine.h"
#include "ir/math/expand.h"
#include "ir/program/program.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"

#include <lazuli/io/dlpack.h>
#include <lazuli/lazuli.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using lz::DType;
using lz::Tensor;
namespace ir = lz::ir;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

struct Options {
    std::string rows, out;
    int64_t scale = 1;
    double seconds = 1;
    bool count = false;
};

double since(Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
}

/// Of processors, for the thread that asks, or for all of the process's.
double processor_seconds(clockid_t of) {
    timespec now{};
    clock_gettime(of, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double thread_seconds() {
    return processor_seconds(CLOCK_THREAD_CPUTIME_ID);
}

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

/// What bounds a row.
enum class Bound { Copy, Read, Product, ProductOfFloats, None };

struct Row {
    std::string name;
    double bar = 0; ///< the least fraction of the ceiling; 0: none is promised
    Bound bound = Bound::Copy;
    int64_t bytes = 0;    ///< Copy: read and written together; Read: read; products: the extent
    int64_t elements = 0; ///< for instructions an element
    /// Makes the operands, and what computes the row on them.
    std::function<std::function<Tensor()>()> prepare;
    bool reproducible = false; ///< with products of one order on every device
    bool is_product() const { return bound == Bound::Product || bound == Bound::ProductOfFloats; }
};

/// What makes a row's operands.
using Operand = Tensor (*)(const lz::Sizes &shape, DType dtype);

Tensor uniform(const lz::Sizes &shape, DType dtype) {
    Tensor x = (lz::rand(shape, {.dtype = lz::f32, .device = lz::Device::cuda(0)}) * 2 - 1).to(dtype);
    x.eval();
    return x;
}

/// Stands for one that is in memory: what is recorded of it can be dumped and compiled, and must not run.
Tensor declared(const lz::Sizes &shape, DType dtype) {
    void *const nowhere =
        reinterpret_cast<void *>(uintptr_t{1} << 40); // NOLINT: aligned, as the allocator's are
    return lz::detail::tensor_adopting_of(
        lz::Device::cuda(0), nullptr, nowhere, dtype, shape, [](void *, void *) {}, nullptr,
        lz::Location::current());
}

/// Eight cheap operations on each element of x.
Tensor eight(const Tensor &x) {
    return lz::maximum(lz::minimum(lz::abs(-((x * 1.5 + 0.5) * x - 0.25)), 3.0), 0.125);
}

/// With sizes divided by `scale`.
std::vector<Row> rows(int64_t scale, Operand operand) {
    std::vector<Row> all;
    const int64_t n = (int64_t{256} << 20) / scale;
    for (const DType t : {lz::f32, lz::bf16}) {
        const std::string type = t == lz::f32 ? "f32" : "bf16";
        const int64_t bytes = t == lz::f32 ? 4 : 2;
        all.push_back({"chain " + type, 0.93, Bound::Copy, 2 * bytes * n, n, [=] {
                           const Tensor x = operand({n}, t);
                           return [x] { return eight(x); };
                       }});
        all.push_back({"chain with exp " + type, 0.90, Bound::Copy, 2 * bytes * n, n, [=] {
                           const Tensor x = operand({n}, t);
                           return [x] { return lz::exp(eight(x)); };
                       }});
        const double bar = t == lz::f32 ? 0.88 : 0.85;
        const int64_t elements = n / 4;
        // Rows of the last length are a cluster's; bars are promised up to the one before.
        for (const int64_t length : {1024, 2048, 4096, 8192, 16384, 32768, 131072}) {
            const lz::Sizes shape = {std::max<int64_t>(elements / length, 1), length};
            const int64_t count = shape[0] * length;
            const auto row = [&](const char *name, auto f) {
                all.push_back({fmt::format("{} of {} {}", name, length, type), bar, Bound::Copy,
                               2 * bytes * count, count, [=] {
                                   const Tensor x = operand(shape, t), w = operand({length}, t);
                                   return [=] { return f(x, w); };
                               }});
            };
            row("softmax", [](const Tensor &x, const Tensor &) { return lz::softmax(x, -1); });
            row("layer norm",
                [length](const Tensor &x, const Tensor &w) { return lz::layer_norm(x, {length}, w, w); });
            row("RMS norm",
                [length](const Tensor &x, const Tensor &w) { return lz::rms_norm(x, {length}, w); });
        }
        const int64_t side = 8 * static_cast<int64_t>(std::sqrt(static_cast<double>(n / 4)) / 8);
        all.push_back({"sum of all " + type, 0.90, Bound::Read, bytes * n, n, [=] {
                           const Tensor x = operand({n}, t);
                           return [x] { return x.sum(); };
                       }});
        all.push_back({"sum of columns " + type, 0.90, Bound::Read, bytes * side * side, side * side, [=] {
                           const Tensor x = operand({side, side}, t);
                           return [x] { return x.sum(0); };
                       }});
        all.push_back(
            {"transpose and add " + type, 0.80, Bound::Copy, 3 * bytes * side * side, side * side, [=] {
                 const Tensor x = operand({side, side}, t), y = operand({side, side}, t);
                 return [=] { return x.t() + y; };
             }});
    }
    const bool fast = std::getenv("LAZULI_FAST_MATH") != nullptr;
    const int64_t smaller = std::max<int64_t>(static_cast<int64_t>(std::sqrt(static_cast<double>(scale))), 1);
    for (int64_t k = 1024; k <= 8192; k *= 2) {
        const int64_t side = std::max<int64_t>(k / smaller, 64);
        const auto operands = [=] {
            return std::pair{operand({side, side}, lz::bf16), operand({side, side}, lz::bf16)};
        };
        if (!fast)
            all.push_back(
                {fmt::format("product of {} bf16", k), 0.98, Bound::Product, side, side * side, [=] {
                     const auto [x, y] = operands();
                     return [x = x, y = y] { return lz::matmul(x, y); };
                 }});
        all.push_back({fmt::format("product of {}, bias, gelu{} bf16", k, fast ? ", fast math" : ""),
                       fast ? 0.98 : 0.85, Bound::Product, side, side * side, [=] {
                           const auto [x, y] = operands();
                           const Tensor bias = operand({side}, lz::bf16);
                           return [x = x, y = y, bias] { return lz::gelu(lz::matmul(x, y) + bias); };
                       }});
    }
    // The price of equal bits on every device.
    if (const int64_t side = std::max<int64_t>(1024 / smaller, 64); !fast)
        all.push_back({.name = "product of 1024, reproducible f32",
                       .bound = Bound::ProductOfFloats,
                       .bytes = side,
                       .elements = side * side,
                       .prepare =
                           [=] {
                               const Tensor x = operand({side, side}, lz::f32),
                                            y = operand({side, side}, lz::f32);
                               return [=] { return lz::matmul(x, y); };
                           },
                       .reproducible = true});
    return all;
}

/// While it lives products have one order, or as the process was told.
class ReproducibleProducts {
public:
    explicit ReproducibleProducts(bool reproducible) : was_(lz::is_reproducible()) {
        lz::set_reproducible(reproducible || was_);
    }
    ~ReproducibleProducts() { lz::set_reproducible(was_); }
    ReproducibleProducts(const ReproducibleProducts &) = delete;
    ReproducibleProducts &operator=(const ReproducibleProducts &) = delete;

private:
    const bool was_;
};

class Bench {
public:
    explicit Bench(const Options &options) : options_(options) {
        if (!options.out.empty())
            file_.open(options.out, std::ios::app);
        if (const char *const driver = std::getenv("LAZULI_CUDA_DRIVER"))
            if (void *const library = ::dlopen(driver, RTLD_NOW))
                for (const auto &[count, name] : {std::pair{&instructions_, "lazuli_fake_cuda_instructions"},
                                                  {&issue_slots_, "lazuli_fake_cuda_issue_slots"}})
                    *count = reinterpret_cast<uint64_t (*)()>(::dlsym(library, name));
        if (options.count && !(instructions_ && issue_slots_))
            throw std::runtime_error("--count needs the driver without a GPU: LAZULI_CUDA_DRIVER names it.");
    }

    bool wanted(const std::string &name) const { return name.find(options_.rows) != std::string::npos; }
    bool counts() const { return options_.count; }

    void say(const Json &row) {
        std::cout << row.dump() << std::endl;
        if (file_.is_open())
            file_ << row.dump() << std::endl;
    }

    void device() {
        const auto p = lz::cuda::get_device_properties(0);
        say({{"device", p.name},
             {"multiprocessors", p.multi_processor_count},
             {"clock", ceilings_.clock_hz()},
             {"scale", options_.scale},
             {"major", p.major},
             {"minor", p.minor},
             {"memory", p.total_memory}});
    }

    /// `whole`: the same row with sizes that are not divided.
    void run(const Row &row, const Row &whole) {
        const ReproducibleProducts here(row.reproducible);
        const std::function<Tensor()> f = row.prepare();
        f().eval(); // compiles
        f().eval(); // makes a graph
        lz::sync();
        Json out = {{"row", row.name}, {"bytes", row.bytes}, {"elements", row.elements}};
        if (row.bar > 0)
            out["bar"] = row.bar;
        if (row.is_product()) {
            out["extent"] = whole.bytes;
            out["counted_extent"] = row.bytes;
        }
        if (options_.count) {
            const uint64_t before = instructions_(), slots_before = issue_slots_();
            const auto from = Clock::now();
            f().eval();
            lz::sync();
            counted_seconds_ += since(from);
            const auto ran = static_cast<double>(instructions_() - before);
            counted_ += ran;
            out["instructions"] = ran / static_cast<double>(row.elements);
            out["slots"] =
                static_cast<double>(issue_slots_() - slots_before) / static_cast<double>(row.elements);
            out["entries"] = entries(whole.prepare()());
            say(out);
            return;
        }
        std::vector<double> seconds, ceilings, fractions;
        const auto end = Clock::now() + std::chrono::duration<double>(options_.seconds);
        do {
            const double ceiling = ceiling_of(row), took = time(f);
            seconds.push_back(took);
            ceilings.push_back(ceiling);
            fractions.push_back(ceiling / took);
        } while (Clock::now() < end || seconds.size() < 3);
        out["seconds"] = median(seconds);
        out["rounds"] = seconds.size();
        if (ceilings[0] > 0) {
            out["ceiling"] = median(ceilings);
            out["fraction"] = median(fractions);
        }
        say(out);
    }

    /// How fast the interpreter of PTX was, in instructions of threads.
    void interpreter() {
        if (counted_seconds_ > 0)
            say({{"instructions_a_second", counted_ / counted_seconds_}});
    }

    static constexpr int kKernels = 80;
    /// 80 kernels that run again and again, recorded each time and as a compiled function: LAZULI_FUSE=0
    /// keeps additions apart. In a loop that does nothing else; and, without a bar, a few at a time, when
    /// other code has been in the caches.
    void replays() {
        if (lz::engine::Engine::get().target().modes.fuse) {
            if (!options_.rows.empty() && wanted("replay of 80 kernels"))
                say({{"row", "replay of 80 kernels"}, {"error", "LAZULI_FUSE=0 keeps its kernels apart."}});
            return;
        }
        const int64_t elements = std::max<int64_t>((1 << 16) / options_.scale, 64);
        const Tensor y = uniform({elements}, lz::f32);
        const auto additions = [y](const Tensor &x) {
            Tensor z = x;
            for (int k = 0; k < kKernels; ++k)
                z = z + y;
            return z;
        };
        const auto compiled = lz::compile(additions);
        const bool quick = options_.scale != 1 && !options_.count;
        const Turns loop = {.turns = 2, .launches = quick ? 20 : 1000},
                    few = {.turns = quick ? 4 : 30, .launches = 10, .bar = false};
        for (const auto &[turns, name] : {std::pair{loop, ""}, std::pair{few, ", a few at a time"}}) {
            replay(fmt::format("replay of 80 kernels{}", name), elements, additions, Launched::AtEval, turns);
            replay(fmt::format("replay of 80 kernels, compiled function{}", name), elements, compiled,
                   Launched::AtCall, turns);
        }
        if (wanted("replay") && compiled.stats().replays == 0)
            say({{"row", "replay of 80 kernels, compiled function"}, {"error", compiled.explain()}});
    }
    enum class Launched { AtCall, AtEval };
    /// The graph by hand takes its turns with the row. The first quarter of the turns is not measured.
    struct Turns {
        int turns, launches; ///< launches: of each turn
        bool bar = true;
    };
    template <class F>
    void replay(const std::string &row, int64_t elements, const F &additions, Launched when,
                const Turns &turns) {
        if (!wanted(row))
            return;
        Tensor x = uniform({elements}, lz::f32);
        std::vector<double> record, host, device, by_hand, by_hand_host;
        const int unmeasured = std::max(turns.turns / 4, 1);
        for (int turn = 0; turn < turns.turns; ++turn) {
            if (turn == unmeasured)
                for (std::vector<double> *times : {&record, &host, &device, &by_hand, &by_hand_host})
                    times->clear();
            for (int launch = 0; launch < turns.launches; ++launch) {
                const auto from = Clock::now();
                x = additions(x);
                const double called = since(from);
                x.eval();
                const double launched = since(from);
                lz::sync();
                device.push_back(since(from));
                record.push_back(when == Launched::AtEval ? called : 0);
                host.push_back(launched - record.back());
            }
            for (const auto &hand : ceilings_.additions(kKernels, elements, turns.launches)) {
                by_hand.push_back(hand.whole);
                by_hand_host.push_back(hand.host);
            }
        }
        // A launch that wakes a thread of the driver without a GPU takes as long as the system lets it.
        const auto typical = [&](const std::vector<double> &times) {
            return options_.count ? *std::ranges::min_element(times) : median(times);
        };
        Json out = {{"row", row},
                    {"seconds", median(device)},
                    {"host", typical(host)},
                    {"record", typical(record)},
                    {"launches", host.size()},
                    {"ceiling", median(by_hand)},
                    {"host_ceiling", typical(by_hand_host)},
                    {"fraction", median(by_hand) / median(device)}};
        if (turns.bar) {
            out["host_bar"] = 5e-6;
            out["bar"] = 1 / 1.1;
        }
        say(out);
    }

    /// One loop kernel until its result is there, from its first use on: compiled by NVRTC, and from disk.
    void compile() {
        if (!wanted("compile"))
            return;
        const Tensor x = uniform({1 << 12}, lz::f32);
        std::vector<double> fresh, disk, machine_code;
        const auto compiler = lz::codegen::make_cuda_compiler(ceilings_.nvrtc(), 90);
        for (int k = 0; k < 8; ++k) {
            const auto recorded = [&] {
                Tensor y = x * 2;
                for (int i = 0; i < k; ++i)
                    y = lz::abs(y * x) + i;
                return y;
            };
            const auto once = [&] {
                const auto from = Clock::now();
                const double used = processor_seconds(CLOCK_PROCESS_CPUTIME_ID);
                recorded().eval();
                lz::sync();
                return options_.count ? processor_seconds(CLOCK_PROCESS_CPUTIME_ID) - used : since(from);
            };
            if (options_.count)
                machine_code.push_back(compiled(lz::dump(recorded()), *compiler));
            fresh.push_back(once());
            lz::engine::Engine::get().clear_caches();
            disk.push_back(once());
        }
        if (options_.count)
            say({{"row", "compile one kernel to machine code of sm_90"},
                 {"seconds", median(machine_code)},
                 {"limit", 60e-3}});
        say({{"row", "compile one kernel"}, {"seconds", median(fresh)}, {"limit", 60e-3}});
        say({{"row", "compile, from disk"}, {"seconds", median(disk)}, {"limit", 1e-3}});
    }

private:
    /// Seconds of the processor until the one kernel of a graph is machine code, from the graph on.
    static double compiled(const std::string &graph, const lz::codegen::Compiler &compiler) {
        const double used = thread_seconds();
        const ir::Program program =
            lz::passes::compile(ir::parse_graph(graph), ir::cuda_test_target(1)).program;
        for (const ir::Kernel &kernel : program.kernels)
            compiler.compile(kernel);
        return thread_seconds() - used;
    }

    /// What the kernels need of an H200, as `lz-opt --to=stats --arch=sm_90` says it, with the library that
    /// this device has: its products are no kernels of ours.
    Json entries(const Tensor &result) const {
        constexpr int kSm = 90;
        Json all = Json::array();
        const ir::Graph graph = ir::parse_graph(lz::dump(result));
        ir::Target target = ir::cuda_test_target(1);
        target.modes = lz::engine::Engine::get().target().modes;
        for (ir::DeviceInfo &info : target.devices)
            if (const ir::DeviceInfo *const here = lz::engine::Engine::get().target().find(info.device))
                info.library = here->library;
        const ir::Program program = lz::passes::compile(graph, target).program;
        for (ir::Kernel kernel : program.kernels) {
            ir::expand_math(kernel);
            for (const auto &r :
                 lz::codegen::cuda_resources(ceilings_.nvrtc(), kSm, kernel, ir::CudaLimits{}))
                all.push_back({{"kernel", kernel.name},
                               {"entry", r.entry},
                               {"registers", r.registers},
                               {"spilled", r.spilled_bytes},
                               {"resident", r.resident_threads},
                               {"in_flight", r.bytes_in_flight()}});
        }
        return all;
    }

    double ceiling_of(const Row &row) {
        switch (row.bound) {
        case Bound::Copy:
            return ceilings_.copy(row.bytes / 2);
        case Bound::Read:
            return ceilings_.read(row.bytes);
        case Bound::Product:
            return ceilings_.product(row.bytes, lz::bench::GpuCeilings::Operands::Bfloats);
        case Bound::ProductOfFloats:
            return ceilings_.product(row.bytes, lz::bench::GpuCeilings::Operands::Floats);
        case Bound::None:
            break;
        }
        return 0;
    }

    /// Of one call, of several in a row.
    static double time(const std::function<Tensor()> &f) {
        constexpr int kRuns = 5;
        const lz::Event begin({.timing = true}), end({.timing = true});
        f().eval();
        begin.record();
        for (int i = 0; i < kRuns; ++i)
            f().eval();
        end.record();
        end.synchronize();
        return begin.elapsed_time(end) * 1e-3 / kRuns;
    }

    const Options options_;
    std::ofstream file_;
    uint64_t (*instructions_)() = nullptr, (*issue_slots_)() = nullptr;
    double counted_ = 0, counted_seconds_ = 0;
    lz::bench::GpuCeilings ceilings_;
};

Options read_options(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string argument = argv[i];
        const auto value = [&](const char *name) -> std::optional<std::string> {
            const std::string prefix = std::string("--") + name + "=";
            return argument.starts_with(prefix) ? std::optional(argument.substr(prefix.size()))
                                                : std::nullopt;
        };
        if (const auto rows = value("rows"))
            options.rows = *rows;
        else if (const auto out = value("out"))
            options.out = *out;
        else if (const auto scale = value("scale"))
            options.scale = std::max(std::atoll(scale->c_str()), 1LL);
        else if (const auto seconds = value("seconds"))
            options.seconds = std::atof(seconds->c_str());
        else if (argument == "--count")
            options.count = true;
        else
            throw std::runtime_error(
                "bench_gpu takes --rows=, --out=, --scale=, --seconds= and --count, and not " + argument);
    }
    return options;
}

} // namespace

int main(int argc, char **argv) {
    try {
        const Options options = read_options(argc, argv);
        if (!lz::cuda::is_available()) {
            std::cerr << "bench_gpu: " << lz::cuda::availability() << '\n';
            return 77;
        }
        lz::manual_seed(1);
        Bench bench(options);
        bench.device();
        const std::vector<Row> all = rows(options.scale, uniform), whole = rows(1, declared);
        for (size_t i = 0; i < all.size(); ++i)
            if (const Row &row = all[i]; bench.wanted(row.name)) {
                try {
                    bench.run(row, whole[i]);
                } catch (const std::exception &error) {
                    bench.say({{"row", row.name}, {"error", error.what()}});
                }
                lz::empty_cache(lz::Device::cuda(0));
            }
        bench.replays();
        bench.compile();
        bench.interpreter();
    } catch (const std::exception &error) {
        std::cerr << "bench_gpu: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
