#pragma once
/// A Program for all extents of a structure for which it is the Program that the passes would make.

#include "ir/graph/graph.h"
#include "ir/program/program.h"
#include "ir/target.h"
#include "passes/traced/portable.h"

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace lz::traced {

class ProgramTemplate {
public:
    /// Of a graph, as write_graph has it, and the Program that the passes made of it, without notes. Runs the
    /// passes of the second build; null where these did not make the same Program, or threw: `why` then says
    /// so, if it is not null. `with_origins` as of a Tape.
    static std::unique_ptr<ProgramTemplate> make(const GraphForm &graph, const ir::Target &target,
                                                 const ir::Program &program, std::string *why = nullptr,
                                                 bool with_origins = false);

    /// The Program for these extents (GraphForm::parameters of a graph with the same structure), or nothing
    /// where one of the comparisons on which it depends comes out differently. Any thread.
    std::optional<ir::Program> instantiate(std::span<const int64_t> parameters) const;
    /// Why there is none for these: the condition, for people.
    std::string broken_condition(std::span<const int64_t> parameters) const {
        return tape_.first_broken(parameters);
    }
    const Tape &tape() const { return tape_; }

private:
    explicit ProgramTemplate(bool with_origins) : tape_(with_origins) {}

    Tape tape_;
    ir::Program program_;
    /// By number of the Program that is not the same for all extents, in the order of for_each_number.
    struct Computed {
        uint32_t number;
        Expression expression;
    };
    std::vector<Computed> computed_;
};

} // namespace lz::traced
