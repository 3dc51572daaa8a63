#include "codegen/cache/kernel_cache.h"

#include "codegen/cache/impl.h"
#include "codegen/cache/stored_kernel.h"
#include "codegen/process_end.h"
#include "codegen/quick.h"
#include "ir/diagnostic.h"
#include "ir/kernel/key.h"
#include "ir/math/expand.h"
#include "runtime/api/parallel.h"
#include "runtime/api/unaligned_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

namespace lz::codegen {

std::shared_ptr<CachedKernel> cached(std::shared_ptr<const runtime::Module> module,
                                     const ir::CompiledKernel &compiled) {
    auto loaded = std::make_shared<CachedKernel>();
    loaded->module = std::move(module);
    loaded->phases = compiled.phases;
    loaded->text = compiled.text;
    loaded->assembly = compiled.assembly;
    return loaded;
}

EntryKey entry_key(std::string text, const Compiler &compiler, const runtime::Backend &backend) {
    text += '\n' + compiler.key();
    const size_t on_disk = text.size();
    text += '\n' + backend.module_key();
    return {std::move(text), on_disk};
}

namespace {

/// About what it takes to read a kernel from disk and to load its code.
constexpr int64_t kLoadNanoseconds = 70'000;

ir::Kernel expanded(ir::Kernel kernel, const Compiler &compiler) {
    ir::expand_math(kernel, compiler.math_forms());
    return kernel;
}

} // namespace

CachedKernelPtr KernelCache::Impl::get(const KernelRequest &request, const CalledThis &called,
                                       IfMissing if_missing) {
    const bool quick = request.quick && options.beside && request.compiler->needs_llvm() &&
                       QuickKernel::can_be(*request.kernel);
    CachedKernelPtr loaded =
        get({ir::cache_key(*request.kernel), request.compiler, request.backend,
             [&](const Compiler &compiler) { return compiler.compile(expanded(*request.kernel, compiler)); },
             &request, quick},
            called, if_missing);
    if (loaded && !quick)
        if (const QuickKernelPtr other = quick_kernel(loaded->module); other && !other->is_compiled()) {
            other->compile();
            if (const std::exception_ptr failure = other->failure())
                std::rethrow_exception(failure);
        }
    return loaded;
}

CachedKernelPtr KernelCache::Impl::get(const Wanted &wanted, const CalledThis &called, IfMissing if_missing) {
    const auto [key, on_disk] = entry_key(wanted.text, *wanted.compiler, *wanted.backend);
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
        if (if_missing == IfMissing::Leave)
            return nullptr;
        made.wait(lock);
    }
    lock.unlock();
    CachedKernelPtr loaded;
    const auto leave = [&] {
        lock.lock();
        entries.erase(key); // whoever waits tries by itself
        made.notify_all();
    };
    try {
        loaded = make(wanted, std::string_view(key).substr(0, on_disk), called(), if_missing);
    } catch (...) {
        leave();
        throw;
    }
    if (!loaded) {
        leave();
        return nullptr;
    }
    lock.lock();
    entries.find(key)->second = {loaded, false, ++clock};
    made.notify_all();
    lock.unlock();
    sweep();
    return loaded;
}

void KernelCache::Impl::sweep() {
    std::vector<Entries::node_type> forgotten; // their code is unloaded without the lock
    const std::lock_guard lock(mutex);
    try {
        if (entries.size() > sweep_at && !llvm_is_gone())
            forgotten = forget_oldest();
    } catch (const std::bad_alloc &) { // another time
    }
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

/// Null where it is not there, or of no use: damaged, or code that the device does not take. That the process
/// was forked or the device is lost says nothing of a file, and is thrown.
std::shared_ptr<CachedKernel> KernelCache::Impl::find_on_disk(std::string_view key, const std::string &called,
                                                              runtime::Backend &backend) {
    const auto bytes = disk.find(std::as_bytes(std::span(key)));
    if (!bytes)
        return nullptr;
    try {
        const StoredKernel stored = deserialise(*bytes, called);
        std::shared_ptr<const runtime::Module> module;
        if (stored.unit.empty())
            module = backend.load(stored.kernel);
        else if (!(module = find_unit(stored.unit, backend)))
            return nullptr;
        std::shared_ptr<CachedKernel> loaded = cached(std::move(module), stored.kernel);
        ++from_disk;
        return loaded;
    } catch (const ir::Failure &failure) {
        if (failure.kind() != ir::ErrorKind::Compile && failure.kind() != ir::ErrorKind::Internal)
            throw;
        if (options.log)
            options.log(
                fmt::format("a cached kernel did not load ({}) and is compiled again", failure.message()));
        return nullptr;
    }
}

CachedKernelPtr KernelCache::Impl::make(const Wanted &wanted, std::string_view key, const std::string &called,
                                        IfMissing if_missing) {
    const bool late = wanted.compiler->needs_llvm() && llvm_is_gone();
    const Compiler &compiler = late ? *interpreter : *wanted.compiler;
    std::shared_ptr<CachedKernel> loaded = late ? nullptr : find_on_disk(key, called, *wanted.backend);
    if (!loaded && if_missing == IfMissing::Leave)
        return nullptr;
    if (!loaded && !late && wanted.quick)
        return make_quick(wanted, key, called);
    if (!loaded) {
        ir::CompiledKernel result = wanted.compile(compiler);
        result.name = called;
        if (!late) {
            ++compiled;
            disk.store(std::as_bytes(std::span(key)), serialise(result));
        }
        loaded = cached(wanted.backend->load(result), result);
    }
    if (wanted.request)
        add_unaligned(*loaded, *wanted.request, called);
    if (compiler.needs_llvm())
        note_llvm_use();
    return loaded;
}

/// The cache may be gone by then, as the one of a test is: then the code is made without it.
void KernelCache::Impl::add_unaligned(CachedKernel &loaded, const KernelRequest &request,
                                      const std::string &called) {
    if (!ir::needs_alignment(loaded.phases))
        return;
    loaded.unaligned = std::make_shared<const runtime::UnalignedKernel>(
        [kernel = *request.kernel, compiler = request.compiler, backend = request.backend, called,
         weak = weak_from_this()]() -> runtime::LoadedKernel {
            const ir::Kernel unaligned = ir::any_address(kernel);
            if (const auto cache = weak.lock())
                return *cache->get_unaligned({&unaligned, compiler, backend}, called);
            const ir::CompiledKernel made = compiler->compile(expanded(unaligned, *compiler));
            return {backend->load(made), made.phases};
        });
}

CachedKernelPtr KernelCache::Impl::get_unaligned(const KernelRequest &request, const std::string &called) {
    const auto begin = std::chrono::steady_clock::now();
    const int64_t compiled_before = compiled, on_disk_before = from_disk;
    CachedKernelPtr loaded = get(request, [&] { return called; });
    if (options.log_compile) {
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
        options.log_compile(
            fmt::format("{}: its code for addresses that are no multiples of 16 bytes, {}, {:.2f} ms", called,
                        compiled != compiled_before   ? "compiled"
                        : from_disk != on_disk_before ? "from disk"
                                                      : "from memory",
                        took.count()));
    }
    return loaded;
}

/// One that is interpreted until another thread has made its code.
CachedKernelPtr KernelCache::Impl::make_quick(const Wanted &wanted, std::string_view key,
                                              const std::string &called) {
    const ir::Kernel &kernel = *wanted.request->kernel;
    ir::Kernel interpreted = expanded(kernel, *interpreter);
    interpreted.name = called;
    const auto make = [kernel, compiler = wanted.compiler, backend = wanted.backend, key = std::string(key),
                       called, cache = weak_from_this()] {
        ir::CompiledKernel result = compiler->compile(expanded(kernel, *compiler));
        result.name = called;
        if (const auto kept = cache.lock())
            kept->disk.store(std::as_bytes(std::span(key)), serialise(result));
        runtime::LoadedKernel loaded{backend->load(result), result.phases};
        note_llvm_use();
        return loaded;
    };
    const auto module = std::make_shared<const QuickKernel>(std::move(interpreted), make, options.log);
    ++compiled;
    ++quick;
    auto loaded = std::make_shared<CachedKernel>();
    loaded->module = module;
    loaded->phases = module->phases();
    options.beside([weak = std::weak_ptr(module)] {
        if (const QuickKernelPtr kernel = weak.lock())
            kernel->compile();
    });
    return loaded;
}

KernelCache::KernelCache(KernelCacheOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {}
KernelCache::~KernelCache() = default;

CachedKernelPtr KernelCache::get(const KernelRequest &request) {
    return impl_->get(request, [&] { return request.kernel->name; });
}

std::vector<CachedKernelPtr> KernelCache::get_all(std::span<const KernelRequest> requests,
                                                  const Called &called) {
    std::vector<CachedKernelPtr> loaded(requests.size());
    std::vector<std::exception_ptr> failed(requests.size()); // told when all are done, the first one
    const auto get_one = [&](size_t i, IfMissing if_missing) {
        if (loaded[i] || failed[i])
            return;
        try {
            loaded[i] = impl_->get(
                requests[i], [&] { return called ? called(i) : requests[i].kernel->name; }, if_missing);
        } catch (const ir::Failure &failure) {
            failed[i] = failure.kind() == ir::ErrorKind::Compile
                            ? std::make_exception_ptr(KernelFailure(failure, i))
                            : std::current_exception();
        }
    };
    const auto get_each = [&](IfMissing if_missing, int64_t nanoseconds) {
        runtime::parallel_for(
            static_cast<int64_t>(requests.size()), 1,
            [&](int64_t begin, int64_t end) {
                for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
                    get_one(i, if_missing);
            },
            nanoseconds);
    };
    if (requests.size() == 1) {
        get_one(0, IfMissing::Make);
    } else {
        impl_->make_units(requests, called, loaded);
        // Those that are there take so little time that waking a thread, or making the first one, may take
        // more.
        get_each(IfMissing::Leave, static_cast<int64_t>(requests.size()) * kLoadNanoseconds);
        if (std::ranges::count(loaded, nullptr) > 0)
            get_each(IfMissing::Make, INT64_MAX);
    }
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

bool KernelCache::keeps() const {
    return impl_->disk.writes();
}

runtime::PersistentStore &KernelCache::store() {
    return *impl_;
}

KernelCacheStats KernelCache::stats() const {
    return {impl_->compiled, impl_->quick, impl_->from_memory, impl_->from_disk};
}

void KernelCache::reset_stats() {
    impl_->compiled = impl_->quick = impl_->from_memory = impl_->from_disk = 0;
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
