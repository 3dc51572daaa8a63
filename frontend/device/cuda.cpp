#include "lazuli/device/cuda.h"

#include "frontend/engine/engine.h"
#include "frontend/engine/streams.h"
#include "frontend/record/record.h"
#include "frontend/record/recorder.h"
#include "frontend/record/sync/sync.h"
#include "lazuli/core/error.h"

namespace lz {

void use_virtual_gpus(int count, const VirtualGpuOptions &options, Location loc) {
    if (count < 0 || count > engine::kMaxVirtualGpus)
        throw DeviceError("use_virtual_gpus: " + std::to_string(count) +
                              " virtual GPUs were asked for; there can be 0 to " +
                              std::to_string(engine::kMaxVirtualGpus),
                          loc);
    if (options.memory_bytes < 0)
        throw DeviceError("use_virtual_gpus: a GPU cannot have " + std::to_string(options.memory_bytes) +
                              " bytes of memory; 0 means a share of the host's",
                          loc);
    if (engine::Engine::started())
        throw StateError("use_virtual_gpus: the engine has started already; call it before the first tensor "
                         "is made or device asked for",
                         loc);
    detail::translated(
        loc, [&] { engine::Options::request_virtual_gpus(count, options.memory_bytes, options.model); });
}

namespace cuda {
namespace {

using detail::Recorder;

/// A GPU that is there; `function` is named where a CPU was given.
ir::Device gpu(const Device &device, const char *function, Location loc) {
    if (device.is_cpu())
        throw DeviceError(std::string(function) + ": it concerns GPUs, and the device given is cpu", loc);
    return detail::to_ir(device, loc);
}

ir::DeviceProperties properties_of(const Device &device, const char *function, Location loc) {
    const ir::Device at = gpu(device, function, loc);
    return detail::translated(loc, [&] { return engine::Engine::get().properties(at); });
}

void set_peer_access(const Device &device, const Device &peer, bool enable, const char *function,
                     Location loc) {
    const ir::Device from = gpu(device, function, loc), to = gpu(peer, function, loc);
    if (from == to)
        throw DeviceError(std::string(function) + ": " + ir::to_string(from) +
                              " always reaches its own memory; peers are two different GPUs",
                          loc);
    detail::translated(loc, [&] {
        try {
            engine::Engine::get().set_peer_access(from, to, enable);
        } catch (const ir::Failure &failure) {
            throw ir::Failure(failure.kind(), std::string(function) + ": " + failure.message());
        }
    });
}

} // namespace

int current_device() {
    return Recorder::current().current_gpu();
}
void set_device(int index, Location loc) {
    set_device(Device::cuda(index), loc);
}
void set_device(const Device &device, Location loc) {
    Recorder::current().set_current_gpu(gpu(device, "set_device", loc).index);
}

DeviceGuard::DeviceGuard(int index, Location loc) : DeviceGuard(Device::cuda(index), loc) {}
DeviceGuard::DeviceGuard(const Device &device, Location loc) : before_(current_device()) {
    if (device.is_cuda())
        set_device(device, loc);
}
DeviceGuard::~DeviceGuard() {
    Recorder::current().set_current_gpu(before_);
}

std::string availability() {
    return engine::Engine::get().cuda_availability();
}

DeviceProperties get_device_properties(const Device &device, Location loc) {
    const ir::DeviceProperties p = properties_of(device, "get_device_properties", loc);
    return {p.name, p.is_virtual, p.total_memory, p.major, p.minor, p.multi_processor_count, p.copy_engines};
}
std::string get_device_name(const Device &device, Location loc) {
    return properties_of(device, "get_device_name", loc).name;
}

bool can_device_access_peer(const Device &device, const Device &peer, Location loc) {
    const ir::Device from = gpu(device, "can_device_access_peer", loc);
    const ir::Device to = gpu(peer, "can_device_access_peer", loc);
    return from != to && engine::Engine::get().can_access_peer(from, to);
}
void enable_peer_access(const Device &device, const Device &peer, Location loc) {
    set_peer_access(device, peer, true, "enable_peer_access", loc);
}
void disable_peer_access(const Device &device, const Device &peer, Location loc) {
    set_peer_access(device, peer, false, "disable_peer_access", loc);
}

void synchronize(const Device &device, Location loc) {
    const ir::Device at = detail::to_ir(device, loc);
    if (at == ir::kCpu) {
        detail::sync_all(loc);
        return;
    }
    detail::launch_all(loc);
    detail::translated(loc, [&] { engine::synchronize_device(at); });
    detail::settle_done();
}

} // namespace cuda
} // namespace lz
