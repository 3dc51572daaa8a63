#pragma once
/// Programs of new sizes without passes: by the structure of a graph, extents apart, what the passes made of
/// it before.

#include "frontend/engine/executable.h"
#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/traced/portable.h"
#include "passes/traced/program_template.h"
#include "runtime/executor/executor.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace lz::engine {

/// A Program as it was compiled, with the code of its kernels: what does not depend on extents.
struct Template {
    std::unique_ptr<traced::ProgramTemplate> program;
    std::vector<runtime::ProgramKernel> kernels;
    std::vector<int> donors;
    int64_t number = 0; ///< of the Program that it was made of
};
using TemplatePtr = std::shared_ptr<const Template>;

/// Bounded, as the Program cache is. Any thread.
class Templates {
public:
    /// Templates of one structure: beyond that the one that was not used for the longest time goes, while
    /// they serve more sizes than there were of them; else there are as many regimes as sizes. Layers of
    /// transformers have 33 for 256 lengths on a CUDA device.
    static constexpr size_t kMost = 40;
    /// So many are made at once; more while they serve fewer sizes than there are of them, only after some
    /// sizes for which none was.
    static constexpr size_t kTries = 8;

    struct Instance {
        ir::Program program;
        TemplatePtr made_of;
    };
    /// Of the making of a template.
    struct Outcome {
        int64_t number;      ///< of the Program that it was to be made of
        std::string clause;  ///< about that Program
        bool is_made = true; ///< there is a template
    };
    /// `target` is a number of the caller's, as for the Program cache.
    std::optional<Instance> find(const traced::GraphForm &graph, uint32_t target);
    /// Of a graph for which there is none: makes the template of the first size that the structure was there
    /// for, if this is the second one. A structure is worth one then (it takes the time of some runs of the
    /// passes), and one of the first size mostly holds for the second, too, for which they need not run.
    /// Returns what came of it. Throws std::bad_alloc alone.
    std::optional<Outcome> learn_first(const traced::GraphForm &graph, uint32_t target);
    /// What the passes have made of this graph, for which there was no template, with the code of its
    /// kernels. Makes a template of it if the structure has been there for other sizes. Returns what came of
    /// it, if anything. Throws std::bad_alloc alone.
    std::optional<Outcome> learn(const traced::GraphForm &graph, uint32_t target,
                                 const std::shared_ptr<const Executable> &executable,
                                 std::vector<runtime::ProgramKernel> kernels);
    void clear();

private:
    /// What the passes have made of one size.
    struct Known {
        std::weak_ptr<const Executable> executable; ///< while the Program cache has it
        std::vector<runtime::ProgramKernel> kernels;
    };
    struct Entry {
        std::vector<int64_t> structure;
        uint32_t target = 0;
        traced::SeenExtents seen;
        std::vector<TemplatePtr> templates; ///< the one that was used last comes first
        std::optional<Known> first;         ///< that the passes have made of it, until a second size
        size_t missed = 0;                  ///< sizes for which the passes ran, since the last template
        size_t made = 0;                    ///< tries, also those that gave none
        size_t found = 0;                   ///< instances
        uint64_t used = 0;
    };
    /// Whether it is the first size of a structure; takes the kernels then.
    bool keep_first(const traced::GraphForm &graph, uint32_t target,
                    const std::shared_ptr<const Executable> &executable,
                    std::vector<runtime::ProgramKernel> &kernels);
    /// How a template is to be made, if it is worth it.
    std::optional<traced::ExtentPattern> is_worth_it(const traced::GraphForm &graph, uint32_t target);
    Outcome make(const traced::GraphForm &graph, uint32_t target, traced::ExtentPattern pattern,
                 const Executable &executable, std::vector<runtime::ProgramKernel> kernels);
    static uint64_t hash_of(const traced::GraphForm &graph, uint32_t target);
    Entry *locate(const traced::GraphForm &graph, uint32_t target);
    void forget_oldest();

    static constexpr size_t kLimit = 256; ///< of structures

    std::mutex mutex_;
    std::unordered_multimap<uint64_t, Entry> entries_;
    uint64_t clock_ = 0;
};

/// Verifies an instance, and that it is what the passes make of its graph. Throws Failure(Internal).
void verify_instance(const ir::Program &program, const ir::Graph &graph, const ir::Target &target);

} // namespace lz::engine
