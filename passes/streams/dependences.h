#pragma once
/// Which earlier steps each step has to come after: the one place where passes that schedule look.
///
/// A step comes after another when
///  - it reads what the other writes (a value, a block of staging memory),
///  - it overwrites what the other reads or writes (an update in place, the next piece in a staging block),
///  - the user ordered an effect between them (StepDraft::after),
///  - plan_memory gave it bytes that the other used before (Draft::reuses).
/// `assign_streams` and `plan_memory` need the first three, before buffers have memory; `insert_syncs` all of
/// them. Nothing has to be ordered for buffers without bytes.

#include "ir/program/program.h"

#include <span>
#include <vector>

namespace lz::passes {

struct Dependence {
    uint32_t step;
    bool memory; ///< only because bytes are used again
};

class Dependences {
public:
    /// What `step` comes after, each once, the latest first.
    std::span<const Dependence> of(uint32_t step) const {
        return {edges_.data() + begin_[step], edges_.data() + begin_[step + 1]};
    }
    size_t steps() const { return begin_.size() - 1; }

private:
    friend class DependenceFinder;
    std::vector<Dependence> edges_;
    std::vector<uint32_t> begin_{0};
};

/// The streams that steps are on, numbered by their first steps.
struct StreamNumbers {
    explicit StreamNumbers(const ir::Program &program);

    std::vector<ir::StreamRef> streams;
    std::vector<uint32_t> of; ///< by step
};

/// Before plan_memory, of symbolic buffers and whatever streams steps are on. Linear in the number of
/// operands.
Dependences find_dependences(const ir::Program &program);

/// At Stage::Planned. Of the steps that touched a buffer on one stream only the last is there: the stream
/// orders the others.
Dependences find_dependences(const ir::Program &program, const StreamNumbers &streams);

} // namespace lz::passes
