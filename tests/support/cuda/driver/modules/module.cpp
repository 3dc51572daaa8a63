#include "tests/support/cuda/driver/modules/module.h"

#include "tests/support/cuda/driver/memory/memory.h"
#include "tests/support/cuda/driver/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace lz::fake_cuda {
namespace {

struct Placing {
    Context *context;
    std::vector<uint64_t> addresses;
};

void place_variable(ptx::Variable &v, void *self) {
    auto &placing = *static_cast<Placing *>(self);
    v.address = allocate_device_block(*placing.context, v.bytes.size(), BlockKind::Variable);
    placing.addresses.push_back(v.address);
}

/// The newest PTX that a driver of a version of CUDA reads: 90 is 9.0.
int newest_ptx(int version) {
    const int major = version / 1000, minor = version % 1000 / 10;
    if (major >= 13)
        return (major - 4) * 10 + minor;
    if (major == 12)
        return 80 + (minor <= 5 ? minor : minor == 6 ? 5 : minor - 1);
    return (major - 4) * 10 + minor;
}

/// The number behind a directive, 90 for 9.0, and sm_90 likewise; 0 when it is not there.
int version_of(const std::string &text) {
    const size_t at = text.find(".version");
    int major = 0, minor = 0;
    if (at == std::string::npos || std::sscanf(text.c_str() + at, ".version %d.%d", &major, &minor) != 2)
        return 0;
    return major * 10 + minor;
}

/// 90: 9.0.
int capability_of(const Context &context) {
    return settings().capabilities[static_cast<size_t>(context.device)];
}

void check_target(const std::string &text, int device, std::string &log) {
    const int version = version_of(text);
    if (version == 0) {
        log = "ptxas fatal   : Missing .version directive at start of file";
        refuse(CUDA_ERROR_INVALID_PTX, log);
    }
    if (settings().version_is_set && version > newest_ptx(settings().version)) {
        log = fmt::format("ptxas fatal   : Unsupported .version {}.{}; this driver reads up to {}.{}",
                          version / 10, version % 10, newest_ptx(settings().version) / 10,
                          newest_ptx(settings().version) % 10);
        refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, log);
    }
    const size_t at = text.find(".target");
    int sm = 0;
    char suffix = ' ';
    if (at == std::string::npos || std::sscanf(text.c_str() + at, ".target sm_%d%c", &sm, &suffix) < 1) {
        log = "ptxas fatal   : Missing .target directive";
    } else if (sm > device) {
        log = fmt::format("ptxas fatal   : .target sm_{} is newer than the device, sm_{}", sm, device);
    } else if ((suffix == 'a' || suffix == 'f') && sm != device) {
        log = fmt::format("ptxas fatal   : .target sm_{}{} is for that device alone, this one is sm_{}", sm,
                          suffix, device);
    } else {
        return;
    }
    refuse(CUDA_ERROR_INVALID_PTX, log);
}

void check_parameters(const ptx::Module &module, std::string &log) {
    const uint32_t limit = settings().version >= 12010 ? 32764 : 4096;
    for (const auto &[name, kernel] : module.kernels)
        if (kernel.parameter_bytes > limit) {
            log = fmt::format("ptxas error   : {}: {} bytes of parameters; {} is the limit", name,
                              kernel.parameter_bytes, limit);
            refuse(CUDA_ERROR_INVALID_PTX, log);
        }
}

} // namespace

LoadedModule::~LoadedModule() {
    // A context that went took its memory with it.
    if (context->generation == generation && context->active)
        for (const ptx::Variable &v : module.variables)
            free_device_block(v.address);
}

Handles<CUmodule, LoadedModule> &modules() {
    static auto *const all = new Handles<CUmodule, LoadedModule>("module");
    return *all;
}

Handles<CUfunction, Function> &functions() {
    static auto *const all = new Handles<CUfunction, Function>("function");
    return *all;
}

std::string text_of_image(const void *image) {
    need(image, "image");
    const auto *bytes = static_cast<const unsigned char *>(image);
    constexpr unsigned char kElf[] = {0x7f, 'E', 'L', 'F'}, kFat[] = {0x50, 0xed, 0x55, 0xba};
    if (std::memcmp(bytes, kFat, 4) == 0)
        refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, "a fat binary; only PTX is run");
    if (std::memcmp(bytes, kElf, 4) == 0) {
        // 64 bits, little endian, a machine of type CUDA: a cubin, of another device.
        const bool cubin = bytes[4] == 2 && bytes[5] == 1 && bytes[18] == 190 && bytes[19] == 0;
        refuse(cubin ? CUDA_ERROR_NO_BINARY_FOR_GPU : CUDA_ERROR_INVALID_IMAGE,
               cubin ? "machine code of another device; only PTX is run" : "damaged machine code");
    }
    std::string text(static_cast<const char *>(image));
    if (text.find(".version") == std::string::npos && text.find(".target") == std::string::npos)
        refuse(CUDA_ERROR_INVALID_IMAGE, "neither machine code nor PTX");
    return text;
}

CUmodule load_module(Lock &lock, Context &context, std::string text, std::string &log) {
    check_target(text, capability_of(context), log);
    auto loaded = std::make_shared<LoadedModule>();
    loaded->context = &context;
    loaded->generation = context.generation;
    loaded->text = std::move(text);
    loaded->ptx_version = version_of(loaded->text);
    Placing placing{&context, {}};
    try {
        lock.unlock();
        loaded->module = ptx::parse(loaded->text, place_variable, &placing);
        for (const ptx::Variable &v : loaded->module.variables)
            for_pieces(v.address, v.bytes.size(),
                       [&](unsigned char *to, size_t bytes) { std::memcpy(to, v.bytes.data(), bytes); });
        lock.lock();
        check_parameters(loaded->module, log);
    } catch (const ptx::ParseError &e) {
        lock.lock();
        for (const uint64_t address : placing.addresses)
            free_device_block(address);
        log = std::string("ptxas error   : ") + e.what();
        report(std::string("a module was refused: ") + e.what());
        refuse(CUDA_ERROR_INVALID_PTX, log);
    }
    return modules().add(std::move(loaded));
}

CUfunction find_function(CUmodule handle, const char *name) {
    const auto loaded = modules().get(handle);
    if (const auto known = loaded->functions.find(std::string_view(name)); known != loaded->functions.end())
        return known->second;
    const auto found = loaded->module.kernels.find(std::string_view(name));
    if (found == loaded->module.kernels.end())
        refuse(CUDA_ERROR_NOT_FOUND, fmt::format("the module has no kernel {}", name));
    auto f = std::make_shared<Function>();
    f->module = loaded;
    f->kernel = &found->second;
    f->module_handle = handle;
    f->max_dynamic_shared = kSharedPerBlock - std::min(kSharedPerBlock, found->second.shared_bytes);
    return loaded->functions[name] = functions().add(std::move(f));
}

void unload_module(CUmodule handle) {
    const auto loaded = modules().remove(handle);
    for (const auto &[name, function] : loaded->functions)
        functions().remove(function);
}

void drop_modules_of(Context &context) {
    functions().remove_if([&](const Function &f) { return f.module->context == &context; });
    modules().remove_if([&](const LoadedModule &m) { return m.context == &context; });
}

int function_attribute(const Function &f, CUfunction_attribute which) {
    const ptx::Kernel &k = *f.kernel;
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return k.max_threads[0] ? static_cast<int>(k.max_threads[0] * k.max_threads[1] * k.max_threads[2])
                                : 1024;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        return static_cast<int>(k.shared_bytes);
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        return static_cast<int>(k.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS: // those of PTX are never used twice; machine code has fewer
        return static_cast<int>(std::min<size_t>(255, 16 + k.registers.size() / 4));
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        return capability_of(*f.module->context);
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        return static_cast<int>(f.max_dynamic_shared);
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        return -1;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        return static_cast<int>(k.cluster[0]);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        return static_cast<int>(k.cluster[1]);
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        return static_cast<int>(k.cluster[2]);
    default:
        if (which < 0 || which >= CU_FUNC_ATTRIBUTE_MAX)
            refuse(CUDA_ERROR_INVALID_VALUE, "the attribute is not known");
        return 0;
    }
}

void set_function_attribute(Function &f, CUfunction_attribute which, int value) {
    switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || static_cast<uint32_t>(value) + f.kernel->shared_bytes > kSharedOptIn)
            refuse(CUDA_ERROR_INVALID_VALUE,
                   fmt::format("{} bytes beside {} of the kernel's own; {} is the limit", value,
                               f.kernel->shared_bytes, kSharedOptIn));
        f.max_dynamic_shared = static_cast<uint32_t>(value);
        break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            refuse(CUDA_ERROR_INVALID_VALUE, "a carveout is -1 to 100 percent");
        break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        break;
    default:
        refuse(CUDA_ERROR_INVALID_VALUE, "the attribute cannot be set");
    }
}

int active_blocks(const Function &f, int block_size, size_t dynamic_shared) {
    const int limit = function_attribute(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    if (block_size <= 0)
        refuse(CUDA_ERROR_INVALID_VALUE, "the block is empty");
    const size_t shared = f.kernel->shared_bytes + dynamic_shared + kSharedReserved;
    if (block_size > limit || dynamic_shared > f.max_dynamic_shared)
        return 0;
    const int threads = (block_size + 31) / 32 * 32;
    const int registers = (function_attribute(f, CU_FUNC_ATTRIBUTE_NUM_REGS) + 7) / 8 * 8 * threads;
    return std::min({32, 2048 / threads, 65536 / registers, static_cast<int>(kSharedPerSm / shared)});
}

} // namespace lz::fake_cuda
