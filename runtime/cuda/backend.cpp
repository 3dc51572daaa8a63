#include "runtime/cuda/backend.h"

#include "runtime/api/parallel.h"
#include "runtime/cuda/launch.h"
#include "runtime/cuda/replay/graph.h"
#include "runtime/streams/threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lz::runtime::cuda {

namespace {

constexpr int kOldestMajor = 8;

/// What runs on GPUs as library calls.
constexpr ir::LibraryRule kDot = {"dot", [](std::span<const int64_t>, const ir::DeviceInfo &device) {
                                      return matmul_workspace_bytes(device);
                                  }};
/// What the user registered for CUDA devices: it has no scratch.
constexpr ir::LibraryRule kUserCall = {ir::kCallPrefix, nullptr};
const ir::CudaCall *find_user_call(std::string_view symbol) {
    return symbol.starts_with(ir::kCallPrefix) ? ir::find_cuda_call(symbol.substr(ir::kCallPrefix.size()))
                                               : nullptr;
}
/// Joins are emitted kernels; what else there is no function for runs on the host.
const ir::LibraryRule *find_rule(std::string_view symbol) {
    if (symbol == kDot.symbol)
        return has_cublaslt() ? &kDot : nullptr;
    if (const CudaFunction *const found = find_cuda_function(symbol))
        return found;
    if (find_user_call(symbol))
        return &kUserCall;
    return symbol == "concat" ? nullptr : cpu_library().find(symbol);
}
constexpr ir::LibraryRules kRules = {"cuda", find_rule};

DeviceProperties properties_of(const CudaDevice &device) {
    const Driver &driver = device.driver();
    DeviceProperties out;
    char name[256] = {};
    device.check(driver.cuDeviceGetName(name, sizeof(name), device.handle()), "asking for its name");
    out.name = name;
    out.physical_index = device.ordinal();
    size_t bytes = 0;
    device.check(driver.cuDeviceTotalMem(&bytes, device.handle()), "asking for its memory");
    out.total_memory = static_cast<int64_t>(bytes);
    out.major = device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
    out.minor = device.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    out.multi_processor_count = device.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    out.copy_engines = device.attribute(CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);

    ir::CudaLimits limits;
    limits.sm = 10 * out.major + out.minor;
    limits.multiprocessors = out.multi_processor_count;
    limits.threads_per_sm = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
    limits.threads_per_block = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    limits.registers_per_sm = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
    limits.shared_per_sm = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    limits.shared_per_block = device.attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    limits.l2_bytes = device.attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    // Compute capability 9.0 has them first, of eight blocks on every device.
    limits.cluster_blocks =
        limits.sm >= 90 && device.attribute(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH) != 0 ? 8 : 1;
    limits.parameter_bytes = driver.version >= 12010 && out.major >= 7 ? 32764 : 4096;
    out.cuda = limits;

    // Kilohertz, and two transfers a cycle; where the driver does not tell, an H200's.
    const double memory_clock = 1e3 * device.attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
    const double bus_bytes = device.attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8.0;
    out.memory_bandwidth = memory_clock > 0 && bus_bytes > 0 ? 2 * memory_clock * bus_bytes : 4.8e12;
    const double clock = 1e3 * device.attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    out.flops = (clock > 0 ? clock : 1.8e9) * 256 * limits.multiprocessors; // 128 lanes, two operations each
    out.link_bandwidth = 5e10;
    out.peer_bandwidth = 4e11;
    out.launch_seconds = 3e-6;
    out.submit_seconds = 2e-6;
    return out;
}

} // namespace

// --- memory

CudaBackend::CudaBackend(const Driver &driver, int ordinal, int index, CudaOptions options)
    : options_(options), device_(driver, ordinal, index), properties_(properties_of(device_)),
      segments_(device_, static_cast<size_t>(properties_.total_memory), [this] { finish_streams(); }),
      faults_(
          [this](size_t bytes) {
              const Entered entered(device_, "entering its context");
              return device_.allocate_pinned(bytes);
          },
          [this](void *memory) { device_.free_pinned(memory); }),
      clock_(device_), pinned_(device_, options.unused_pinned_bytes),
      kernels_(device_, *this, options.load_source), capture_(device_) {}

CudaBackend::~CudaBackend() {
    if (!in_forked_child())
        finish_streams();
}

void CudaBackend::finish_streams() noexcept {
    for (const auto &at : streams_)
        if (CudaStream *const stream = at.load(std::memory_order_acquire))
            try {
                stream->synchronize(stream->record());
            } catch (...) { // a lost device does nothing any more
            }
}

void *CudaBackend::allocate(size_t bytes) {
    check_not_forked();
    const Entered entered(device_, "an allocation");
    CUdeviceptr memory = 0;
    const CUresult result = device_.driver().cuMemAlloc(&memory, std::max<size_t>(bytes, 1));
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        throw ir::Failure(ir::ErrorKind::OutOfMemory,
                          fmt::format("{} has no block of {} bytes; {} of {} bytes are free.", name(), bytes,
                                      free_memory(), total_memory()));
    device_.check(result, "an allocation");
    return reinterpret_cast<void *>(memory); // NOLINT: addresses of the device are the host's size
}

void CudaBackend::free(void *memory, size_t) noexcept {
    if (!memory || in_forked_child())
        return;
    // cuMemFree waits itself, but perhaps with locks of the driver's held, and the threads beside the streams
    // need the driver.
    finish_streams();
    const Current current(device_.driver(), device_.context());
    device_.driver().cuMemFree(reinterpret_cast<CUdeviceptr>(memory)); // of a lost device it is gone
}

ExpandableMemory *CudaBackend::expandable() {
    return options_.expandable_segments && segments_.supported() ? &segments_ : nullptr;
}

size_t CudaBackend::free_memory() const {
    if (in_forked_child())
        return 0;
    const Current current(device_.driver(), device_.context());
    size_t free = 0, total = 0;
    return device_.driver().cuMemGetInfo(&free, &total) == CUDA_SUCCESS ? free : 0;
}

void *CudaBackend::allocate_pinned(size_t bytes) {
    check_not_forked();
    const Entered entered(device_, "an allocation of pinned memory");
    return device_.allocate_pinned(bytes);
}

void CudaBackend::free_pinned(void *memory, size_t) noexcept {
    if (!memory || in_forked_child())
        return;
    finish_streams(); // as above
    device_.free_pinned(memory);
}

ir::Fault *CudaBackend::allocate_faults(size_t count) {
    check_not_forked();
    auto *const faults = static_cast<ir::Fault *>(faults_.take(count));
    std::uninitialized_value_construct_n(faults, count);
    return faults;
}

void CudaBackend::free_faults(ir::Fault *faults, size_t count) noexcept {
    faults_.give_back(faults, count);
}

// --- peers

bool CudaBackend::can_access_peer(const Backend &other) const {
    const auto *peer = dynamic_cast<const CudaBackend *>(&other);
    if (!peer || peer == this)
        return false;
    int can = 0;
    return device_.driver().cuDeviceCanAccessPeer(&can, device_.handle(), peer->device_.handle()) ==
               CUDA_SUCCESS &&
           can;
}

void CudaBackend::set_peer_access(Backend &other, bool enable) {
    if (!can_access_peer(other))
        throw ir::Failure(ir::ErrorKind::Device,
                          fmt::format("{} cannot have access to the memory of {}.", name(), other.name()));
    const Entered entered(device_, "entering its context");
    auto &owner = static_cast<CudaBackend &>(other);
    const CUcontext peer = owner.device_.context();
    const CUresult result = enable ? device_.driver().cuCtxEnablePeerAccess(peer, 0)
                                   : device_.driver().cuCtxDisablePeerAccess(peer);
    if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED && result != CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
        device_.check(result, "changing peer access");
    owner.segments_.set_access(device_.handle(), enable); // that of contexts is of other memory
}

// --- streams

CudaStream &CudaBackend::at(StreamId stream) {
    const auto index = static_cast<size_t>(stream);
    if (index < streams_.size())
        if (CudaStream *found = streams_[index].load(std::memory_order_acquire)) [[likely]]
            return *found;
    return make(stream);
}

CudaStream &CudaBackend::make(StreamId stream) {
    check_not_forked();
    const std::lock_guard lock(streams_mutex_);
    const auto index = static_cast<size_t>(stream);
    if (stream < 0 || stream >= ir::kMaxStreams || (stream >= ir::kFirstUserStream && !taken_[index]))
        throw ir::Failure(ir::ErrorKind::Device,
                          fmt::format("{} has no stream {}; streams of the user's are made by create_stream.",
                                      name(), stream));
    if (!owners_[index]) {
        owners_[index] = std::make_unique<CudaStream>(device_, stream);
        streams_[index].store(owners_[index].get(), std::memory_order_release);
    }
    return *owners_[index];
}

StreamId CudaBackend::create_stream(int priority) {
    check_not_forked();
    StreamId stream = ir::kFirstUserStream;
    {
        const std::lock_guard lock(streams_mutex_);
        while (stream < ir::kMaxStreams && taken_[static_cast<size_t>(stream)])
            ++stream;
        if (stream == ir::kMaxStreams)
            throw ir::Failure(ir::ErrorKind::Device,
                              fmt::format("{} has {} streams of the user's, and no more than that at a time.",
                                          name(), ir::kMaxStreams - ir::kFirstUserStream));
        taken_.set(static_cast<size_t>(stream));
    }
    try {
        at(stream).set_priority(priority);
    } catch (...) {
        destroy_stream(stream);
        throw;
    }
    return stream;
}

/// Its number is free again; who gets it next comes after what is still on it.
void CudaBackend::destroy_stream(StreamId stream) noexcept {
    const std::lock_guard lock(streams_mutex_);
    if (stream >= ir::kFirstUserStream && stream < ir::kMaxStreams)
        taken_.reset(static_cast<size_t>(stream));
}

class CudaBackend::Moment final : public Timestamp {
public:
    Moment(CudaBackend &backend, CudaStream &stream)
        : backend_(backend), stream_(stream), event_(backend.device_, CU_EVENT_DEFAULT) {
        backend.clock_.begin();
        const Entered entered(backend.device_, "entering its context");
        stream.put("recording an event", [&](CUstream handle) {
            return backend.device_.driver().cuEventRecord(event_.get(), handle);
        });
        tick_ = stream.record();
    }
    bool reached() const override { return stream_.reached(tick_); }
    int64_t time() const override { return backend_.clock_.time_of(event_.get()); }

private:
    CudaBackend &backend_;
    CudaStream &stream_;
    const OwnedEvent event_;
    uint64_t tick_;
};

std::shared_ptr<Timestamp> CudaBackend::record_time(StreamId stream) {
    device_.group()->check();
    return std::make_shared<Moment>(*this, at(stream));
}

void CudaBackend::wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) {
    device_.group()->check();
    CudaStream &on = at(stream);
    if (auto *gpu = dynamic_cast<CudaBackend *>(&other)) {
        on.wait(gpu->at(of), tick);
        return;
    }
    if (other.reached(of, tick))
        return;
    // The CPU's stream writes a word when it has come to its present end, which is no earlier.
    const std::lock_guard lock(cpu_words_mutex_);
    const uint64_t value = ++cpu_values_[static_cast<size_t>(of)];
    const auto signal = std::make_shared<Signal>(device_.cpu_word(of), value);
    try {
        other.call_host(of, [signal] {});
    } catch (...) {
        signal->give_up();
        throw;
    }
    on.wait(device_.cpu_word(of), value);
}

void CudaBackend::wait_foreign(StreamId stream, void *foreign) {
    device_.group()->check();
    at(stream).wait_foreign(static_cast<CUstream>(foreign));
}

void CudaBackend::foreign_waits(void *foreign, StreamId stream, uint64_t tick) {
    at(stream).foreign_waits(static_cast<CUstream>(foreign), tick);
}

bool CudaBackend::reached(StreamId stream, uint64_t tick) {
    return at(stream).reached(tick);
}

void CudaBackend::synchronize(StreamId stream, uint64_t tick) {
    at(stream).synchronize(tick);
}

void CudaBackend::call_host(StreamId stream, std::function<void()> callback) {
    device_.group()->check();
    at(stream).call_host(std::move(callback));
}

// --- code

std::unique_ptr<Module> CudaBackend::load(const CompiledKernel &kernel) {
    check_not_forked();
    if (kernel.format != ir::CodeFormat::Cubin && kernel.format != ir::CodeFormat::Ptx)
        throw ir::Failure(ir::ErrorKind::Compile,
                          fmt::format("{}: the code of kernel {} is not a GPU's.", name(), kernel.name));
    const Entered entered(device_, "entering its context");
    return std::make_unique<CudaModule>(device_, kernel);
}

std::string CudaBackend::module_key() const {
    return fmt::format("cuda sm_{}", properties_.cuda->sm);
}

const ir::LibraryRules &CudaBackend::library() const {
    return kRules;
}

LibraryFn CudaBackend::find_library(std::string_view symbol) const {
    if (const CudaFunction *const found = find_cuda_function(symbol))
        return found->bind(kernels_).repeatable();
    if (const ir::CudaCall *const call = find_user_call(symbol))
        return kernels_.bind(*call);
    if (symbol != kDot.symbol)
        return symbol == "concat" ? LibraryFn() : find_cpu_function(symbol).on_host();
    if (!has_cublaslt())
        return nullptr;
    const LibraryFn product(
        [](const void *self, const LibraryArgs &args) {
            static_cast<const CudaBackend *>(self)->multiplier().run(args);
        },
        this);
    return product.repeatable();
}

Multiplier &CudaBackend::multiplier() const {
    const std::lock_guard lock(multiplier_mutex_);
    if (!multiplier_)
        multiplier_ = std::make_unique<Multiplier>(
            kernels_, fmt::format("{} sm_{}", properties_.name, properties_.cuda->sm), options_.store);
    return *multiplier_;
}

// --- work

/// What `put` puts on the stream; `done` is told when that ran.
void CudaBackend::timed(CudaStream &stream, OnDone done, const std::function<void()> &put) {
    if (!done) [[likely]] {
        put();
        return;
    }
    const auto begin = std::make_shared<Moment>(*this, stream);
    put();
    const auto end = std::make_shared<Moment>(*this, stream);
    auto shared = std::make_shared<OnDone>(std::move(done));
    stream.call_host([=] { (*shared)({begin->time(), end->time()}); });
}

void CudaBackend::launch(const Launch &launch, StreamId stream, OnDone done) {
    if (launch.put)
        *launch.put = 0;
    CudaStream &on = at(stream);
    const Entered entered(device_, "a launch");
    timed(on, std::move(done), [&] { put_launch(launch, on); });
}

void CudaBackend::put_launch(const Launch &launch, CudaStream &stream) {
    const auto put = [&](DriverLaunch &one) {
        std::optional<PinnedBlocks::Lease> table;
        if (one.table_bytes() > 0)
            one.set_table(table.emplace(pinned_, one.table_bytes(), stream).memory());
        stream.put("a launch", [&](CUstream handle) { return one.put(device_.driver(), handle); });
    };
    for_each_driver_launch(device_, launch, put, [&](uint32_t segments) {
        if (launch.put)
            *launch.put = segments;
    });
}

void CudaBackend::call(const Call &call, StreamId stream, OnDone done) {
    CudaStream &on = at(stream);
    const Entered entered(device_, "a library call");
    timed(on, std::move(done), [&] {
        if (call.function.is_on_host()) {
            call_on_host(call, on);
            return;
        }
        on.put("a library call", [&](CUstream handle) {
            LibraryArgs args = call.args;
            args.driver_stream = handle;
            call.function(args);
            return CUDA_SUCCESS;
        });
    });
}

namespace {

/// A function of the host with everything that it needs there.
struct HostCall {
    HostCall(PinnedBlocks &blocks, size_t bytes, CudaStream &stream) : block(blocks, bytes, stream) {}

    PinnedBlocks::Lease block; ///< of all buffers
    LibraryFn function;
    std::vector<void *> buffers;
    std::vector<int64_t> ints;
    LibraryArgs args;

    void run() {
        try {
            std::vector<std::byte> scratch(args.scratch.size() + kLine);
            const size_t past = reinterpret_cast<uintptr_t>(scratch.data()) % kLine;
            args.buffers = buffers;
            args.ints = ints;
            args.scratch = {scratch.data() + (past ? kLine - past : 0), args.scratch.size()};
            function(args);
        } catch (const std::bad_alloc &) {
            if (!args.fault)
                throw;
            args.fault->code.store(static_cast<int32_t>(ir::FaultCode::OutOfMemory),
                                   std::memory_order_release);
        }
    }
    static constexpr size_t kLine = 64;
};

} // namespace

/// Its buffers go to pinned memory before and back after it; the stream's thread runs it.
void CudaBackend::call_on_host(const Call &call, CudaStream &stream) {
    size_t bytes = 0;
    std::vector<size_t> places;
    for (const Call::Use &use : call.uses) {
        places.push_back(bytes);
        bytes += (static_cast<size_t>(use.bytes) + HostCall::kLine - 1) / HostCall::kLine * HostCall::kLine;
    }
    // Whatever is thrown meanwhile, the thread may have it still.
    const auto job = std::make_shared<HostCall>(pinned_, bytes, stream);
    job->function = call.function;
    job->args = call.args;
    job->ints.assign(call.args.ints.begin(), call.args.ints.end());
    std::byte *const block = job->block.memory();
    const auto copy_all = [&](bool in) {
        for (size_t b = 0; b < call.uses.size(); ++b) {
            const Call::Use &use = call.uses[b];
            if (use.bytes == 0 || !(in ? use.reads : use.writes))
                continue;
            void *const there = call.args.buffers[b];
            put_copy(in ? block + places[b] : there, in ? there : block + places[b],
                     static_cast<size_t>(use.bytes), stream);
        }
    };
    for (size_t b = 0; b < call.uses.size(); ++b)
        job->buffers.push_back(call.uses[b].bytes ? block + places[b] : nullptr);
    copy_all(true);
    stream.call_host([job] { job->run(); });
    copy_all(false);
    job->block.give_back();
}

// --- replay

/// One launch of a graph on the first stream, which the others wait for, and which waits for them.
void CudaBackend::replay(const Replay &replay, std::unique_ptr<ReplayMemory> &memory, size_t &done) {
    if (!options_.graphs || done != 0)
        return;
    const Entered entered(device_, "a graph");
    if (!replay.copies.empty())
        replay.fill();
    for (const Copy &copy : replay.copies) // those are the work of a thread of the host
        if (copy.bytes > 0 && (is_pageable(copy.from) || is_pageable(copy.to)))
            return;
    if (!memory)
        memory = std::make_unique<GraphReplay>(device_, capture_, pinned_);
    CudaStream &first = at(replay.streams[0]);
    const CUgraphExec exec = static_cast<GraphReplay &>(*memory).instance(replay, first);
    if (!exec)
        return;
    for (const StreamId other : replay.streams.subspan(1))
        first.wait(at(other), at(other).record());
    first.put("a graph", [&](CUstream handle) { return device_.driver().cuGraphLaunch(exec, handle); });
    const uint64_t end = first.record();
    for (const StreamId other : replay.streams.subspan(1))
        try {
            at(other).wait(first, end);
        } catch (const ir::Failure &) { // the graph runs, and must not run again: the host waits instead
            first.synchronize(end);
        }
    std::ranges::fill(replay.event_ticks, 0); // nobody asks for moments within
    done = replay.steps.size();
}

// --- the devices

std::vector<std::unique_ptr<Backend>> make_cuda_gpus(const Driver &driver, CudaOptions options,
                                                     std::string &none) {
    int count = 0;
    if (const CUresult result = driver.cuDeviceGetCount(&count); result != CUDA_SUCCESS) {
        none =
            fmt::format("The CUDA driver does not say what devices there are: {}.", describe(driver, result));
        return {};
    }
    std::vector<std::unique_ptr<Backend>> backends;
    for (int ordinal = 0; ordinal < count && backends.size() < kMaxDevices; ++ordinal) {
        CUdevice device = 0;
        int major = 0, minor = 0;
        const auto ask = [&](int &value, CUdevice_attribute which) {
            return driver.cuDeviceGetAttribute(&value, which, device);
        };
        CUresult result = driver.cuDeviceGet(&device, ordinal);
        if (result == CUDA_SUCCESS)
            result = ask(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
        if (result == CUDA_SUCCESS)
            result = ask(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
        if (result != CUDA_SUCCESS) { // without it the others would have other numbers
            none = fmt::format("The CUDA driver does not say what its device {} is: {}.", ordinal,
                               describe(driver, result));
            return {};
        }
        if (major < kOldestMajor) {
            none = fmt::format("The driver's device {} has compute capability {}.{}; {}.0 is the oldest that "
                               "Lazuli uses.",
                               ordinal, major, minor, kOldestMajor);
            continue;
        }
        backends.push_back(
            std::make_unique<CudaBackend>(driver, ordinal, static_cast<int>(backends.size()), options));
    }
    if (!backends.empty())
        none.clear();
    return backends;
}

} // namespace lz::runtime::cuda
