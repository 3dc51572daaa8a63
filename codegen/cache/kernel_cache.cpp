#include "codegen/cache/kernel_cache.h"

#include "codegen/cache/disk_cache.h"
#include "codegen/interpreter.h"
#include "codegen/process_end.h"
#include "ir/diagnostic.h"
#include "ir/kernel/key.h"
#include "ir/math/expand.h"
#include "runtime/api/parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace lz::codegen {
namespace {

/// Writes what a disk entry holds, value after value.
class Writer {
public:
    template <class T>
    void put(T value)
        requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
    {
        put(std::as_bytes(std::span(&value, 1)));
    }
    void put(const std::string &text) {
        put(static_cast<uint32_t>(text.size()));
        put(std::as_bytes(std::span(text)));
    }
    void put(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

/// Reads it again.
class Reader {
public:
    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}
    template <class T>
    void get(T &value)
        requires(std::is_arithmetic_v<T> || std::is_enum_v<T>)
    {
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
    }
    void get(std::string &text) {
        const auto bytes = take(count());
        text.assign(reinterpret_cast<const char *>(bytes.data()), bytes.size());
    }
    uint32_t count() {
        uint32_t n;
        get(n);
        return n;
    }
    std::span<const std::byte> rest() const { return rest_; }

private:
    std::span<const std::byte> take(size_t bytes) {
        LZ_CHECK(bytes <= rest_.size(), "an entry of the kernel cache ends early");
        const auto taken = rest_.first(bytes);
        rest_ = rest_.subspan(bytes);
        return taken;
    }
    std::span<const std::byte> rest_;
};

/// Calls f for each value of a phase that is stored, in order.
template <class Phase, class F>
void for_fields(Phase &phase, F &&f) {
    f(phase.symbol);
    f(phase.aligned);
    f(phase.record_bytes);
    f(phase.table_bytes);
    f(phase.threads);
    f(phase.shared_bytes);
    f(phase.most_blocks);
    for (auto &a : phase.alignments) {
        f(a.kind);
        f(a.bytes);
        f(a.index);
    }
    for (auto &p : phase.parameters) {
        f(p.kind);
        f(p.bytes);
        f(p.index);
        f(p.at);
    }
}

/// A disk entry: the format, the phases with their launch rules, and the bytes.
std::vector<std::byte> serialise(const ir::CompiledKernel &kernel) {
    Writer to;
    to.put(kernel.format);
    to.put(static_cast<uint32_t>(kernel.phases.size()));
    for (const ir::CompiledPhase &phase : kernel.phases) {
        to.put(static_cast<uint32_t>(phase.alignments.size()));
        to.put(static_cast<uint32_t>(phase.parameters.size()));
        for_fields(phase, [&](const auto &value) { to.put(value); });
    }
    to.put(std::span<const std::byte>(kernel.object));
    return to.take();
}

/// The checksum has been compared: the layout is ours.
ir::CompiledKernel deserialise(std::span<const std::byte> bytes, const std::string &name) {
    ir::CompiledKernel kernel;
    kernel.name = name;
    Reader from(bytes);
    from.get(kernel.format);
    kernel.phases.resize(from.count());
    for (ir::CompiledPhase &phase : kernel.phases) {
        phase.alignments.resize(from.count());
        phase.parameters.resize(from.count());
        for_fields(phase, [&](auto &value) { from.get(value); });
    }
    kernel.object.assign(from.rest().begin(), from.rest().end());
    return kernel;
}

CachedKernelPtr load(runtime::Backend &backend, const ir::CompiledKernel &compiled) {
    auto loaded = std::make_shared<CachedKernel>();
    loaded->module = backend.load(compiled);
    loaded->phases = compiled.phases;
    loaded->text = compiled.text;
    loaded->assembly = compiled.assembly;
    return loaded;
}

} // namespace

struct KernelCache::Impl final : runtime::Notes {
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

        /// Nobody but the cache has it, and so nobody can get it but from the cache.
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
    };
    CachedKernelPtr get(const KernelRequest &request, const CalledThis &called);
    CachedKernelPtr get(const Wanted &wanted, const CalledThis &called);
    CachedKernelPtr make(const Wanted &wanted, std::string_view key, const std::string &called);
    std::vector<Entries::node_type> forget_oldest();

    const KernelCacheOptions options;
    DiskCache disk;
    const std::unique_ptr<const Compiler> interpreter = make_interpreter();
    std::mutex mutex;
    std::condition_variable made;
    Entries entries;
    uint64_t clock = 0;
    size_t sweep_at = options.max_in_memory; ///< of more entries than this the oldest are looked for
    std::atomic<int64_t> compiled{0}, from_memory{0}, from_disk{0};
};

CachedKernelPtr KernelCache::Impl::get(const KernelRequest &request, const CalledThis &called) {
    return get({ir::cache_key(*request.kernel), request.compiler, request.backend,
                [&](const Compiler &compiler) {
                    ir::Kernel expanded = *request.kernel;
                    ir::expand_math(expanded);
                    return compiler.compile(expanded);
                }},
               called);
}

CachedKernelPtr KernelCache::Impl::get(const Wanted &wanted, const CalledThis &called) {
    std::string key = wanted.text + '\n' + wanted.compiler->key();
    const size_t on_disk = key.size();
    key += '\n' + wanted.backend->module_key();
    std::unique_lock lock(mutex);
    for (;;) {
        const auto [it, inserted] = entries.try_emplace(key);
        if (inserted)
            break;
        if (!it->second.making) {
            ++from_memory;
            it->second.used = ++clock;
            return it->second.loaded;
        }
        made.wait(lock);
    }
    lock.unlock();
    CachedKernelPtr loaded;
    try {
        loaded = make(wanted, std::string_view(key).substr(0, on_disk), called());
    } catch (...) {
        lock.lock();
        entries.erase(key); // whoever waits tries by itself
        made.notify_all();
        throw;
    }
    lock.lock();
    entries.find(key)->second = {loaded, false, ++clock};
    made.notify_all();
    std::vector<Entries::node_type> forgotten; // their code is unloaded without the lock
    try {
        if (entries.size() > sweep_at && !llvm_is_gone())
            forgotten = forget_oldest();
    } catch (const std::bad_alloc &) { // another time
    }
    lock.unlock();
    return loaded;
}

/// Down to three quarters of the limit, so that it does not run at every new kernel; those in use stay.
std::vector<KernelCache::Impl::Entries::node_type> KernelCache::Impl::forget_oldest() {
    std::vector<std::pair<uint64_t, Entries::iterator>> unused;
    for (auto it = entries.begin(); it != entries.end(); ++it)
        if (it->second.unused())
            unused.emplace_back(it->second.used, it);
    std::ranges::sort(unused, {}, &std::pair<uint64_t, Entries::iterator>::first);
    const size_t limit = options.max_in_memory;
    const size_t surplus = std::min(entries.size() - std::min(entries.size(), limit / 4 * 3), unused.size());
    std::vector<Entries::node_type> forgotten;
    forgotten.reserve(surplus);
    for (size_t i = 0; i < surplus; ++i)
        forgotten.push_back(entries.extract(unused[i].second));
    sweep_at = std::max(limit, entries.size() + limit / 4);
    return forgotten;
}

CachedKernelPtr KernelCache::Impl::make(const Wanted &wanted, std::string_view key,
                                        const std::string &called) {
    const bool late = wanted.compiler->needs_llvm() && llvm_is_gone();
    const Compiler &compiler = late ? *interpreter : *wanted.compiler;
    const auto key_bytes = std::as_bytes(std::span(key));
    const auto loads = [&](const ir::CompiledKernel &kernel) {
        CachedKernelPtr loaded = load(*wanted.backend, kernel);
        if (compiler.needs_llvm())
            note_llvm_use();
        return loaded;
    };
    if (!late)
        if (const auto stored = disk.find(key_bytes)) {
            try {
                CachedKernelPtr loaded = loads(deserialise(*stored, called));
                ++from_disk;
                return loaded;
            } catch (const ir::Failure &failure) {
                if (options.log)
                    options.log(fmt::format("a cached kernel did not load ({}) and is compiled again",
                                            failure.message()));
            }
        }
    ir::CompiledKernel result = wanted.compile(compiler);
    result.name = called;
    if (!late) {
        ++compiled;
        disk.store(key_bytes, serialise(result));
    }
    return loads(result);
}

KernelCache::KernelCache(KernelCacheOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
KernelCache::~KernelCache() = default;

CachedKernelPtr KernelCache::get(const KernelRequest &request) {
    return impl_->get(request, [&] { return request.kernel->name; });
}

std::vector<CachedKernelPtr> KernelCache::get_all(std::span<const KernelRequest> requests,
                                                  const Called &called) {
    std::vector<CachedKernelPtr> loaded(requests.size());
    std::vector<std::exception_ptr> failed(requests.size()); // told when all are done, the first one
    const auto get_one = [&](size_t i) {
        try {
            loaded[i] =
                impl_->get(requests[i], [&] { return called ? called(i) : requests[i].kernel->name; });
        } catch (const ir::Failure &failure) {
            failed[i] = failure.kind() == ir::ErrorKind::Compile
                            ? std::make_exception_ptr(KernelFailure(failure, i))
                            : std::current_exception();
        }
    };
    if (requests.size() == 1)
        get_one(0);
    else
        runtime::parallel_for(static_cast<int64_t>(requests.size()), 1, [&](int64_t begin, int64_t end) {
            for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
                get_one(i);
        });
    for (const std::exception_ptr &failure : failed)
        if (failure)
            std::rethrow_exception(failure);
    return loaded;
}

CachedKernelPtr KernelCache::get_source(const runtime::KernelSource &source, const Compiler &compiler,
                                        runtime::Backend &backend) {
    std::string text = "source\n";
    for (const std::string &entry : source.entries)
        text += entry + ' ';
    text += fmt::format("{} {}\n{}", source.uses_prelude, source.shared_bytes, source.text);
    return impl_->get(
        {std::move(text), &compiler, &backend, [&](const Compiler &by) { return by.compile_source(source); }},
        [&] { return source.name; });
}

runtime::Notes &KernelCache::notes() {
    return *impl_;
}

KernelCacheStats KernelCache::stats() const {
    return {impl_->compiled, impl_->from_memory, impl_->from_disk};
}

void KernelCache::reset_stats() {
    impl_->compiled = impl_->from_memory = impl_->from_disk = 0;
}

size_t KernelCache::size() const {
    const std::lock_guard lock(impl_->mutex);
    return impl_->entries.size();
}

void KernelCache::clear() {
    const std::lock_guard lock(impl_->mutex);
    std::erase_if(impl_->entries, [](const auto &entry) { return !entry.second.making; });
}

} // namespace lz::codegen
