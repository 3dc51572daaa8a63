// Functions on modules, libraries and functions.

#include "tests/support/cuda/driver/context.h"
#include "tests/support/cuda/driver/modules/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

namespace lz::fake_cuda {
namespace {

/// Where a caller of cuModuleLoadDataEx wants what the compiler says.
struct JitLog {
    char *buffer = nullptr;
    size_t capacity = 0;
    void **written = nullptr;

    void write(const std::string &text) const {
        const size_t count = capacity == 0 ? 0 : std::min(text.size(), capacity - 1);
        if (buffer && capacity != 0) {
            std::memcpy(buffer, text.data(), count);
            buffer[count] = '\0';
        }
        if (written)
            *written = reinterpret_cast<void *>(count);
    }
};

void read_options(unsigned count, const CUjit_option *options, void **values, JitLog &info, JitLog &error) {
    if (count != 0 && (!options || !values))
        refuse(CUDA_ERROR_INVALID_VALUE, "options are null");
    for (unsigned i = 0; i < count; ++i)
        switch (options[i]) {
        case CU_JIT_INFO_LOG_BUFFER:
            info.buffer = static_cast<char *>(values[i]);
            break;
        case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
            info.capacity = reinterpret_cast<size_t>(values[i]) & 0xffffffff;
            info.written = &values[i];
            break;
        case CU_JIT_ERROR_LOG_BUFFER:
            error.buffer = static_cast<char *>(values[i]);
            break;
        case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
            error.capacity = reinterpret_cast<size_t>(values[i]) & 0xffffffff;
            error.written = &values[i];
            break;
        default: // of the optimizer
            if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS)
                refuse(CUDA_ERROR_INVALID_VALUE,
                       fmt::format("option {} is not known", static_cast<int>(options[i])));
        }
}

void load(Lock &lock, CUmodule *module, const void *image, unsigned count, const CUjit_option *options,
          void **values) {
    Context &context = current_context();
    need(module, "module");
    JitLog info, error;
    read_options(count, options, values, info, error);
    std::string log;
    try {
        *module = load_module(lock, context, text_of_image(image), log);
    } catch (const Refused &) {
        error.write(log);
        info.write("");
        throw;
    }
    error.write("");
    info.write("");
}

void find_variable(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    need(name, "name");
    for (const ptx::Variable &v : modules().get(module)->module.variables)
        if (v.name == name) {
            if (address)
                *address = v.address;
            if (bytes)
                *bytes = v.bytes.size();
            return;
        }
    refuse(CUDA_ERROR_NOT_FOUND, fmt::format("the module has no variable {}", name));
}

Handles<CUlibrary, Library> &libraries() {
    static auto *const all = new Handles<CUlibrary, Library>("library");
    return *all;
}

Handles<CUkernel, LibraryKernel> &kernels() {
    static auto *const all = new Handles<CUkernel, LibraryKernel>("kernel");
    return *all;
}

/// The library's module for the current context.
CUmodule module_of(Lock &lock, CUlibrary handle) {
    Context &context = current_context();
    const auto library = libraries().get(handle);
    CUmodule &module = library->modules[&context];
    if (!module || !modules().has(module)) {
        std::string log;
        const CUmodule loaded = load_module(lock, context, library->text, log);
        if (module && modules().has(module)) // another thread was first
            unload_module(loaded);
        else
            module = loaded;
    }
    return module;
}

} // namespace

std::shared_ptr<Function> function_of(CUfunction handle, Lock &lock) {
    const auto kernel = reinterpret_cast<CUkernel>(handle);
    if (!kernels().has(kernel))
        return functions().get(handle);
    const auto k = kernels().get(kernel);
    return functions().get(find_function(module_of(lock, k->library), k->name.c_str()));
}

size_t live_libraries() {
    return libraries().size() + kernels().size();
}

} // namespace lz::fake_cuda

using namespace lz::fake_cuda; // NOLINT

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return call(__func__, [&](Lock &lock) { load(lock, module, image, 0, nullptr, nullptr); });
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, CUjit_option *options,
                            void **values) {
    return call(__func__, [&](Lock &lock) { load(lock, module, image, count, options, values); });
}

CUresult cuModuleLoad(CUmodule *module, const char *path) {
    return call(__func__, [&](Lock &lock) {
        need(path, "fname");
        std::ifstream file(path, std::ios::binary);
        if (!file)
            refuse(CUDA_ERROR_FILE_NOT_FOUND, fmt::format("there is no file {}", path));
        std::string bytes{std::istreambuf_iterator<char>(file), {}};
        bytes.resize(std::max<size_t>(bytes.size(), 64)); // room for the header of machine code
        load(lock, module, bytes.data(), 0, nullptr, nullptr);
    });
}

CUresult cuModuleUnload(CUmodule module) {
    return call(__func__, [&](Lock &) {
        current_context();
        unload_module(module);
    });
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    return call(__func__, [&](Lock &) {
        current_context();
        need(function, "hfunc");
        need(name, "name");
        *function = find_function(module, name);
    });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    return call(__func__, [&](Lock &) {
        current_context();
        find_variable(address, bytes, module, name);
    });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
    return call(__func__, [&](Lock &) {
        need(mode, "mode");
        *mode = CU_MODULE_EAGER_LOADING;
    });
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *, void **, unsigned,
                           CUlibraryOption *, void **, unsigned) {
    return call(__func__, [&](Lock &) {
        need(library, "library");
        auto made = std::make_shared<Library>();
        made->text = text_of_image(code);
        *library = libraries().add(std::move(made));
    });
}

CUresult cuLibraryUnload(CUlibrary handle) {
    return call(__func__, [&](Lock &) {
        const auto library = libraries().remove(handle);
        for (const auto &[context, module] : library->modules)
            if (modules().has(module))
                unload_module(module);
        for (const auto &[name, kernel] : library->kernels)
            kernels().remove(kernel);
    });
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary handle, const char *name) {
    return call(__func__, [&](Lock &) {
        need(kernel, "pKernel");
        need(name, "name");
        const auto &library = libraries().get(handle);
        const auto known = library->kernels.find(std::string_view(name));
        if (known != library->kernels.end()) {
            *kernel = known->second;
            return;
        }
        // A library is loaded for a context later: whether it has the kernel is seen in its text.
        if (library->text.find(fmt::format(".entry {}(", name)) == std::string::npos)
            refuse(CUDA_ERROR_NOT_FOUND, fmt::format("the library has no kernel {}", name));
        *kernel = library->kernels[name] =
            kernels().add(std::make_shared<LibraryKernel>(LibraryKernel{handle, name}));
    });
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library) {
    return call(__func__, [&](Lock &lock) {
        need(module, "pMod");
        *module = module_of(lock, library);
    });
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library, const char *name) {
    return call(__func__, [&](Lock &lock) { find_variable(address, bytes, module_of(lock, library), name); });
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
    return call(__func__, [&](Lock &lock) {
        need(function, "pFunc");
        const auto k = kernels().get(kernel);
        *function = find_function(module_of(lock, k->library), k->name.c_str());
    });
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which, CUfunction function) {
    return call(__func__, [&](Lock &lock) {
        need(value, "pi");
        *value = function_attribute(*function_of(function, lock), which);
    });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
    return call(__func__,
                [&](Lock &lock) { set_function_attribute(*function_of(function, lock), which, value); });
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
    return call(__func__, [&](Lock &lock) { function_of(function, lock); });
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function) {
    return call(__func__, [&](Lock &lock) {
        need(module, "hmod");
        *module = function_of(function, lock)->module_handle;
    });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                     size_t dynamic_shared) {
    return call(__func__, [&](Lock &lock) {
        need(blocks, "numBlocks");
        *blocks = active_blocks(*function_of(function, lock), block_size, dynamic_shared);
    });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                              int block_size, size_t dynamic_shared,
                                                              unsigned flags) {
    return call(__func__, [&](Lock &lock) {
        need(blocks, "numBlocks");
        if (flags & ~unsigned{CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE})
            refuse(CUDA_ERROR_INVALID_VALUE, "flags that are not known");
        *blocks = active_blocks(*function_of(function, lock), block_size, dynamic_shared);
    });
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks,
                                                 int block_size) {
    return call(__func__, [&](Lock &lock) {
        need(bytes, "dynamicSmemSize");
        const auto f = function_of(function, lock);
        if (blocks <= 0 || block_size <= 0)
            refuse(CUDA_ERROR_INVALID_VALUE, "no blocks, or empty ones");
        const uint32_t each = kSharedPerSm / static_cast<uint32_t>(blocks);
        const uint32_t own = f->kernel->shared_bytes + kSharedReserved;
        *bytes = std::min(each > own ? each - own : 0, f->max_dynamic_shared);
    });
}
