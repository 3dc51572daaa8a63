#include "frontend/engine/compile/templates.h"

#include "ir/diagnostic.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "passes/traced/forms.h"
#include "passes/verify/verify.h"
#include "passes/verify/verify_schedule.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

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
    const std::lock_guard lock(mutex_);
    Entry *const entry = locate(graph, target);
    if (!entry)
        return std::nullopt;
    entry->used = ++clock_;
    entry->seen.add(graph.extents);
    if (entry->first) // of which there will be one
        return std::nullopt;
    const bool serve = entry->found >= entry->made;
    if (entry->made >= kMost && !serve)
        return std::nullopt;
    const bool useful = entry->made < kTries || serve;
    if (++entry->missed < (useful ? 1 : entry->made - entry->found))
        return std::nullopt;
    entry->missed = 0;
    ++entry->made;
    return entry->seen.pattern();
}

bool Templates::keep_first(const traced::GraphForm &graph, uint32_t target,
                           const std::shared_ptr<const Executable> &executable,
                           std::vector<runtime::ProgramKernel> &kernels) {
    const std::lock_guard lock(mutex_);
    if (locate(graph, target))
        return false;
    if (entries_.size() >= kLimit)
        forget_oldest();
    Entry entry{graph.structure, target, {}, {}, Known{executable, std::move(kernels)}, 0, 0, 0, ++clock_};
    entry.seen.add(graph.extents);
    entries_.emplace(hash_of(graph, target), std::move(entry));
    return true;
}

std::optional<Templates::Outcome> Templates::learn_first(const traced::GraphForm &graph, uint32_t target) {
    std::optional<Known> first;
    std::shared_ptr<const Executable> executable;
    traced::ExtentPattern pattern;
    {
        const std::lock_guard lock(mutex_);
        Entry *const entry = locate(graph, target);
        if (!entry || !entry->first)
            return std::nullopt;
        entry->seen.add(graph.extents);
        pattern = entry->seen.pattern();
        if (std::ranges::count(pattern, traced::kFixed) == std::ssize(pattern))
            return std::nullopt;                           // the same size
        first = std::exchange(entry->first, std::nullopt); // no other thread makes it as well
        executable = first->executable.lock();
        if (!executable)
            return std::nullopt;
        ++entry->made;
    }
    return make(traced::write_graph(executable->graph), target, std::move(pattern), *executable,
                std::move(first->kernels));
}

std::optional<Templates::Outcome> Templates::learn(const traced::GraphForm &graph, uint32_t target,
                                                   const std::shared_ptr<const Executable> &executable,
                                                   std::vector<runtime::ProgramKernel> kernels) {
    if (graph.extents.empty() || keep_first(graph, target, executable, kernels))
        return std::nullopt;
    std::optional<traced::ExtentPattern> pattern = is_worth_it(graph, target);
    if (!pattern)
        return std::nullopt;
    return make(graph, target, std::move(*pattern), *executable, std::move(kernels));
}

Templates::Outcome Templates::make(const traced::GraphForm &graph, uint32_t target,
                                   traced::ExtentPattern pattern, const Executable &executable,
                                   std::vector<runtime::ProgramKernel> kernels) {
    std::string why;
    auto made = std::make_shared<Template>();
    made->program = traced::ProgramTemplate::make(graph, std::move(pattern), *executable.target,
                                                  executable.program->program(), &why);
    made->kernels = std::move(kernels);
    made->donors = executable.donors;
    made->number = executable.number;
    Outcome outcome{executable.number,
                    why.empty() ? "can be had with other sizes"
                                : "for this size alone: " + why.substr(0, why.find('\n')),
                    made->program != nullptr};
    const std::lock_guard lock(mutex_);
    if (Entry *const entry = locate(graph, target); !entry) {
        outcome.is_made = false; // forgotten meanwhile
    } else if (made->program) {
        entry->templates.insert(entry->templates.begin(), std::move(made));
        if (entry->templates.size() > kMost)
            entry->templates.pop_back();
    } else { // nor will there be one for another size
        entry->made = kMost;
        entry->found = 0;
    }
    return outcome;
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
