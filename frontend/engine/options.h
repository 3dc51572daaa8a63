#pragma once
/// The environment variables, read once. Nothing below the engine reads the environment.

#include <cstdint>
#include <string>

namespace lz::engine {

struct Dumps {
    bool graph = false, passes = false, kernel = false, llvm = false, assembly = false, program = false,
         explain = false, dot = false;
    bool any() const { return graph || passes || kernel || llvm || assembly || program || explain || dot; }
};

struct Options {
    Dumps dump;               ///< LAZULI_DUMP=graph,passes,kernel,llvm,asm,program,explain,dot
    std::string dump_dir;     ///< LAZULI_DUMP_DIR: files instead of stderr
    bool log_compile = false; ///< LAZULI_LOG=compile|run|memory (comma separated)
    bool log_run = false;
    bool log_memory = false;
    bool verify = false;            ///< LAZULI_VERIFY=1
    bool launch_blocking = false;   ///< LAZULI_LAUNCH_BLOCKING=1 or CUDA_LAUNCH_BLOCKING=1
    bool fast_math = false;         ///< LAZULI_FAST_MATH=1
    bool fuse = true;               ///< LAZULI_FUSE=0: every operation its own kernel
    bool no_memory_caching = false; ///< LAZULI_NO_MEMORY_CACHING=1
    std::string alloc_conf;         ///< LAZULI_ALLOC_CONF
    std::string
        cache_dir; ///< LAZULI_CACHE_DIR, default $XDG_CACHE_HOME/lazuli or ~/.cache/lazuli; "" or "off": none
    int64_t cache_bytes = int64_t{512} << 20; ///< LAZULI_CACHE_SIZE (bytes, or with K, M, G)
    int threads = 0;                          ///< LAZULI_THREADS, 0: as many as the container allows

    /// Reads the environment; a value that means nothing is reported once on stderr as a whole sentence and
    /// ignored.
    static Options from_environment();
};

} // namespace lz::engine
