#pragma once
/// Compiled kernels in memory and on disk. A kernel is looked up by its Kernel IR (no extent, stride or
/// scalar is in it) and the compiler's key (code target, options, versions), so ten sizes of one class are
/// one entry; what is loaded also by who runs it (Backend::module_key).
///
/// The disk part is one file an entry, named by a 128-bit hash of the key. A file holds the key itself and a
/// checksum over everything: a damaged, foreign or outdated file is removed and made again. Files are written
/// beside and renamed, so that processes can share a directory. When the files outgrow the limit those unused
/// for longest go. A directory or file that somebody else may have written is not used, and one that cannot
/// be written done without, which is logged once.
///
/// In memory, of more kernels than the limit those unused for longest go, and their code with them, unless
/// somebody holds them: what get gave out stays loaded as long as it is held, and is found again.

#include "codegen/compiler.h"
#include "ir/diagnostic.h"
#include "runtime/api/backend.h"
#include "runtime/api/persistent_store.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lz::codegen {

struct KernelCacheOptions {
    std::string directory; ///< empty: no disk cache
    int64_t max_bytes = int64_t{512} << 20;
    size_t max_in_memory = 4096; ///< kernels that no Program uses beyond this are forgotten
    /// Called with a whole sentence for what the user may want to know (log lines).
    std::function<void(const std::string &)> log;
    /// Called with what was made outside get_all: why, and how long it took. Empty: nobody wants to know.
    std::function<void(const std::string &)> log_compile;
    /// Runs a function some time, on another thread; or never. Empty: no kernel is quick.
    std::function<void(std::function<void()>)> beside;
};

struct KernelCacheStats {
    int64_t compiled = 0; ///< also those that are, or will be, compiled beside
    int64_t quick = 0;    ///< of these, those that could run before
    int64_t from_memory = 0;
    int64_t from_disk = 0;
};

/// Code of one kernel, loaded and ready to call.
struct CachedKernel : runtime::LoadedKernel {
    std::string text, assembly; ///< as CompileOptions asked for; empty for kernels from disk
};
using CachedKernelPtr = std::shared_ptr<const CachedKernel>;

/// What is asked for. All of it outlives the call; of a quick request, and of a kernel whose code is for
/// aligned launches (runtime/api/unaligned_kernel.h), compiler and device outlive the cache and what it gives
/// out. That of other launches is a kernel like all others here, asked for by the first of them.
struct KernelRequest {
    const ir::Kernel *kernel = nullptr;
    const Compiler *compiler = nullptr;
    runtime::Backend *backend = nullptr; ///< that loads the code
    /// All launches are small, and each is done by one thread as a whole: it may be interpreted as long as
    /// there is no code (quick.h), where that gives the same bits.
    bool quick = false;
};

/// A kernel that could not be compiled or loaded: which of those that were asked for.
class KernelFailure : public ir::Failure {
public:
    KernelFailure(const ir::Failure &failure, size_t request) : Failure(failure), request_(request) {}
    size_t request() const { return request_; }

private:
    size_t request_;
};

class KernelCache {
public:
    /// What failures call a kernel of get_all: its own name is one of ours.
    using Called = std::function<std::string(size_t request)>;

    explicit KernelCache(KernelCacheOptions options);
    ~KernelCache();

    /// The kernel's code, found or made. Two threads that ask for one kernel compile it once. Throws
    /// Failure(Compile); a failure is not kept.
    CachedKernelPtr get(const KernelRequest &request);
    /// The same for many, compiled in parallel on the pool; results in order. Throws KernelFailure for the
    /// first of those that could not be made. `called` is asked from several threads.
    std::vector<CachedKernelPtr> get_all(std::span<const KernelRequest> requests, const Called &called = {});

    /// Code of kernels that were written by hand: looked up by their text. Throws Failure(Compile).
    CachedKernelPtr get_source(const runtime::KernelSource &source, const Compiler &compiler,
                               runtime::Backend &backend);

    /// What is kept between processes beside code, in the same directory and under the same limit.
    runtime::PersistentStore &store();
    /// Whether the next process finds what is compiled now, as far as it is known.
    bool keeps() const;

    KernelCacheStats stats() const;
    /// Kernels in memory.
    size_t size() const;
    void reset_stats();
    /// Forgets what is in memory (code in use stays loaded).
    void clear();

private:
    struct Impl;
    std::shared_ptr<Impl> impl_; ///< what is compiled beside looks whether it is still there
};

} // namespace lz::codegen
