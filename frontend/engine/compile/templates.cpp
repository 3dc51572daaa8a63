#include "frontend/engine/compile/templates.h"

#include "ir/diagnostic.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "passes/verify/verify.h"
#include "passes/verify/verify_schedule.h"

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
            const std::lock_guard lock(mutex_);
            if (Entry *const entry = locate(graph, target)) {
                ++entry->found;
                if (const auto at = std::ranges::find(entry->templates, made); at != entry->templates.end())
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
        entry =
            &entries_.emplace(hash_of(graph, target), Entry{graph.structure, target, {}, {}, 0, 0, 0, 0, 0})
                 ->second;
    }
    entry->used = ++clock_;
    entry->seen.add(graph.extents);
    const bool serve = entry->found >= entry->made;
    if (++entry->sizes < kSizes || (entry->made >= kMost && !serve))
        return std::nullopt;
    const bool useful = entry->made < kTries || serve;
    if (++entry->missed < (useful ? 1 : entry->made - entry->found))
        return std::nullopt;
    entry->missed = 0;
    ++entry->made;
    return entry->seen.pattern();
}

std::string Templates::learn(const traced::GraphForm &graph, uint32_t target, const Executable &executable,
                             std::vector<runtime::ProgramKernel> kernels) {
    std::optional<traced::ExtentPattern> pattern = is_worth_it(graph, target);
    if (!pattern)
        return {};
    std::string why;
    auto made = std::make_shared<Template>();
    made->program = traced::ProgramTemplate::make(graph, std::move(*pattern), *executable.target,
                                                  executable.program->program(), &why);
    made->kernels = std::move(kernels);
    made->donors = executable.donors;
    made->number = executable.number;
    const std::lock_guard lock(mutex_);
    Entry *const entry = locate(graph, target);
    if (!entry)
        return {};
    if (made->program) {
        entry->templates.insert(entry->templates.begin(), std::move(made));
        if (entry->templates.size() > kMost)
            entry->templates.pop_back();
    } else { // nor will there be one for another size
        entry->made = kMost;
        entry->found = 0;
    }
    return why.empty() ? "can be had with other sizes"
                       : "for this size alone: " + why.substr(0, why.find('\n'));
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

void verify_instance(const ir::Program &program, const ir::Graph &graph, const ir::Target &target) {
    passes::verify_after("instantiate", program);
    passes::verify_schedule(program);
    const ir::Program made = passes::compile(graph, target, nullptr, passes::Explained::No).program;
    LZ_CHECK(ir::print(made) == ir::print(program),
             "the passes make another Program:\n" + ir::print(made) + "than\n" + ir::print(program));
}

} // namespace lz::engine
