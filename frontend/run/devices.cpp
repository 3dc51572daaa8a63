#include "frontend/run/devices.h"

#include "ir/diagnostic.h"
#include "runtime/cpu/object.h"
#include "runtime/virtual/backend.h"

#if LAZULI_CUDA
#include "runtime/cuda/gpus.h"
#endif

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace lz::run {
namespace {

/// What LAZULI_VIRTUAL_GPUS asks for; 0: nothing.
int virtual_gpus() {
    const char *const text = std::getenv("LAZULI_VIRTUAL_GPUS");
    const std::string_view value = text ? text : "";
    int count = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
    return error == std::errc() && end == value.data() + value.size() && count > 0 ? count : 0;
}

} // namespace

RunDevices &RunDevices::get() {
    static RunDevices *const devices = new RunDevices;
    return *devices;
}

RunDevices::RunDevices() : cpu_(runtime::load_object), cpu_allocator_(cpu_) {
    cpu_place_.devices = {{&cpu_, &cpu_allocator_}};
}

const runtime::LoadingPlace &RunDevices::place_of(const ir::SavedProgram &file) {
    if (file.devices.empty())
        return cpu_place_;
    std::call_once(opened_, [&] { open_gpus(); });
    return place_;
}

const runtime::DeviceSlot &RunDevices::slot(ir::Device device) const {
    return device == ir::kCpu ? cpu_place_.devices[0] : place_.devices[size_t{1} + device.index];
}

/// Where the memory of one GPU is needed by another.
bool RunDevices::give_access(ir::Device who, ir::Device whose) const {
    runtime::Backend &from = *slot(who).backend, &to = *slot(whose).backend;
    if (!from.can_access_peer(to))
        return false;
    from.set_peer_access(to, true);
    return true;
}

void RunDevices::open_gpus() {
    place_.library = &library_;
    place_.may_access = [this](ir::Device who, ir::Device whose) { return give_access(who, whose); };
    try {
        if (const int count = virtual_gpus(); count > 0) {
            gpus_ = runtime::make_virtual_gpus({.count = count}, runtime::load_object);
        } else {
#if LAZULI_CUDA
            const auto load_source =
                [this](const runtime::KernelSource &source,
                       runtime::Backend &backend) -> std::shared_ptr<const runtime::Module> {
                if (std::shared_ptr<const runtime::Module> saved = library_.load(source, backend))
                    return saved;
                throw ir::Failure(ir::ErrorKind::Compile,
                                  fmt::format("no program file has the library's kernel `{}` for {}",
                                              source.name, backend.name()));
            };
            runtime::cuda::Gpus found = runtime::cuda::open_gpus(
                runtime::cuda::Search::from_environment(), {.load_source = load_source, .compiles = false});
            gpus_ = std::move(found.backends);
            place_.no_gpu = gpus_.empty() ? found.availability : std::string();
            place_.source = runtime::cuda::library_source;
            place_.why_no_cublaslt = runtime::cuda::why_no_cublaslt;
#else
            place_.no_gpu = "This build of Lazuli has no CUDA backend.";
#endif
        }
    } catch (const ir::Failure &failure) {
        place_.no_gpu = "The GPUs cannot be used: " + failure.message();
    }
    if (!gpus_.empty()) {
        pinned_memory_ = std::make_unique<runtime::PinnedMemory>(gpus_, cpu_);
        pinned_ = std::make_unique<runtime::CachingAllocator>(*pinned_memory_);
    }
    place_.devices = {{&cpu_, &cpu_allocator_, pinned_.get()}};
    for (const auto &gpu : gpus_) {
        allocators_.push_back(std::make_unique<runtime::CachingAllocator>(*gpu));
        place_.devices.push_back({gpu.get(), allocators_.back().get(), pinned_.get()});
    }
}

} // namespace lz::run
