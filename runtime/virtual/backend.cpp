#include "runtime/virtual/backend.h"

#include "ir/diagnostic.h"
#include "runtime/allocator/fault_slabs.h"
#include "runtime/api/parallel.h"
#include "runtime/cpu/host_memory.h"
#include "runtime/cpu/host_work.h"
#include "runtime/profiler/profiler.h"
#include "runtime/streams/threads.h"
#include "runtime/streams/timestamps.h"
#include "runtime/virtual/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace lz::runtime {

struct VirtualMachine {
    ~VirtualMachine() {
        if (clock)
            profile_virtual_times(false);
    }

    VirtualOptions options;
    ModuleLoader loader;
    std::vector<std::unique_ptr<DeviceSpace>> spaces;   ///< by device
    std::vector<std::vector<std::atomic<bool>>> access; ///< [who][whose]
    std::unique_ptr<PinnedSpace> pinned;
    std::unique_ptr<FaultSlabs> faults;
    std::unique_ptr<VirtualClock> clock;
    size_t memory = 0; ///< of each device
};

namespace {

constexpr size_t kGiB = size_t{1} << 30;
/// Of one GPU: what is left of 47 bits of addresses for eight times as many, twice.
constexpr size_t kMostMemory = size_t{1} << 42;

[[noreturn]] void refuse(ir::ErrorKind kind, std::string message) {
    throw ir::Failure(kind, std::move(message));
}

/// The clock's lock, where there is a clock: an item is put on the queue while it is held.
std::unique_lock<std::mutex> lock_of(VirtualClock *clock, StreamQueue &queue) {
    if (!clock)
        return {};
    queue.make_room();
    return clock->lock();
}

} // namespace

VirtualBackend::VirtualBackend(std::shared_ptr<VirtualMachine> machine, size_t index, int physical)
    : machine_(std::move(machine)), index_(index), physical_(physical),
      device_{ir::DeviceKind::Cuda, static_cast<uint8_t>(index)}, limit_(machine_->memory),
      streams_(
          std::make_shared<StreamGroup>(ir::to_string(device_), ir::ErrorKind::Cuda),
          {static_cast<size_t>(std::max(machine_->options.max_queued, 1)), machine_->options.delay_seed}) {}

VirtualBackend::~VirtualBackend() {
    streams_.drain();
    release_retired(true);
}

VirtualClock *VirtualBackend::clock() const {
    return machine_->clock.get();
}

DeviceProperties VirtualBackend::properties() const {
    DeviceProperties out;
    out.name = fmt::format("Lazuli virtual GPU {}", physical_);
    out.physical_index = physical_;
    out.is_virtual = true;
    out.total_memory = static_cast<int64_t>(limit_);
    out.multi_processor_count = num_threads();
    out.copy_engines = 2;
    if (const auto &model = machine_->options.model) {
        out.name += fmt::format(" ({})", model->name);
        out.major = model->major;
        out.minor = model->minor;
        if (model->multi_processor_count)
            out.multi_processor_count = model->multi_processor_count;
        out.memory_bandwidth = model->memory_bandwidth;
        out.flops = model->flops;
        out.link_bandwidth = model->link_bandwidth;
        out.peer_bandwidth = model->peer_bandwidth;
        out.launch_seconds = model->launch_seconds;
        out.submit_seconds = model->submit_seconds;
        out.wave_seconds = model->wave_seconds;
    }
    return out;
}

// --- memory

void *VirtualBackend::allocate(size_t bytes) {
    check_not_forked();
    streams_.group().check();
    release_retired(false);
    const size_t used = used_.fetch_add(bytes);
    const char *why = nullptr;
    void *memory = nullptr;
    if (bytes > limit_ || used > limit_ - bytes)
        why = "it has less";
    else if (bytes >= kAskSystem && bytes > available_memory())
        why = "the host, whose memory it is, has less";
    else if (memory = machine_->spaces[index_]->allocate(std::max<size_t>(bytes, 1)); !memory)
        why = "no place for them is left among its addresses";
    if (why) {
        used_.fetch_sub(bytes);
        refuse(ir::ErrorKind::OutOfMemory,
               fmt::format("{}: {} bytes were asked for, and {}; {} of {} bytes are free.", name(), bytes,
                           why, free_memory(), limit_));
    }
    return memory;
}

void VirtualBackend::free(void *memory, size_t bytes) noexcept {
    if (!memory)
        return;
    DeviceSpace &space = *machine_->spaces[index_];
    const size_t there = space.retire(memory);
    if (there == 0) // not ours: a bug above, and nothing here can be done about it
        return;
    used_.fetch_sub(bytes);
    release_retired(false);
    try {
        Retired retired{memory, there, {}};
        streams_.for_each([&](StreamQueue &queue) {
            if (const uint64_t tick = queue.ticks(); !queue.passed(tick))
                retired.until.emplace_back(&queue, tick);
        });
        if (!retired.until.empty()) {
            const std::lock_guard lock(retired_mutex_);
            retired_.push_back(std::move(retired));
            return;
        }
    } catch (const std::bad_alloc &) {
        return; // the bytes stay to the end
    }
    space.release(memory, there);
}

void VirtualBackend::release_retired(bool all) noexcept {
    const std::lock_guard lock(retired_mutex_);
    const auto over = [](const auto &until) { return until.first->passed(until.second); };
    while (!retired_.empty() && (all || std::ranges::all_of(retired_.front().until, over))) {
        machine_->spaces[index_]->release(retired_.front().memory, retired_.front().bytes);
        retired_.pop_front();
    }
}

size_t VirtualBackend::free_memory() const {
    return std::min(limit_ - std::min(used_.load(), limit_), available_memory());
}

void *VirtualBackend::allocate_pinned(size_t bytes) {
    check_not_forked();
    streams_.group().check();
    void *memory = bytes >= kAskSystem && bytes > available_memory()
                       ? nullptr
                       : machine_->pinned->allocate(std::max<size_t>(bytes, 1));
    if (!memory)
        refuse(ir::ErrorKind::OutOfMemory,
               fmt::format("{}: the host has no {} bytes of pinned memory.", name(), bytes));
    return memory;
}

void VirtualBackend::free_pinned(void *memory, size_t) noexcept {
    machine_->pinned->free(memory);
}

bool VirtualBackend::is_pinned(const void *memory) const {
    return machine_->pinned->holds(memory);
}

ir::Fault *VirtualBackend::allocate_faults(size_t count) {
    void *const memory = machine_->faults->take(count);
    if (!memory)
        refuse(ir::ErrorKind::OutOfMemory,
               fmt::format("{}: the host has no pinned memory for {} faults.", name(), count));
    auto *const faults = static_cast<ir::Fault *>(memory);
    std::uninitialized_value_construct_n(faults, count);
    return faults;
}

void VirtualBackend::free_faults(ir::Fault *faults, size_t count) noexcept {
    machine_->faults->give_back(faults, count);
}

// --- peers and addresses

bool VirtualBackend::can_access_peer(const Backend &other) const {
    const auto *peer = dynamic_cast<const VirtualBackend *>(&other);
    return peer && peer != this && peer->machine_ == machine_ && machine_->options.peers;
}

void VirtualBackend::set_peer_access(Backend &other, bool enable) {
    streams_.group().check();
    if (!can_access_peer(other))
        refuse(ir::ErrorKind::Device,
               fmt::format("{} cannot have access to the memory of {}.", name(), other.name()));
    machine_->access[index_][static_cast<VirtualBackend &>(other).index_] = enable;
}

/// Where the `bytes` at an address are, for this device.
VirtualBackend::Place VirtualBackend::find(const char *what, const void *address, size_t bytes) const {
    const auto place_in = [&](const DeviceSpace &space, Side side) {
        size_t left = 0;
        void *const at = space.bytes_at(address, left);
        if (!at)
            refuse(ir::ErrorKind::Cuda,
                   fmt::format("{} on {}: the address {} is {}'s, and in no memory of it that is allocated.",
                               what, name(), address, ir::to_string(space.device())));
        if (left < bytes)
            refuse(ir::ErrorKind::Cuda,
                   fmt::format("{} on {}: of the {} bytes at address {}, {}'s memory there has {}.", what,
                               name(), bytes, address, ir::to_string(space.device()), left));
        return Place{at, side, space.device()};
    };
    if (machine_->spaces[index_]->holds(address))
        return place_in(*machine_->spaces[index_], Side::Own);
    for (size_t d = 0; d < machine_->spaces.size(); ++d) {
        const DeviceSpace &space = *machine_->spaces[d];
        if (!space.holds(address))
            continue;
        if (!machine_->access[index_][d])
            refuse(ir::ErrorKind::Cuda,
                   fmt::format("{} on {}: the address {} belongs to {}, and {} has no peer access to it "
                               "(enable_peer_access).",
                               what, name(), address, ir::to_string(space.device()), name()));
        return place_in(space, Side::Peer);
    }
    return {const_cast<void *>(address), machine_->pinned->holds(address) ? Side::Pinned : Side::Host, {}};
}

/// Device pointers become the bytes that they stand for.
void VirtualBackend::translate(const char *what, std::span<void *> pointers) const {
    if (machine_->spaces[index_]->translate(pointers))
        return;
    for (void *&pointer : pointers) {
        if (!pointer)
            continue;
        const Place place = find(what, pointer, 0);
        if (place.side == Side::Host || place.side == Side::Pinned)
            refuse(ir::ErrorKind::Cuda,
                   fmt::format(
                       "{} on {}: the address {} is {} memory of the host, which {} cannot use; copy it "
                       "to the device.",
                       what, name(), pointer, place.side == Side::Pinned ? "pinned" : "pageable", name()));
        pointer = place.bytes;
    }
}

void VirtualBackend::check_fault(const char *what, const ir::Fault *fault) const {
    if (fault && !machine_->pinned->reserves(fault)) [[unlikely]]
        refuse(ir::ErrorKind::Cuda,
               fmt::format("{} on {}: its faults are at the address {}, where {} cannot write them "
                           "(allocate_faults).",
                           what, name(), static_cast<const void *>(fault), name()));
}

// --- streams

StreamQueue &VirtualBackend::queue(StreamId stream) {
    StreamQueue &queue = streams_.at(stream);
    streams_.group().check();
    return queue;
}

StreamId VirtualBackend::create_stream(int priority) {
    check_not_forked();
    streams_.group().check();
    return streams_.create(priority);
}

uint64_t VirtualBackend::record(StreamId stream) {
    return streams_.at(stream).ticks();
}

std::shared_ptr<Timestamp> VirtualBackend::record_time(StreamId stream) {
    StreamQueue &on = queue(stream);
    if (!clock())
        return RealTimestamp::on(on);
    const auto lock = lock_of(clock(), on);
    return std::make_shared<VirtualTimestamp>(on.shared_from_this(), on.ticks(), clock()->now(ref(stream)));
}

void VirtualBackend::wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) {
    StreamQueue &on = queue(stream);
    if (auto *gpu = dynamic_cast<VirtualBackend *>(&other)) {
        StreamQueue &target = gpu->queue(of);
        if (&target == &on || (!clock() && target.passed(tick)))
            return;
        const auto lock = lock_of(clock(), on);
        on.put_wait(target.shared_from_this(), tick);
        if (clock())
            clock()->wait(ref(stream), {other.device(), of}, tick);
        return;
    }
    if (!clock() && other.reached(of, tick))
        return;
    const auto lock = lock_of(clock(), on);
    on.put_wait(other, of, tick);
    if (clock())
        clock()->wait(ref(stream), {other.device(), of}, tick);
}

bool VirtualBackend::pending(StreamId stream, uint64_t tick) {
    if (!clock())
        return !reached(stream, tick);
    streams_.group().check();
    const auto lock = clock()->lock();
    return clock()->is_ahead(ref(stream), tick);
}

void VirtualBackend::synchronize(StreamId stream, uint64_t tick) {
    // A stream that waits for this one is no host: its clock was moved when the wait was issued.
    if (clock() && !on_stream_thread()) {
        const auto lock = clock()->lock();
        clock()->synchronize(ref(stream), tick);
    }
    streams_.at(stream).synchronize(tick);
}

void VirtualBackend::call_host(StreamId stream, std::function<void()> callback) {
    StreamQueue &on = queue(stream);
    const auto lock = lock_of(clock(), on);
    on.put(std::move(callback));
    if (clock())
        clock()->pass(ref(stream));
}

// --- work

void VirtualBackend::copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done) {
    StreamQueue &on = queue(stream);
    const Place target = find("copy", to, bytes), source = find("copy", from, bytes);
    const auto lock = lock_of(clock(), on);
    on.put(StreamQueue::Kind::Copy, sizeof(PackedCopy), run_packed_copy, std::move(done),
           [&](void *packed) -> std::optional<TimeSpan> {
               *static_cast<PackedCopy *>(packed) = {target.bytes, source.bytes, bytes};
               if (!clock())
                   return std::nullopt;
               using Route = VirtualClock::Route;
               const auto on_host = [](const Place &p) {
                   return p.side == Side::Host || p.side == Side::Pinned;
               };
               const bool pageable = target.side == Side::Host || source.side == Side::Host;
               if (on_host(source))
                   return clock()->copy(ref(stream), Route::In, bytes, pageable);
               if (on_host(target))
                   return clock()->copy(ref(stream), Route::Out, bytes, pageable);
               if (target.device == source.device)
                   return clock()->copy(ref(stream), Route::Inside, bytes, false);
               const Device peer = source.device == device_ ? target.device : source.device;
               return clock()->copy(ref(stream), Route::Peer, bytes, false, peer);
           });
}

std::unique_ptr<Module> VirtualBackend::load(const CompiledKernel &kernel) {
    streams_.group().check();
    if (!machine_->loader)
        refuse(
            ir::ErrorKind::Compile,
            fmt::format("{}: kernel {} cannot be loaded, because this build has no loader of compiled code.",
                        name(), kernel.name));
    return machine_->loader(kernel);
}

void VirtualBackend::pack_launch(const Launch &launch, void *packed) const {
    translate("launch", pack(launch, packed));
    for (uint32_t s = 0; s < launch.segments; ++s)
        check_fault("launch", launch.frames[s].fault);
}

void VirtualBackend::pack_call(const Call &call, void *packed) const {
    translate("library call", pack(call, packed));
    check_fault("library call", call.args.fault);
}

void VirtualBackend::launch(const Launch &launch, StreamId stream, OnDone done) {
    StreamQueue &on = queue(stream);
    const auto lock = lock_of(clock(), on);
    on.put(StreamQueue::Kind::Work, packed_size(launch), run_packed_launch, std::move(done),
           [&](void *packed) -> std::optional<TimeSpan> {
               pack_launch(launch, packed);
               if (!clock())
                   return std::nullopt;
               return clock()->work(ref(stream), launch.bytes, launch.flops);
           });
}

void VirtualBackend::call(const Call &call, StreamId stream, OnDone done) {
    StreamQueue &on = queue(stream);
    const auto lock = lock_of(clock(), on);
    on.put(StreamQueue::Kind::Work, packed_size(call), run_packed_call, std::move(done),
           [&](void *packed) -> std::optional<TimeSpan> {
               pack_call(call, packed);
               if (!clock())
                   return std::nullopt;
               return clock()->work(ref(stream), call.bytes, call.flops);
           });
}

// --- replay

namespace {

using Step = Backend::Replay::Step;
using StepKind = Backend::Replay::Kind;

/// More than this is several items: the ring keeps the memory of each.
constexpr size_t kSequenceBytes = size_t{64} << 10;

StreamQueue::Kind item_kind(StepKind kind) {
    return kind == StepKind::Copy ? StreamQueue::Kind::Copy : StreamQueue::Kind::Work;
}

bool is_work(StepKind kind) {
    return kind != StepKind::Record && kind != StepKind::Wait;
}

PackedHeader header_of(const Backend::Replay &replay, const Step &step) {
    switch (step.kind) {
    case StepKind::Launch:
        return {run_packed_launch, packed_size(replay.launches[step.index])};
    case StepKind::Call:
        return {run_packed_call, packed_size(replay.calls[step.index])};
    default:
        return {run_packed_copy, sizeof(PackedCopy)};
    }
}

} // namespace

void VirtualBackend::replay(const Replay &replay, std::unique_ptr<ReplayMemory> &, size_t &done) {
    if (clock())
        return;
    replay.fill();
    while (done < replay.steps.size()) {
        const Step &first = replay.steps[done];
        const StreamId stream = replay.streams[first.stream];
        if (first.kind == StepKind::Record) {
            replay.event_ticks[first.index] = record(stream);
            ++done;
        } else if (first.kind == StepKind::Wait) {
            wait(stream, *this, replay.streams[first.from], replay.event_ticks[first.index]);
            ++done;
        } else {
            size_t end = done, bytes = 0;
            while (end < replay.steps.size() && is_work(replay.steps[end].kind) &&
                   replay.steps[end].stream == first.stream &&
                   item_kind(replay.steps[end].kind) == item_kind(first.kind) && bytes < kSequenceBytes)
                bytes += header_of(replay, replay.steps[end++]).bytes;
            put_sequence(replay, done, end);
        }
    }
}

/// Steps [done, end), all on one stream, as one item. When one of them is refused those before it are put.
void VirtualBackend::put_sequence(const Replay &replay, size_t &done, size_t end) {
    const std::span<const Step> steps = replay.steps.subspan(done, end - done);
    StreamQueue &on = queue(replay.streams[steps.front().stream]);
    size_t packed_steps = 0;
    const auto put = [&](size_t count) {
        size_t bytes = sizeof(PackedHeader);
        for (const Step &step : steps.first(count))
            bytes += sizeof(PackedHeader) + header_of(replay, step).bytes;
        on.put(item_kind(steps.front().kind), bytes, run_packed_sequence, {},
               [&](void *packed) -> std::optional<TimeSpan> {
                   auto *at = static_cast<std::byte *>(packed);
                   for (packed_steps = 0; packed_steps < count; ++packed_steps) {
                       const Step &step = steps[packed_steps];
                       const PackedHeader header = header_of(replay, step);
                       *reinterpret_cast<PackedHeader *>(at) = header;
                       pack_step(replay, step, at + sizeof(PackedHeader));
                       at += sizeof(PackedHeader) + header.bytes;
                   }
                   *reinterpret_cast<PackedHeader *>(at) = {nullptr, 0};
                   return std::nullopt;
               });
        done += count;
    };
    try {
        put(steps.size());
    } catch (const ir::Failure &) {
        if (packed_steps > 0)
            put(packed_steps);
        throw;
    }
}

void VirtualBackend::pack_step(const Replay &replay, const Step &step, void *packed) const {
    if (step.kind == StepKind::Launch) {
        pack_launch(replay.launches[step.index], packed);
    } else if (step.kind == StepKind::Call) {
        pack_call(replay.calls[step.index], packed);
    } else {
        const Copy &copy = replay.copies[step.index];
        *static_cast<PackedCopy *>(packed) = {find("copy", copy.to, copy.bytes).bytes,
                                              find("copy", copy.from, copy.bytes).bytes, copy.bytes};
    }
}

// --- the machine

std::vector<std::unique_ptr<Backend>> make_virtual_gpus(const VirtualOptions &options, ModuleLoader loader) {
    if (options.count < 0 || options.count > kMaxVirtualGpus)
        refuse(ir::ErrorKind::Device, fmt::format("A machine has 0 to {} virtual GPUs; {} were asked for.",
                                                  kMaxVirtualGpus, options.count));
    std::vector<int> visible;
    if (options.visible)
        visible = *options.visible;
    else
        for (int i = 0; i < options.count; ++i)
            visible.push_back(i);
    for (size_t i = 0; i < visible.size(); ++i)
        if (visible[i] < 0 || visible[i] >= options.count || std::ranges::count(visible, visible[i]) > 1)
            refuse(
                ir::ErrorKind::Device,
                fmt::format("Virtual GPU {} cannot be made visible: there are {}, from 0 on, each of which "
                            "can be named once.",
                            visible[i], options.count));

    auto machine = std::make_shared<VirtualMachine>();
    machine->options = options;
    machine->loader = std::move(loader);
    if (options.model) {
        machine->options.peers = options.peers && options.model->peers;
        machine->clock = std::make_unique<VirtualClock>(*options.model);
        profile_virtual_times(true);
    }

    machine->memory = options.memory_bytes ? options.memory_bytes
                                           : physical_memory() / (static_cast<size_t>(options.count) + 1);
    // Addresses are cheap: with enough of them holes of any size are found.
    if (machine->memory > kMostMemory)
        refuse(ir::ErrorKind::Device, fmt::format("A virtual GPU can have up to {} bytes of memory; {} were "
                                                  "asked for.",
                                                  kMostMemory, machine->memory));
    const size_t range = std::max(8 * machine->memory, 64 * kGiB);
    machine->pinned = std::make_unique<PinnedSpace>(std::max(4 * physical_memory(), 64 * kGiB));
    machine->faults = std::make_unique<FaultSlabs>(
        [pinned = machine->pinned.get()](size_t bytes) { return pinned->allocate(bytes); },
        [pinned = machine->pinned.get()](void *memory) { pinned->free(memory); });
    for (size_t i = 0; i < visible.size(); ++i) {
        machine->spaces.push_back(
            std::make_unique<DeviceSpace>(Device{ir::DeviceKind::Cuda, static_cast<uint8_t>(i)}, range));
        machine->access.emplace_back(visible.size());
    }
    std::vector<std::unique_ptr<Backend>> backends;
    for (size_t i = 0; i < visible.size(); ++i)
        backends.push_back(std::make_unique<VirtualBackend>(machine, i, visible[i]));
    return backends;
}

} // namespace lz::runtime
