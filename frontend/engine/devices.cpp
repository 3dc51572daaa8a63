#include "frontend/engine/devices.h"

#include "codegen/cache/kernel_cache.h"
#include "codegen/cpu.h"
#include "codegen/host.h"
#include "frontend/engine/compile/driver.h"
#include "frontend/engine/debug/log.h"
#include "ir/diagnostic.h"
#include "runtime/api/parallel.h"
#include "runtime/cpu/object.h"
#include "runtime/cpu/system_file.h"
#include "runtime/virtual/backend.h"

#if LAZULI_CUDA
#include "codegen/cuda/compiler.h"
#include "runtime/cuda/gpus.h"
#endif

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <unistd.h>

namespace lz::engine {
namespace {

/// Bytes of the cache of a level that a core reaches, from the system; `otherwise` where it does not say.
// The C library may add up what all sockets' or core groups' caches hold, and may ask the processor, which
// takes long in a virtual machine.
int64_t cache_bytes(int level, int name, int64_t otherwise) {
    const std::string text = runtime::read_system_file(
        fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", level)); // "32768K"
    int64_t kib = 0;
    std::from_chars(text.data(), text.data() + text.size(), kib);
    if (kib > 0)
        return kib << 10;
    const long bytes = ::sysconf(name);
    return bytes > 0 ? bytes : otherwise;
}

runtime::AllocatorOptions allocator_options(const Options &options) {
    runtime::AllocatorOptions parsed;
    try {
        parsed = runtime::AllocatorOptions::parse(options.alloc_conf);
    } catch (const ir::Failure &failure) {
        log_line("options", fmt::format("LAZULI_ALLOC_CONF is ignored: {}", failure.message()));
    }
    parsed.caching = !options.no_memory_caching;
    return parsed;
}

/// CUDA_VISIBLE_DEVICES as the CUDA driver reads it: indices up to the first that is not one.
std::vector<int> visible_devices(const Options &options, int count) {
    std::vector<int> visible;
    if (!options.visible_devices) {
        for (int i = 0; i < count; ++i)
            visible.push_back(i);
        return visible;
    }
    for (const int index : *options.visible_devices) {
        if (index < 0 || index >= count)
            break;
        visible.push_back(index);
    }
    return visible;
}

/// Of code for the host.
runtime::ModuleLoader loader() {
#if defined(__x86_64__)
    runtime::ModuleLoader made = codegen::host_loader(runtime::load_object);
#else
    runtime::ModuleLoader made = codegen::host_loader(codegen::cpu_loader());
#endif
    return Devices::wrap_loader() ? Devices::wrap_loader()(std::move(made)) : made;
}

static_assert(kMaxVirtualGpus == runtime::kMaxVirtualGpus);

/// `wrong` says what is the matter with the model, if anything is.
runtime::VirtualOptions virtual_options(const Options &options, std::string &wrong) {
    runtime::VirtualOptions virtuals;
    virtuals.count = options.virtual_gpus.value_or(0);
    virtuals.memory_bytes = static_cast<size_t>(options.virtual_memory);
    virtuals.peers = options.virtual_peers;
    virtuals.delay_seed = options.virtual_delay;
    if (!options.virtual_model.empty())
        try {
            virtuals.model = runtime::VirtualModel::parse(options.virtual_model);
            if (!options.virtual_gpus) // `h200x4`, or `h200`, and no other number
                virtuals.count = std::max(virtuals.model->devices, 1);
        } catch (const ir::Failure &failure) {
            wrong = failure.message();
            log_line("options", fmt::format("LAZULI_VIRTUAL_MODEL is ignored: {}", wrong));
        }
    virtuals.visible = visible_devices(options, virtuals.count);
    return virtuals;
}

} // namespace

Devices::Wrap &Devices::wrap() {
    static Wrap &wrap = *new Wrap; // the engine may start in a destructor of a static
    return wrap;
}

Devices::WrapCpu &Devices::wrap_cpu() {
    static WrapCpu &wrap = *new WrapCpu;
    return wrap;
}

Devices::WrapLoader &Devices::wrap_loader() {
    static WrapLoader &wrap = *new WrapLoader;
    return wrap;
}

Devices::Devices(const Options &options, codegen::KernelCache *kernels)
    : cpu_(loader(), 0, {.delay_seed = options.virtual_delay}) {
    std::string wrong_model;
    const runtime::VirtualOptions virtuals = virtual_options(options, wrong_model);
    if (virtuals.count > 0) {
        try {
            gpus_ = runtime::make_virtual_gpus(virtuals, loader());
            if (gpus_.empty())
                why_no_gpu_ = fmt::format("CUDA_VISIBLE_DEVICES hides all {} virtual GPUs.", virtuals.count);
        } catch (const ir::Failure &failure) {
            // Said at once: a program that falls back to the CPU would never ask.
            why_no_gpu_ = "The virtual GPUs could not be made: " + failure.message();
            log_line("devices", why_no_gpu_);
        }
        // Where a model is switched on, the CPU's work takes time of the same clock.
        if (!gpus_.empty())
            cpu_.set_clock(static_cast<const runtime::VirtualBackend &>(*gpus_[0]).clock());
    } else if (!wrong_model.empty()) {
        why_no_gpu_ = "LAZULI_VIRTUAL_MODEL is ignored: " + wrong_model;
    } else {
        find_cuda(options, kernels);
    }

    if (wrap())
        for (auto &gpu : gpus_)
            gpu = wrap()(std::move(gpu));
    if (wrap_cpu())
        wrapped_cpu_ = wrap_cpu()(cpu_);
    runtime::Backend &host = wrapped_cpu_ ? *wrapped_cpu_ : cpu_;
    const runtime::AllocatorOptions allocation = allocator_options(options);
    allocators_.push_back(std::make_unique<runtime::CachingAllocator>(host, allocation));
    for (const auto &gpu : gpus_)
        allocators_.push_back(std::make_unique<runtime::CachingAllocator>(*gpu, allocation));
    if (!gpus_.empty()) {
        pinned_memory_ = std::make_unique<runtime::PinnedMemory>(gpus_, cpu_);
        pinned_ = std::make_unique<runtime::CachingAllocator>(*pinned_memory_, allocation);
    }
    slots_.push_back({&host, allocators_[0].get(), pinned_.get()});
    for (size_t g = 0; g < gpus_.size(); ++g)
        slots_.push_back({gpus_[g].get(), allocators_[g + 1].get(), pinned_.get()});
}

Devices::~Devices() = default;

#if LAZULI_CUDA
namespace {

/// By GPU; those of one architecture share theirs. Throws Failure(Compile) where NVRTC is of no use for one.
std::vector<std::shared_ptr<const codegen::Compiler>> make_compilers(const runtime::cuda::Gpus &gpus,
                                                                     const Options &options) {
    std::map<int, std::shared_ptr<const codegen::Compiler>> by_architecture;
    std::vector<std::shared_ptr<const codegen::Compiler>> compilers;
    for (const auto &gpu : gpus.backends) {
        const int sm = gpu->properties().cuda->sm;
        auto &compiler = by_architecture[sm];
        if (!compiler)
            compiler = codegen::make_cuda_compiler(codegen::load_nvrtc(gpus.nvrtc.handle), sm,
                                                   {.want_text = options.dump.llvm,
                                                    .want_assembly = options.dump.assembly,
                                                    .fast_math = options.fast_math,
                                                    .fast_compile = options.cuda_fast_compile});
        compilers.push_back(compiler);
    }
    return compilers;
}

} // namespace

/// Those of the kernels, which are not made yet when the devices are.
class Devices::KernelStore final : public runtime::PersistentStore {
public:
    explicit KernelStore(codegen::KernelCache *kernels) : kernels_(kernels) {}
    std::optional<std::vector<std::byte>> find(std::string_view key) override {
        return kernels_ ? kernels_->store().find(key) : std::nullopt;
    }
    void keep(std::string_view key, std::span<const std::byte> content) override {
        if (kernels_)
            kernels_->store().keep(key, content);
    }

private:
    codegen::KernelCache *const kernels_;
};

void Devices::find_cuda(const Options &options, codegen::KernelCache *kernels) {
    store_ = std::make_unique<KernelStore>(kernels);
    const auto load_source = [this,
                              kernels](const runtime::KernelSource &source,
                                       runtime::Backend &backend) -> std::shared_ptr<const runtime::Module> {
        if (std::shared_ptr<const runtime::Module> saved = library_code_.load(source, backend))
            return saved;
        const codegen::Compiler &compiler = *cuda_compiler(backend.device());
        if (kernels)
            return kernels->get_source(source, compiler, backend)->module;
        return backend.load(compiler.compile_source(source));
    };
    runtime::cuda::Gpus found = runtime::cuda::open_gpus(
        runtime::cuda::Search::from_environment(), {.graphs = options.cuda_graphs,
                                                    .expandable_segments = options.cuda_expandable_segments,
                                                    .load_source = load_source,
                                                    .store = store_.get()});
    try {
        cuda_compilers_ = make_compilers(found, options);
    } catch (const ir::Failure &failure) { // the CPU goes on
        found.backends.clear();
        found.availability = "The GPUs cannot be used: " + failure.message();
    }
    gpus_ = std::move(found.backends);
    if (!gpus_.empty()) {
        nvrtc_ = found.nvrtc.handle;
        nvrtc_name_ = fmt::format("NVRTC {}.{}", found.nvrtc.major(), found.nvrtc.version % 1000 / 10);
    }
    cuda_availability_ = std::move(found.availability);
    if (gpus_.empty())
        why_no_gpu_ = cuda_availability_ + " LAZULI_VIRTUAL_GPUS=2 makes virtual GPUs.";
}

std::vector<Devices::FileCompiler> Devices::file_compilers(ir::Device device, bool fast_math) const {
    const codegen::Nvrtc nvrtc = codegen::load_nvrtc(nvrtc_);
    const int sm = backend(device).properties().cuda->sm;
    const int architecture = codegen::cuda_architecture(nvrtc, sm);
    std::vector<FileCompiler> compilers;
    if (architecture == sm)
        compilers.push_back(
            {codegen::make_cuda_compiler(nvrtc, sm, {.fast_math = fast_math}), static_cast<uint32_t>(sm)});
    compilers.push_back(
        {codegen::make_cuda_compiler(nvrtc, sm, {.fast_math = fast_math}, codegen::CudaCode::Ptx),
         static_cast<uint32_t>(architecture)});
    return compilers;
}

runtime::LibrarySource Devices::library_source() const {
    return nvrtc_ ? runtime::cuda::library_source : nullptr;
}

std::string Devices::cuda_availability() const {
    if (cuda_compilers_.empty()) // virtual GPUs, or none
        return cuda_availability_;
    return cuda_availability_ + " " + runtime::cuda::describe_products();
}
#else
std::vector<Devices::FileCompiler> Devices::file_compilers(ir::Device, bool) const {
    return {};
}
runtime::LibrarySource Devices::library_source() const {
    return nullptr;
}
std::string Devices::cuda_availability() const {
    return cuda_availability_;
}
void Devices::find_cuda(const Options &, codegen::KernelCache *) {
    cuda_availability_ = "This build of Lazuli has no CUDA backend.";
    why_no_gpu_ = cuda_availability_ + " LAZULI_VIRTUAL_GPUS=2 makes virtual GPUs.";
}
#endif

std::vector<ir::DeviceInfo> Devices::infos() const {
    const ir::CpuLimits host{codegen::host_isa(), runtime::num_threads(),
                             cache_bytes(3, _SC_LEVEL3_CACHE_SIZE, int64_t{8} << 20),
                             cache_bytes(2, _SC_LEVEL2_CACHE_SIZE, ir::CpuLimits().l2_bytes)};
    std::vector<ir::DeviceInfo> infos;
    for (size_t i = 0; i < slots_.size(); ++i) {
        ir::DeviceInfo info;
        info.limits = host;
        if (i > 0) {
            const ir::DeviceProperties properties = slots_[i].backend->properties();
            info.device = {ir::DeviceKind::Cuda, static_cast<uint8_t>(i - 1)};
            static_cast<ir::DeviceRates &>(info) = properties;
            if (properties.cuda)
                info.limits = *properties.cuda;
        }
        info.memory_bytes = static_cast<int64_t>(slots_[i].backend->total_memory());
        info.library = &slots_[i].backend->library();
        infos.push_back(std::move(info));
    }
    return infos;
}

} // namespace lz::engine
