// Kernels that are compiled together: where a compiler needs a while before it begins with the first kernel,
// all that a Program lacks goes into as many units as there are threads.
//
// In memory each kernel is an entry, whose module is a part of the unit's. On disk the unit is an entry, too,
// and its kernels' entries name it.

#include "codegen/cache/impl.h"
#include "codegen/cache/stored_kernel.h"
#include "ir/diagnostic.h"
#include "ir/kernel/key.h"
#include "ir/math/expand.h"
#include "runtime/api/parallel.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>

namespace lz::codegen {
namespace {

/// One kernel of a unit.
class Part final : public runtime::Module {
public:
    explicit Part(std::shared_ptr<const runtime::Module> whole) : whole_(std::move(whole)) {}
    void *entry(const std::string &symbol) const override { return whole_->entry(symbol); }
    const void *code() const override { return whole_->code(); }

private:
    const std::shared_ptr<const runtime::Module> whole_;
};

std::string unit_key(const ir::CompiledKernel &unit, const Compiler &compiler) {
    const XXH128_hash_t hash = XXH3_128bits(unit.object.data(), unit.object.size());
    return fmt::format("unit {:016x}{:016x} of {}\n{}", hash.high64, hash.low64, unit.phases.size(),
                       compiler.key());
}

} // namespace

/// A kernel that this thread makes, while others wait.
struct KernelCache::Impl::Claim {
    size_t request;
    const Compiler *compiler;
    runtime::Backend *backend;
    EntryKey key;
    ir::Kernel kernel; ///< without Math instructions, once it is known to be missing
    bool open = true;
};

/// Null where it is not there any more.
std::shared_ptr<const runtime::Module> KernelCache::Impl::find_unit(const std::string &key,
                                                                    runtime::Backend &backend) {
    const std::lock_guard lock(units_mutex); // what two kernels ask for is loaded once
    std::weak_ptr<const runtime::Module> &known = units[key + '\n' + backend.module_key()];
    std::shared_ptr<const runtime::Module> whole = known.lock();
    if (!whole) {
        const auto bytes = disk.find(std::as_bytes(std::span(key)));
        if (!bytes)
            return nullptr;
        whole = backend.load(deserialise(*bytes, "of several").kernel);
        known = whole;
    }
    return std::make_shared<Part>(std::move(whole));
}

/// Claims the kernels that nobody has made or is making, of those whose compiler joins kernels to one unit.
/// Claims nothing where fewer than two are missing: a single kernel is made the ordinary way.
std::vector<KernelCache::Impl::Claim>
KernelCache::Impl::claim_missing(std::span<const KernelRequest> requests) {
    std::vector<Claim> wanted, claims;
    for (size_t i = 0; i < requests.size(); ++i)
        if (requests[i].compiler->joins())
            wanted.push_back(
                {i,
                 requests[i].compiler,
                 requests[i].backend,
                 entry_key(ir::cache_key(*requests[i].kernel), *requests[i].compiler, *requests[i].backend),
                 {}});
    if (wanted.size() < 2)
        return claims;
    const std::lock_guard lock(mutex);
    if (std::ranges::count_if(wanted, [&](const Claim &c) { return !entries.contains(c.key.text); }) < 2)
        return claims;
    claims.reserve(wanted.size());
    for (Claim &claim : wanted)
        if (entries.try_emplace(claim.key.text).second)
            claims.push_back(std::move(claim));
    return claims;
}

void KernelCache::Impl::publish(Claim &claim, const CachedKernelPtr &made_now) {
    const std::lock_guard lock(mutex);
    entries.find(claim.key.text)->second = {made_now, false, ++clock};
    claim.open = false;
    made.notify_all();
}

/// Takes back the claim of a kernel that was not made. Threads that wait for it wake up, find no entry, and
/// compile the kernel themselves.
void KernelCache::Impl::abandon(Claim &claim) noexcept {
    if (!std::exchange(claim.open, false))
        return;
    const std::lock_guard lock(mutex);
    entries.erase(claim.key.text);
    made.notify_all();
}

void KernelCache::Impl::make_units(std::span<const KernelRequest> requests, const Called &called,
                                   std::span<CachedKernelPtr> loaded) {
    std::vector<Claim> claims = claim_missing(requests);
    if (claims.empty())
        return;
    struct AbandonAll {
        Impl &cache;
        std::vector<Claim> &claims;
        ~AbandonAll() {
            for (Claim &claim : claims)
                cache.abandon(claim);
        }
    } abandon_all{*this, claims};
    const auto name_of = [&](const Claim &claim) {
        return called ? called(claim.request) : requests[claim.request].kernel->name;
    };
    runtime::parallel_for(static_cast<int64_t>(claims.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t c = begin; c < end; ++c) {
            Claim &claim = claims[static_cast<size_t>(c)];
            const auto key = std::string_view(claim.key.text).substr(0, claim.key.on_disk);
            if (const auto found = find_on_disk(key, name_of(claim), *claim.backend)) {
                add_unaligned(*found, requests[claim.request], name_of(claim));
                loaded[claim.request] = found;
                publish(claim, found);
                continue;
            }
            claim.kernel = *requests[claim.request].kernel;
            ir::expand_math(claim.kernel, claim.compiler->math_forms());
        }
    });
    // The missing kernels of one compiler are dealt out to its units in turn, the largest first.
    std::vector<Claim *> missing;
    for (Claim &claim : claims)
        if (claim.open)
            missing.push_back(&claim);
    std::vector<std::vector<Claim *>> units_of;
    while (!missing.empty()) {
        const Claim &first = *missing.front();
        std::vector<Claim *> same;
        std::erase_if(missing, [&](Claim *c) {
            const bool fits =
                c->compiler == first.compiler && c->backend->module_key() == first.backend->module_key();
            if (fits)
                same.push_back(c);
            return fits;
        });
        std::ranges::sort(same, std::greater(),
                          [](const Claim *c) { return std::pair(c->kernel.instrs.size(), c->request); });
        const size_t count = std::min(same.size(), static_cast<size_t>(runtime::num_threads()));
        for (size_t u = 0; u < count; ++u) {
            std::vector<Claim *> &unit = units_of.emplace_back();
            for (size_t k = u; k < same.size(); k += count)
                unit.push_back(same[k]);
        }
    }
    runtime::parallel_for(static_cast<int64_t>(units_of.size()), 1, [&](int64_t begin, int64_t end) {
        for (int64_t u = begin; u < end; ++u)
            make_unit(units_of[static_cast<size_t>(u)], requests, called, loaded);
    });
    sweep();
}

/// Where that fails each of them is made by itself, and whichever it was says so.
void KernelCache::Impl::make_unit(std::span<Claim *const> claims, std::span<const KernelRequest> requests,
                                  const Called &called, std::span<CachedKernelPtr> loaded) {
    if (claims.size() < 2)
        return;
    const Compiler &compiler = *claims[0]->compiler;
    std::vector<const ir::Kernel *> kernels;
    for (const Claim *claim : claims)
        kernels.push_back(&claim->kernel);
    try {
        const ir::CompiledKernel unit = compiler.compile_together(kernels);
        const std::shared_ptr<const runtime::Module> whole = claims[0]->backend->load(unit);
        const std::string key = unit_key(unit, compiler);
        disk.store(std::as_bytes(std::span(key)), serialise(unit));
        {
            const std::lock_guard lock(units_mutex);
            units[key + '\n' + claims[0]->backend->module_key()] = whole;
            std::erase_if(units, [](const auto &known) { return known.second.expired(); });
        }
        auto phase = unit.phases.begin();
        for (Claim *claim : claims) {
            ir::CompiledKernel part;
            part.name = called ? called(claim->request) : claim->kernel.name;
            part.format = unit.format;
            const auto end = phase + static_cast<ptrdiff_t>(claim->kernel.phases.size());
            part.phases.assign(phase, end);
            phase = end;
            ++compiled;
            const auto on_disk = std::string_view(claim->key.text).substr(0, claim->key.on_disk);
            disk.store(std::as_bytes(std::span(on_disk)), serialise(part, key));
            const auto made_now = cached(std::make_shared<Part>(whole), part);
            add_unaligned(*made_now, requests[claim->request], part.name);
            loaded[claim->request] = made_now;
            publish(*claim, loaded[claim->request]);
        }
    } catch (const ir::Failure &) { // what is still open is asked for one by one
    }
}

} // namespace lz::codegen
