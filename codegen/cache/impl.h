#pragma once
/// The inside of KernelCache. For this folder alone.

#include "codegen/cache/disk_cache.h"
#include "codegen/cache/kernel_cache.h"
#include "codegen/interpreter.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lz::codegen {

/// A kernel whose code is in `module`.
std::shared_ptr<CachedKernel> cached(std::shared_ptr<const runtime::Module> module,
                                     const ir::CompiledKernel &compiled);
/// What entries are looked up by: on disk by the first `on_disk` bytes.
struct EntryKey {
    std::string text;
    size_t on_disk;
};
EntryKey entry_key(std::string text, const Compiler &compiler, const runtime::Backend &backend);

/// What to do about a kernel that is neither in memory nor on disk. One that another thread is making is
/// waited for, or left, too: null.
enum class IfMissing : uint8_t { Make, Leave };

struct KernelCache::Impl final : runtime::PersistentStore, std::enable_shared_from_this<Impl> {
    explicit Impl(KernelCacheOptions options_)
        : options(std::move(options_)), disk(options.directory, options.max_bytes, options.log) {}

    std::optional<std::vector<std::byte>> find(std::string_view key) override {
        return disk.find(std::as_bytes(std::span(key)));
    }
    void keep(std::string_view key, std::span<const std::byte> content) override {
        disk.store(std::as_bytes(std::span(key)), content);
    }

    /// An entry that one thread makes while others wait.
    struct Entry {
        CachedKernelPtr loaded;
        bool making = true;
        uint64_t used = 0;

        /// The cache has the only references. A new one comes from the cache alone, whose lock the caller
        /// has.
        bool unused() const { return !making && loaded.use_count() == 1 && loaded->module.use_count() == 1; }
    };
    using Entries = std::unordered_map<std::string, Entry>;

    using CalledThis = std::function<std::string()>;
    /// What is looked up by its text, and how it is made when it is not there.
    struct Wanted {
        std::string text; ///< of the kernel or the source; no two kinds have equal ones
        const Compiler *compiler;
        runtime::Backend *backend;
        std::function<ir::CompiledKernel(const Compiler &)> compile;
        const KernelRequest *request = nullptr; ///< null for what was written by hand
        bool quick = false;
    };
    CachedKernelPtr get(const KernelRequest &request, const CalledThis &called,
                        IfMissing if_missing = IfMissing::Make);
    CachedKernelPtr get(const Wanted &wanted, const CalledThis &called,
                        IfMissing if_missing = IfMissing::Make);
    CachedKernelPtr make(const Wanted &wanted, std::string_view key, const std::string &called,
                         IfMissing if_missing);
    CachedKernelPtr make_quick(const Wanted &wanted, std::string_view key, const std::string &called);
    std::shared_ptr<CachedKernel> find_on_disk(std::string_view key, const std::string &called,
                                               runtime::Backend &backend);
    /// The same of ir::any_address(kernel), when a launch or a Program asks for it, with a line of the log.
    CachedKernelPtr get_unaligned(const KernelRequest &request, const std::string &called);
    /// Has the kernel's code for unaligned launches come from here, too, when it is asked for.
    void add_unaligned(CachedKernel &loaded, const KernelRequest &request, const std::string &called);
    std::vector<Entries::node_type> forget_oldest();
    void sweep();

    // --- several kernels in one piece of code (units.cpp)
    struct Claim;
    /// Makes those of the kernels that are neither in memory nor on disk, as many at a time as is fast, and
    /// fills `loaded` with what it found or made. What it does not fill is to be asked for one by one.
    void make_units(std::span<const KernelRequest> requests, const Called &called,
                    std::span<CachedKernelPtr> loaded);
    std::vector<Claim> claim_missing(std::span<const KernelRequest> requests);
    void make_unit(std::span<Claim *const> claims, std::span<const KernelRequest> requests,
                   const Called &called, std::span<CachedKernelPtr> loaded);
    void publish(Claim &claim, const CachedKernelPtr &made_now);
    void abandon(Claim &claim) noexcept;
    std::shared_ptr<const runtime::Module> find_unit(const std::string &key, runtime::Backend &backend);

    const KernelCacheOptions options;
    DiskCache disk;
    const std::unique_ptr<const Compiler> interpreter = make_interpreter();
    std::mutex mutex;
    std::condition_variable made;
    Entries entries;
    uint64_t clock = 0;
    size_t sweep_at = options.max_in_memory; ///< of more entries than this the oldest are looked for
    std::atomic<int64_t> compiled{0}, from_memory{0}, from_disk{0}, quick{0};
    std::mutex units_mutex;
    std::unordered_map<std::string, std::weak_ptr<const runtime::Module>> units; ///< those that are loaded
};

} // namespace lz::codegen
