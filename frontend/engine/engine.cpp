#include "frontend/engine/engine.h"

#include "codegen/cache/kernel_cache.h"
#include "frontend/engine/compile/driver.h"
#include "frontend/engine/compile/failure.h"
#include "frontend/engine/compile/generators.h"
#include "frontend/engine/compile/open_alignment.h"
#include "frontend/engine/compile/quick_kernels.h"
#include "frontend/engine/compile/reasons.h"
#include "frontend/engine/compile/templates.h"
#include "frontend/engine/debug/dump.h"
#include "frontend/engine/debug/log.h"
#include "frontend/engine/devices.h"
#include "frontend/engine/executable.h"
#include "frontend/engine/host_event.h"
#include "frontend/engine/launch_count.h"
#include "frontend/engine/program_cache.h"
#include "ir/host/float_environment.h"
#include "ir/program/memory_use.h"
#include "ir/text/sentences.h"
#include "ir/text/text.h"
#include "passes/devices/check_devices.h"
#include "passes/traced/forms.h"
#include "runtime/api/parallel.h"
#include "runtime/before_exit.h"
#include "runtime/executor/executor.h"
#include "runtime/profiler/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace lz::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

ir::Target host_target(const Options &options, const Devices &devices) {
    ir::Target target;
    target.devices = devices.infos();
    target.no_gpu = devices.why_no_gpu();
    target.modes.fuse = options.fuse;
    target.modes.fast_math = options.fast_math;
    target.modes.reproducible = options.reproducible;
    target.modes.float32_matmul = options.float32_matmul;
    target.modes.verify = options.verify;
    if (options.automatic_transfer)
        target.modes.transfer = ir::TransferMode::Automatic;
    return target;
}

/// The pool's size is settled before anything asks for it.
Options read_options() {
    Options options = Options::from_environment();
    if (options.threads > 0)
        runtime::set_num_threads(options.threads);
    return options;
}

} // namespace

struct Engine::Impl {
    Impl()
        : options(read_options()), devices(options, &kernels), target(host_target(options, devices)),
          kernels(kernel_cache_options(options, beside)),
          cpu_compiler(make_host_compiler(options, target.host().isa)) {
        number_target();
    }

    void number_target();
    /// The target, and its number.
    std::pair<ir::Target, uint32_t> snapshot() const {
        const std::lock_guard lock(target_mutex);
        return {target, target_number.load(std::memory_order_relaxed)};
    }

    ExecutablePtr build(ir::Graph graph, ir::Target snapshot, uint32_t number,
                        std::span<const ir::StreamRef> streams);
    /// From what was compiled for other extents; null where nothing was that holds for these.
    ExecutablePtr instantiate(const traced::GraphForm &form, ir::Graph &graph, const ir::Target &snapshot,
                              uint32_t number);
    /// Makes a template by `learn` of the templates. Whether there is one now.
    bool learn(const std::function<std::optional<Templates::Outcome>()> &learn);
    /// What makes code for a device: virtual GPUs run the CPU's.
    const codegen::Compiler &compiler(ir::Device device) const {
        const codegen::Compiler *const cuda = devices.cuda_compiler(device);
        return cuda ? *cuda : *cpu_compiler;
    }
    /// Returns them.
    std::vector<runtime::ProgramKernel> load_kernels(Executable &executable, const ir::Graph &graph,
                                                     ir::Program program, const Dumper &dumper);
    void log_memory(int64_t number);

    const Options options;
    Devices devices;
    mutable std::mutex target_mutex;
    ir::Target target; ///< its modes, peers and threads may change, under the mutex
    /// Numbers of the targets so far, by fingerprint.
    std::unordered_map<std::string, uint32_t> target_numbers;
    Beside beside{[this] { return kernels.keeps() ? kMostAtExit : std::chrono::milliseconds(0); }};
    codegen::KernelCache kernels;
    std::unique_ptr<const codegen::Compiler> cpu_compiler;
    ProgramCache programs;
    Templates templates;
    CompileReasons reasons;

    std::atomic<uint32_t> target_number{0}; ///< part of every key: Programs for another target are others
    std::atomic<int64_t> compiled{0}, instantiated{0}, numbers{0};
    std::atomic<int64_t> launches_before{0}; ///< of LaunchCount, when statistics were reset
    std::atomic<double> pass_seconds{0}, codegen_seconds{0};
};

Engine::Engine() : impl_(std::make_unique<Impl>()) {}

namespace {
std::atomic<bool> has_started{false};
}

bool Engine::started() {
    return has_started.load(std::memory_order_acquire);
}

Engine &Engine::get() {
    static Engine *const engine = [] {
        has_started.store(true, std::memory_order_release);
        return new Engine;
    }(); // tensors with static lifetime outlive every destructor (S68)
    return *engine;
}

const Options &Engine::options() const {
    return impl_->options;
}

const ir::Target &Engine::target() const {
    return impl_->target;
}

uint32_t Engine::target_number() const {
    return impl_->target_number.load(std::memory_order_relaxed);
}

ExecutablePtr Engine::find(std::span<const uint64_t> key, uint64_t hash) {
    return impl_->programs.find(key, hash, impl_->target_number.load(std::memory_order_relaxed));
}

ExecutablePtr Engine::compile(std::span<const uint64_t> key, uint64_t hash, ir::Graph graph,
                              std::span<const ir::StreamRef> streams) {
    runtime::check_not_forked(); // before locks that the thread beside may have held
    const runtime::BeforeExit before_exit;
    const ir::FloatEnvironment environment;
    auto [snapshot, number] = impl_->snapshot();
    const auto build = [&, &target = snapshot, number = number] {
        return impl_->build(std::move(graph), std::move(target), number, streams);
    };
    return impl_->programs.find_or_make(key, hash, number, build);
}

ExecutablePtr Engine::Impl::build(ir::Graph graph, ir::Target snapshot, uint32_t number,
                                  std::span<const ir::StreamRef> streams) {
    const HostEvent event("compile", "compile: passes and kernels");
    std::optional<traced::GraphForm> form;
    if (!options.dump.any()) { // what is dumped has to be made
        form = traced::write_graph(graph);
        if (ExecutablePtr found = instantiate(*form, graph, snapshot, number))
            return found;
        if (learn([&] { return templates.learn_first(*form, number); }))
            if (ExecutablePtr found = instantiate(*form, graph, snapshot, number))
                return found;
    }
    const Clock::time_point begin = Clock::now();
    auto executable = std::make_shared<Executable>();
    executable->number = ++numbers;
    const Dumper dumper(options, executable->number, name_streams(streams));
    if (options.dump.graph)
        dumper.write("graph", "lz", ir::print(graph, {.number_effects = true}));
    executable->target = std::make_shared<const ir::Target>(std::move(snapshot));
    Compiled result = compile_graph(graph, *executable->target, dumper, passes::Explained::No);
    pass_seconds = pass_seconds + seconds_since(begin);
    ++compiled;
    executable->donors = std::move(result.donors);
    if (options.log_compile)
        log_line("compile", fmt::format("program {} ({}): {}, {}, passes {:.2f} ms", executable->number,
                                        reasons.why(graph), ir::plural(graph.nodes().size(), "operation"),
                                        ir::plural(result.program.kernels.size(), "kernel"),
                                        seconds_since(begin) * 1e3));
    std::vector<runtime::ProgramKernel> loaded =
        load_kernels(*executable, graph, std::move(result.program), dumper);
    executable->graph = std::move(graph);
    if (form)
        learn([&] { return templates.learn(*form, number, executable, std::move(loaded)); });
    return executable;
}

ExecutablePtr Engine::Impl::instantiate(const traced::GraphForm &form, ir::Graph &graph,
                                        const ir::Target &snapshot, uint32_t number) {
    const Clock::time_point begin = Clock::now();
    std::optional<Templates::Instance> instance = templates.find(form, number);
    if (!instance)
        return nullptr;
    if (snapshot.modes.verify)
        verify_instance(instance->program, graph, snapshot);
    auto executable = std::make_shared<Executable>();
    executable->number = ++numbers;
    executable->target = std::make_shared<const ir::Target>(snapshot);
    executable->donors = instance->made_of->donors;
    executable->graph = std::move(graph);
    try {
        compile_large(instance->program, instance->made_of->kernels, options.quick);
    } catch (const codegen::KernelFailure &failure) {
        throw compile_failure(failure, instance->made_of->kernels[failure.request()].kernel,
                              executable->graph, instance->program);
    }
    if (options.quick == Quick::On)
        executable->quick.watch(instance->made_of->kernels);
    executable->program = std::make_shared<const runtime::LoadedProgram>(
        std::move(instance->program), instance->made_of->kernels, devices.slots());
    ++instantiated;
    if (options.log_compile)
        log_line("compile",
                 fmt::format("program {}: program {} with other sizes, {:.3f} ms", executable->number,
                             instance->made_of->number, seconds_since(begin) * 1e3));
    return executable;
}

bool Engine::Impl::learn(const std::function<std::optional<Templates::Outcome>()> &learn) try {
    const HostEvent event("compile", "compile: other sizes");
    const Clock::time_point begin = Clock::now();
    const std::optional<Templates::Outcome> outcome = learn();
    const double took = seconds_since(begin);
    pass_seconds = pass_seconds + took;
    if (options.log_compile && outcome)
        log_line("compile",
                 fmt::format("program {}: {}, {:.2f} ms", outcome->number, outcome->clause, took * 1e3));
    return outcome && outcome->is_made;
} catch (const std::bad_alloc &) { // each size is there all the same
    return false;
}

std::vector<runtime::ProgramKernel> Engine::Impl::load_kernels(Executable &executable, const ir::Graph &graph,
                                                               ir::Program program, const Dumper &dumper) {
    const HostEvent event("compile", "compile: kernels");
    const Clock::time_point begin = Clock::now();
    const codegen::KernelCacheStats before = kernels.stats();
    std::vector<runtime::ProgramKernel> wanted = runtime::kernels_of(program);
    std::vector<codegen::KernelRequest> requests;
    const std::vector<bool> small = small_kernels(program, options.quick);
    for (const runtime::ProgramKernel &k : wanted)
        requests.push_back(
            {&program.kernels[k.kernel], &compiler(k.device), &devices.backend(k.device), small[k.kernel]});
    try {
        const Beside::Pause pause(beside);
        const auto cached = kernels.get_all(
            requests, [&](size_t r) { return kernel_called(graph, program, wanted[r].kernel); });
        for (size_t r = 0; r < cached.size(); ++r) {
            wanted[r].code = *cached[r];
            dump_code(dumper, graph, program, wanted[r].kernel, *cached[r], requests[r].compiler->endings());
        }
        make_open_alignments(program, wanted);
    } catch (const codegen::KernelFailure &failure) {
        throw compile_failure(failure, wanted[failure.request()].kernel, graph, program);
    }
    const double took = seconds_since(begin);
    codegen_seconds = codegen_seconds + took;
    if (options.log_compile) {
        const codegen::KernelCacheStats after = kernels.stats();
        const int64_t quick = after.quick - before.quick;
        log_line("compile",
                 fmt::format("program {}: kernels {}{} compiled, {} from memory, {} from disk, {:.2f} ms",
                             executable.number, after.compiled - before.compiled,
                             quick > 0 ? fmt::format(" ({} beside)", quick) : "",
                             after.from_memory - before.from_memory, after.from_disk - before.from_disk,
                             took * 1e3));
    }
    executable.program =
        std::make_shared<const runtime::LoadedProgram>(std::move(program), wanted, devices.slots());
    if (options.quick == Quick::On)
        executable.quick.watch(wanted);
    return wanted;
}

int Engine::donor(const Executable &executable, size_t result) const {
    return executable.donors[result];
}

ir::StreamRef Engine::result_home(const Executable &executable, size_t result,
                                  std::span<const ir::StreamRef> streams) const {
    return executable.program->result_home(result, streams);
}

bool Engine::cpu_only(const Executable &executable) const {
    return executable.program->cpu_only();
}

ir::Launched Engine::run(const Executable &executable, const ir::Bindings &bindings, bool watch) {
    const Clock::time_point begin = impl_->options.log_run ? Clock::now() : Clock::time_point();
    executable.quick.before_run();
    ir::Launched launched = runtime::run(*executable.program, bindings, watch);
    LaunchCount::add(executable.program->launches());
    if (impl_->options.log_run)
        log_line("run", fmt::format("program {}: {} launches, {:.3f} ms{}", executable.number,
                                    executable.program->launches(), seconds_since(begin) * 1e3,
                                    launched.report.ok() ? "" : ", with failures"));
    if (impl_->options.log_memory)
        impl_->log_memory(executable.number);
    return launched;
}

void Engine::Impl::log_memory(int64_t number) {
    for (const runtime::DeviceSlot &slot : devices.slots()) {
        const runtime::AllocatorStats stats = slot.allocator->stats();
        log_line("memory",
                 fmt::format("after program {}: {}: {} bytes allocated, {} reserved, peak {}", number,
                             slot.backend->name(), stats.allocated_bytes[runtime::StatPool::All].current,
                             stats.reserved_bytes[runtime::StatPool::All].current,
                             stats.allocated_bytes[runtime::StatPool::All].peak));
    }
}

bool Engine::profiling() {
    return runtime::profiling();
}

std::string Engine::explain(const Executable &executable) const {
    const Options quiet;
    if (executable.target)
        return compile_graph(executable.graph, *executable.target, Dumper(quiet, 0), passes::Explained::Yes)
            .explanation;
    std::string text;
    for (const std::string &note : executable.program->program().notes)
        text += note + "\n";
    return text;
}

std::string Engine::verify_schedule(const ir::Graph &graph) {
    const Options quiet;
    ir::Target snapshot = impl_->snapshot().first;
    snapshot.modes.verify = true;
    const ir::Program program =
        compile_graph(graph, snapshot, Dumper(quiet, 0), passes::Explained::No).program;
    return what_was_verified(program);
}

std::string Engine::explain(const ir::Graph &graph) {
    const Options quiet;
    return compile_graph(graph, impl_->snapshot().first, Dumper(quiet, 0), passes::Explained::Yes)
        .explanation;
}

namespace {

void wait_for(const runtime::Guard &guard) noexcept {
    try {
        guard.backend->synchronize(guard.stream, guard.tick);
    } catch (...) { // a lost device has done with it, too
    }
}

} // namespace

void Engine::allocate(ValueMemory &block, int64_t bytes, ir::StreamRef home, bool pinned) {
    const auto size = static_cast<size_t>(bytes);
    block.home = home;
    block.pinned = pinned;
    if (home.device != ir::kCpu) {
        runtime::check_not_forked(); // before locks that a thread of the parent may have held
        track(block);
    }
    try {
        if (!pinned) {
            block.data = impl_->devices.allocator(home.device).allocate(size, home.stream);
        } else if (runtime::CachingAllocator *const from = impl_->devices.pinned()) {
            block.data = from->allocate(size);
        } else {
            throw ir::Failure(ir::ErrorKind::Device,
                              "pinned memory is page-locked for a GPU. " + impl_->devices.why_no_gpu());
        }
    } catch (...) {
        forget(block);
        throw;
    }
}

ir::MemoryUse *Engine::track(ValueMemory &block) {
    ir::MemoryUse *use = block.use.load(std::memory_order_acquire);
    if (use)
        return use;
    auto *const made = new ir::MemoryUse;
    if (block.use.compare_exchange_strong(use, made, std::memory_order_acq_rel))
        return made;
    delete made;
    return use;
}

void Engine::free(ValueMemory &block) noexcept {
    Devices &devices = impl_->devices;
    runtime::CachingAllocator &allocator =
        block.pinned ? *devices.pinned() : devices.allocator(block.home.device);
    std::array<runtime::Guard, 8> usual;
    size_t count = 0;
    std::vector<runtime::Guard> many;
    if (ir::MemoryUse *const use = block.use.load(std::memory_order_acquire)) {
        use->for_each(true, [&](const ir::Point &p) {
            if (p.stream == block.home)
                return;
            const runtime::Guard guard{&devices.backend(p.stream.device), p.stream.stream, p.tick};
            if (many.empty() && count < usual.size()) {
                usual[count++] = guard;
                return;
            }
            try {
                if (many.empty())
                    many.assign(usual.begin(), usual.end());
                many.push_back(guard);
            } catch (const std::bad_alloc &) { // waiting needs no memory
                wait_for(guard);
            }
        });
        delete use;
    }
    allocator.free(block.data, many.empty() ? std::span<const runtime::Guard>(usual.data(), count)
                                            : std::span<const runtime::Guard>(many));
}

bool Engine::is_idle(const ValueMemory &block, bool writer) const {
    const ir::MemoryUse *const use = block.use.load(std::memory_order_acquire);
    if (!use)
        return true;
    bool idle = true, late = false; // over by a model's clock, and not in earnest
    try {
        use->for_each(writer, [&](const ir::Point &p) {
            runtime::Backend &backend = impl_->devices.backend(p.stream.device);
            idle = idle && !backend.pending(p.stream.stream, p.tick);
            late = late || !backend.reached(p.stream.stream, p.tick);
        });
        if (idle && late)
            wait(block, writer);
    } catch (const ir::Failure &) { // who waits for it will see
        idle = false;
    }
    return idle;
}

void Engine::wait(const ValueMemory &block, bool writer) const {
    const ir::MemoryUse *const use = block.use.load(std::memory_order_acquire);
    if (!use)
        return;
    const auto synchronize_with = [&](const ir::Point &p) {
        impl_->devices.backend(p.stream.device).synchronize(p.stream.stream, p.tick);
    };
    std::vector<ir::Point> points; // copied, because others note their uses meanwhile
    try {
        use->for_each(writer, [&](const ir::Point &p) { points.push_back(p); });
    } catch (const std::bad_alloc &) { // they wait, too
        use->for_each(writer, synchronize_with);
        return;
    }
    std::ranges::for_each(points, synchronize_with);
}

void Engine::forget(ValueMemory &block) noexcept {
    delete block.use.exchange(nullptr);
}

runtime::CachingAllocator &Engine::allocator(ir::Device device) {
    return impl_->devices.allocator(device);
}
runtime::CachingAllocator *Engine::pinned_allocator() {
    return impl_->devices.pinned();
}
std::string Engine::cuda_availability() const {
    return impl_->devices.cuda_availability();
}

const std::string &Engine::why_no_gpu() const {
    return impl_->devices.why_no_gpu();
}
ir::DeviceProperties Engine::properties(ir::Device device) const {
    return impl_->devices.backend(device).properties();
}

void Engine::check_devices(const ir::Graph &graph) const {
    const std::lock_guard lock(impl_->target_mutex);
    passes::check_devices(graph, impl_->target);
}

bool Engine::can_access_peer(ir::Device from, ir::Device to) const {
    return impl_->devices.backend(from).can_access_peer(impl_->devices.backend(to));
}

bool Engine::peer_access(ir::Device from, ir::Device to) const {
    const std::lock_guard lock(impl_->target_mutex);
    return std::ranges::count(impl_->target.device(from).peers, to.index) != 0;
}

void Engine::set_peer_access(ir::Device from, ir::Device to, bool enable) {
    if (!can_access_peer(from, to))
        throw ir::Failure(ir::ErrorKind::Device,
                          fmt::format("{} cannot have access to the memory of {}: {}.", ir::to_string(from),
                                      ir::to_string(to),
                                      impl_->options.virtual_peers
                                          ? "this hardware has no link between the two"
                                          : "LAZULI_VIRTUAL_PEERS=0 says that there are no links"));
    impl_->devices.backend(from).set_peer_access(impl_->devices.backend(to), enable);
    const std::lock_guard lock(impl_->target_mutex);
    std::vector<uint8_t> &peers = impl_->target.devices[size_t{1} + from.index].peers;
    std::erase(peers, to.index);
    if (enable)
        peers.push_back(to.index);
    impl_->number_target();
}

Devices &Engine::devices() {
    return impl_->devices;
}

int Engine::num_threads() const {
    return runtime::num_threads();
}
void Engine::set_num_threads(int n) {
    const std::lock_guard lock(impl_->target_mutex);
    runtime::set_num_threads(n);
    impl_->target.set_threads(n);
    impl_->number_target();
}

bool Engine::reproducible() const {
    const std::lock_guard lock(impl_->target_mutex);
    return impl_->target.modes.reproducible;
}
void Engine::set_reproducible(bool reproducible) {
    const std::lock_guard lock(impl_->target_mutex);
    impl_->target.modes.reproducible = reproducible;
    impl_->number_target();
}
ir::MatmulPrecision Engine::float32_matmul() const {
    const std::lock_guard lock(impl_->target_mutex);
    return impl_->target.modes.float32_matmul;
}
void Engine::set_float32_matmul(ir::MatmulPrecision precision) {
    const std::lock_guard lock(impl_->target_mutex);
    impl_->target.modes.float32_matmul = precision;
    impl_->number_target();
}

CompileStats Engine::stats() const {
    const codegen::KernelCacheStats kernels = impl_->kernels.stats();
    CompileStats stats;
    stats.programs_compiled = impl_->compiled;
    stats.programs_resized = impl_->instantiated;
    stats.programs_reused = impl_->programs.hits();
    stats.kernels_compiled = kernels.compiled;
    stats.kernels_from_memory = kernels.from_memory;
    stats.kernels_from_disk = kernels.from_disk;
    stats.kernel_launches = LaunchCount::total() - impl_->launches_before;
    stats.pass_seconds = impl_->pass_seconds;
    stats.codegen_seconds = impl_->codegen_seconds;
    return stats;
}

void Engine::reset_stats() {
    impl_->compiled = impl_->instantiated = 0;
    impl_->launches_before = LaunchCount::total();
    impl_->programs.forget_hits();
    impl_->pass_seconds = impl_->codegen_seconds = 0;
    impl_->kernels.reset_stats();
}

void Engine::clear_caches() {
    impl_->programs.clear();
    impl_->templates.clear();
    impl_->kernels.clear();
}

void Engine::set_modes(const ir::Modes &modes) {
    const std::lock_guard lock(impl_->target_mutex);
    impl_->target.modes = modes;
    impl_->number_target();
}

/// After every change of the target, under its mutex: Programs for another one are not found again, those for
/// one that was there before are.
void Engine::Impl::number_target() {
    const auto next = static_cast<uint32_t>(target_numbers.size());
    target_number = target_numbers.try_emplace(target.fingerprint(), next).first->second;
}

} // namespace lz::engine
