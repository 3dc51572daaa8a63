#pragma once
/// The environment variables, read once. Nothing below the engine reads the environment.

#include "ir/target.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lz::engine {

inline constexpr int kMaxVirtualGpus = 16;
#ifdef NDEBUG
inline constexpr int kCheckCompiled = 0;
#else
inline constexpr int kCheckCompiled = 64;
#endif

struct Dumps {
    bool graph = false, passes = false, kernel = false, llvm = false, assembly = false, program = false,
         explain = false, dot = false;
    bool any() const { return graph || passes || kernel || llvm || assembly || program || explain || dot; }
};

/// What makes code for the CPU and for virtual GPUs.
enum class Codegen : uint8_t { Llvm, Interpret };

/// Whether small kernels run before they are compiled (codegen/quick.h).
enum class Quick : uint8_t {
    Off,
    On,
    Always ///< and are not compiled as long as all launches are small: for tests
};

struct Options {
    Dumps dump;               ///< LAZULI_DUMP=graph,passes,kernel,llvm,asm,program,explain,dot
    std::string dump_dir;     ///< LAZULI_DUMP_DIR: files instead of stderr
    bool log_compile = false; ///< LAZULI_LOG=compile|run|memory (comma separated)
    bool log_run = false;
    bool log_memory = false;
    bool verify = false;          ///< LAZULI_VERIFY=1
    bool launch_blocking = false; ///< LAZULI_LAUNCH_BLOCKING=1 or CUDA_LAUNCH_BLOCKING=1
    bool fast_math = false;       ///< LAZULI_FAST_MATH=1
    bool reproducible = false;    ///< LAZULI_REPRODUCIBLE=1: products have one order on every device
    /// LAZULI_FLOAT32_MATMUL_PRECISION=highest|high|medium
    ir::MatmulPrecision float32_matmul = ir::MatmulPrecision::Highest;
    bool fuse = true;        ///< LAZULI_FUSE=0: every operation its own kernel
    bool cuda_graphs = true; ///< LAZULI_CUDA_GRAPHS=0: runs that come again go step by step
    /// LAZULI_CUDA_EXPANDABLE_SEGMENTS=0: segments are allocations of the driver's.
    bool cuda_expandable_segments = true;
    Codegen codegen = Codegen::Llvm; ///< LAZULI_CODEGEN=llvm|interpret; builds without LLVM interpret
    bool no_memory_caching = false;  ///< LAZULI_NO_MEMORY_CACHING=1
    bool check_devices = false; ///< LAZULI_CHECK_DEVICES=1: errors of S06 are thrown by the operation itself
    bool warn_views = false; ///< LAZULI_WARN=views: a change in place that PyTorch would make elsewhere, too
    bool automatic_transfer = false; ///< LAZULI_TRANSFER=explicit|automatic
    std::string alloc_conf;          ///< LAZULI_ALLOC_CONF
    /// LAZULI_VIRTUAL_GPUS; not set: as many as the model says, one if it says nothing, none without a model.
    std::optional<int> virtual_gpus;
    int64_t virtual_memory =
        0; ///< LAZULI_VIRTUAL_MEMORY (bytes, or with K, M, G) of each; 0: a share of the host's
    bool virtual_peers = true; ///< LAZULI_VIRTUAL_PEERS=0: no links between them
    std::optional<uint64_t>
        virtual_delay;         ///< LAZULI_VIRTUAL_DELAY=seed: random delays, to show a missing sync
    std::string virtual_model; ///< LAZULI_VIRTUAL_MODEL=h200x4 or a JSON file: a virtual clock
    std::optional<std::vector<int>> visible_devices; ///< CUDA_VISIBLE_DEVICES
    int check_compiled =
        kCheckCompiled; ///< LAZULI_CHECK_COMPILED=n: every n-th replay is recorded again and compared
    std::string
        cache_dir; ///< LAZULI_CACHE_DIR, default $XDG_CACHE_HOME/lazuli or ~/.cache/lazuli; "" or "off": none
    int64_t cache_bytes = int64_t{512} << 20; ///< LAZULI_CACHE_SIZE (bytes, or with K, M, G)
    int threads = 0;                          ///< LAZULI_THREADS, 0: as many as the container allows
    Quick quick = Quick::On;                  ///< LAZULI_QUICK=0|1|always
    bool cuda_fast_compile = false;           ///< LAZULI_CUDA_FAST_COMPILE=1: NVRTC makes slower code sooner

    /// Reads the environment; a value that means nothing is reported once on stderr as a whole sentence and
    /// ignored.
    static Options from_environment();
    /// What the program asked for before the engine started, on top of the environment. Throws
    /// Failure(Device) for a model that there is not, or whose file cannot be read or is wrong, and where
    /// such GPUs cannot be made here.
    static void request_virtual_gpus(int count, int64_t memory_bytes, std::string model);
};

} // namespace lz::engine
