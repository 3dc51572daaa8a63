#pragma once
/// Modules, libraries and their functions: PTX that was parsed, its variables in device memory.

#include "tests/support/cuda/driver/context.h"
#include "tests/support/cuda/driver/handles.h"
#include "tests/support/cuda/ptx/module.h"

#include <atomic>
#include <map>
#include <string>

namespace lz::fake_cuda {

constexpr uint32_t kSharedPerBlock = 48 << 10, kSharedOptIn = 227 << 10, kSharedPerSm = 228 << 10,
                   kSharedReserved = 1 << 10;
/// Compute capability 9.0 has clusters of blocks first; of more than eight a kernel has to say that it takes
/// them.
constexpr int kFirstWithClusters = 90;
constexpr uint64_t kMostClusterBlocks = 8;

/// Kernels that run keep it, whatever became of its handle.
struct LoadedModule {
    Context *context = nullptr;
    uint32_t generation = 0; ///< of the context; its memory goes with it
    std::string text;        ///< PTX, which the parsed module points into
    ptx::Module module;
    std::map<std::string, CUfunction, std::less<>> functions; ///< handles so far
    int ptx_version = 0;                                      ///< 90: 9.0

    ~LoadedModule();
};

struct Function {
    std::shared_ptr<LoadedModule> module;
    const ptx::Kernel *kernel = nullptr;
    uint32_t max_dynamic_shared = 0;
    CUmodule module_handle = nullptr;
};

struct Library {
    std::string text;
    std::map<const Context *, CUmodule> modules; ///< loaded for each context when it is needed first
    std::map<std::string, CUkernel, std::less<>> kernels;
};
struct LibraryKernel {
    CUlibrary library;
    std::string name;
};

Handles<CUmodule, LoadedModule> &modules();
Handles<CUfunction, Function> &functions();

/// Checks and parses an image for the current context; gives up the lock meanwhile. Refuses with the errors
/// of cuModuleLoadData; `log`: what the compiler in the driver would write.
CUmodule load_module(Lock &lock, Context &context, std::string text, std::string &log);
/// The text of an image; refuses machine code.
std::string text_of_image(const void *image);
CUfunction find_function(CUmodule module, const char *name);
void unload_module(CUmodule module);

/// What a launch names: a function, or a kernel of a library for the current context.
std::shared_ptr<Function> function_of(CUfunction handle, Lock &lock);
int function_attribute(const Function &f, CUfunction_attribute which);
void set_function_attribute(Function &f, CUfunction_attribute which, int value);

void drop_modules_of(Context &context);
size_t live_modules();
size_t live_libraries();

/// Blocks of a kernel that fit on an SM at once.
int active_blocks(const Function &f, int block_size, size_t dynamic_shared);

} // namespace lz::fake_cuda
