#include "frontend/engine/compile/templates.h"

#include <xxhash.h>

#include <algorithm>

namespace lz::engine {

uint64_t Templates::hash_of(const traced::GraphForm &graph, uint32_t target) {
    return XXH3_64bits_withSeed(graph.structure.data(), graph.structure.size() * sizeof(int64_t), target);
}

Templates::Entry *Templates::locate(const traced::GraphForm &graph, uint32_t target) {
    auto [it, end] = entries_.equal_range(hash_of(graph, target));
    for (; it != end; ++it)
        if (it->second.target == target && it->second.structure == graph.structure)
            return &it->second;
    return nullptr;
}

std::optional<Templates::Instance> Templates::find(const traced::GraphForm &graph, uint32_t target) {
    std::vector<TemplatePtr> templates;
    {
        const std::lock_guard lock(mutex_);
        Entry *const entry = locate(graph, target);
        if (!entry)
            return std::nullopt;
        entry->used = ++clock_;
        templates = entry->templates;
    }
    for (const TemplatePtr &made : templates)
        if (std::optional<ir::Program> program = made->program->instantiate(graph.extents)) {
            if (made != templates.front()) {
                const std::lock_guard lock(mutex_);
                if (Entry *const entry = locate(graph, target))
                    if (const auto at = std::ranges::find(entry->templates, made);
                        at != entry->templates.end())
                        std::rotate(entry->templates.begin(), at, at + 1);
            }
            return Instance{std::move(*program), made};
        }
    return std::nullopt;
}

std::optional<traced::ExtentPattern> Templates::is_worth_it(const traced::GraphForm &graph, uint32_t target) {
    if (graph.extents.empty())
        return std::nullopt;
    const std::lock_guard lock(mutex_);
    Entry *entry = locate(graph, target);
    if (!entry) {
        if (entries_.size() >= kLimit)
            forget_oldest();
        entry = &entries_.emplace(hash_of(graph, target), Entry{graph.structure, target, {}, {}, 0, 0, 0})->second;
    }
    entry->used = ++clock_;
    entry->seen.add(graph.extents);
    if (++entry->sizes < kSizes || entry->made >= kMost)
        return std::nullopt;
    entry->sizes = kSizes - 1; // from now on for each size that none of them is for
    ++entry->made;
    return entry->seen.pattern();
}

void Templates::add(const traced::GraphForm &graph, uint32_t target, TemplatePtr made) {
    const std::lock_guard lock(mutex_);
    if (Entry *const entry = locate(graph, target))
        entry->templates.insert(entry->templates.begin(), std::move(made));
}

void Templates::clear() {
    std::unordered_multimap<uint64_t, Entry> forgotten; // destroyed without the lock
    const std::lock_guard lock(mutex_);
    forgotten.swap(entries_);
}

/// Half of them.
void Templates::forget_oldest() {
    std::vector<uint64_t> ages;
    for (const auto &[hash, entry] : entries_)
        ages.push_back(entry.used);
    const auto cut = ages.begin() + static_cast<ptrdiff_t>(ages.size() / 2);
    std::ranges::nth_element(ages, cut);
    const uint64_t oldest_kept = *cut;
    std::erase_if(entries_, [&](const auto &item) { return item.second.used < oldest_kept; });
}

} // namespace lz::engine
