#include "codegen/cache/kernel_cache.h"

#include "codegen/cache/disk_cache.h"
#include "codegen/late_kernels.h"
#include "ir/diagnostic.h"
#include "runtime/api/parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace lz::codegen {
namespace {

/// What a disk entry holds: the symbols and the object.
std::vector<std::byte> serialise(const ir::CompiledKernel &kernel) {
    std::string symbols;
    for (const std::string &symbol : kernel.symbols)
        symbols += symbol + '\n';
    const uint64_t symbol_bytes = symbols.size();
    std::vector<std::byte> bytes(sizeof symbol_bytes + symbols.size() + kernel.object.size());
    std::memcpy(bytes.data(), &symbol_bytes, sizeof symbol_bytes);
    std::memcpy(bytes.data() + sizeof symbol_bytes, symbols.data(), symbols.size());
    std::memcpy(bytes.data() + sizeof symbol_bytes + symbols.size(), kernel.object.data(),
                kernel.object.size());
    return bytes;
}

/// The checksum has been compared: the layout is ours.
ir::CompiledKernel deserialise(std::span<const std::byte> bytes, const std::string &name) {
    ir::CompiledKernel kernel;
    kernel.name = name;
    uint64_t symbol_bytes;
    std::memcpy(&symbol_bytes, bytes.data(), sizeof symbol_bytes);
    const std::string symbols(reinterpret_cast<const char *>(bytes.data()) + sizeof symbol_bytes,
                              symbol_bytes);
    for (size_t at = 0; at < symbols.size();) {
        const size_t end = symbols.find('\n', at);
        kernel.symbols.push_back(symbols.substr(at, end - at));
        at = end + 1;
    }
    const auto object = bytes.subspan(sizeof symbol_bytes + symbol_bytes);
    kernel.object.assign(object.begin(), object.end());
    return kernel;
}

LoadedKernelPtr load(const runtime::ModuleLoader &loader, const ir::CompiledKernel &compiled) {
    auto loaded = std::make_shared<LoadedKernel>();
    loaded->module = loader(compiled);
    loaded->symbols = compiled.symbols;
    loaded->text = compiled.text;
    loaded->assembly = compiled.assembly;
    return loaded;
}

} // namespace

struct KernelCache::Impl {
    Impl(ir::CpuIsa isa_, KernelCacheOptions options_)
        : isa(std::move(isa_)), options(std::move(options_)),
          disk(options.directory, options.max_bytes, options.log),
          loader(options.loader ? options.loader : cpu_loader()),
          suffix(fmt::format("\n{}\n{}\n{}\n{}\nfast_math={}", isa.triple, isa.features, isa.vector_bytes,
                             compiler_version(), options.compile.fast_math)) {}

    /// An entry that one thread makes while others wait.
    struct Entry {
        LoadedKernelPtr loaded;
        bool making = true;
        uint64_t used = 0;

        /// Nobody but the cache has it, and so nobody can get it but from the cache.
        bool unused() const { return !making && loaded.use_count() == 1 && loaded->module.use_count() == 1; }
    };
    using Entries = std::unordered_map<std::string, Entry>;

    using CalledThis = std::function<std::string()>;
    LoadedKernelPtr get(const ir::Kernel &kernel, const CalledThis &called);
    LoadedKernelPtr make(const ir::Kernel &kernel, const std::string &key, const std::string &called);
    std::vector<Entries::node_type> forget_oldest();

    const ir::CpuIsa isa;
    const KernelCacheOptions options;
    DiskCache disk;
    const runtime::ModuleLoader loader;
    const std::string suffix;
    std::mutex mutex;
    std::condition_variable made;
    Entries entries;
    uint64_t clock = 0;
    size_t sweep_at = options.max_in_memory; ///< of more entries than this the oldest are looked for
    std::atomic<int64_t> compiled{0}, from_memory{0}, from_disk{0};
};

LoadedKernelPtr KernelCache::Impl::get(const ir::Kernel &kernel, const CalledThis &called) {
    const std::string key = ir::cache_key(kernel) + suffix;
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
    LoadedKernelPtr loaded;
    try {
        loaded = make(kernel, key, called());
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

LoadedKernelPtr KernelCache::Impl::make(const ir::Kernel &kernel, const std::string &key,
                                        const std::string &called) {
    if (llvm_is_gone()) {
        auto loaded = std::make_shared<LoadedKernel>();
        ir::Kernel expanded = kernel;
        ir::expand_math(expanded);
        expanded.name = called;
        loaded->module = load_interpreted(expanded);
        for (size_t phase = 0; phase < kernel.phases.size(); ++phase)
            loaded->symbols.push_back("phase" + std::to_string(phase));
        return loaded;
    }
    const auto key_bytes = std::as_bytes(std::span(key));
    if (const auto stored = disk.find(key_bytes)) {
        try {
            LoadedKernelPtr loaded = load(loader, deserialise(*stored, called));
            note_llvm_use();
            ++from_disk;
            return loaded;
        } catch (const ir::Failure &failure) {
            if (options.log)
                options.log(fmt::format("a cached kernel did not load ({}) and is compiled again",
                                        failure.message()));
        }
    }
    ir::Kernel expanded = kernel;
    ir::expand_math(expanded);
    ir::CompiledKernel result = compile_cpu(expanded, isa, options.compile);
    result.name = called;
    ++compiled;
    disk.store(key_bytes, serialise(result));
    LoadedKernelPtr loaded = load(loader, result);
    note_llvm_use();
    return loaded;
}

KernelCache::KernelCache(ir::CpuIsa isa, KernelCacheOptions options)
    : impl_(std::make_unique<Impl>(std::move(isa), std::move(options))) {}
KernelCache::~KernelCache() = default;

LoadedKernelPtr KernelCache::get(const ir::Kernel &kernel) {
    return impl_->get(kernel, [&] { return kernel.name; });
}

std::vector<LoadedKernelPtr> KernelCache::get_all(std::span<const ir::Kernel> kernels, const Called &called) {
    std::vector<LoadedKernelPtr> loaded(kernels.size());
    std::vector<std::exception_ptr> failed(kernels.size()); // told when all are done, the first one
    const auto get_one = [&](size_t i) {
        try {
            loaded[i] = impl_->get(kernels[i], [&] { return called ? called(i) : kernels[i].name; });
        } catch (const ir::Failure &failure) {
            failed[i] = failure.kind() == ir::ErrorKind::Compile
                            ? std::make_exception_ptr(KernelFailure(failure, i))
                            : std::current_exception();
        }
    };
    if (kernels.size() == 1)
        get_one(0);
    else
        runtime::parallel_for(static_cast<int64_t>(kernels.size()), 1, [&](int64_t begin, int64_t end) {
            for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
                get_one(i);
        });
    for (const std::exception_ptr &failure : failed)
        if (failure)
            std::rethrow_exception(failure);
    return loaded;
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
