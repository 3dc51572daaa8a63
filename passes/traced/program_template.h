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
#include <utility>
#include <vector>

namespace lz::traced {

/// What extents of one structure have in common for all sizes that were seen.
class SeenExtents {
public:
    void add(std::span<const int64_t> extents);
    /// Extents that were always equal are one parameter; those that were always the same are fixed.
    ExtentPattern pattern() const;

private:
    std::vector<uint32_t> class_of_; ///< by extent: those that were always equal
    std::vector<int64_t> last_;
    std::vector<bool> differed_; ///< by extent: from one size to another
};
/// A parameter for each value.
ExtentPattern pattern_of_all(std::span<const int64_t> extents);

class ProgramTemplate {
public:
    /// Of a graph, as write_graph has it, and the Program that the passes made of it, without notes, for
    /// graphs that differ in extents that `pattern` does not say are fixed. Runs the passes of the second
    /// build; null where these did not make the same Program, or threw: `why` then says so, if it is not
    /// null. `with_origins` as of a Tape.
    static std::unique_ptr<ProgramTemplate> make(const GraphForm &graph, ExtentPattern pattern,
                                                 const ir::Target &target, const ir::Program &program,
                                                 std::string *why = nullptr, bool with_origins = false);

    /// The Program for these extents (of a graph with the same structure), or nothing where the pattern or
    /// one of the comparisons on which it depends is another. Any thread.
    std::optional<ir::Program> instantiate(std::span<const int64_t> extents) const;
    /// Why there is none for these: the condition, for people.
    std::string broken_condition(std::span<const int64_t> extents) const;
    const Tape &tape() const { return tape_; }

private:
    explicit ProgramTemplate(bool with_origins) : tape_(with_origins) {}
    /// The parameters' values, if the extents fit the pattern.
    bool parameters(std::span<const int64_t> extents, std::vector<int64_t> &found) const;

    Tape tape_;
    ExtentPattern pattern_;
    std::vector<int64_t> extents_; ///< for which it was made
    uint32_t parameters_ = 0;
    ir::Program program_;
    /// By number of the Program that is not the same for all extents, in the order of for_each_number.
    struct Computed {
        uint32_t number;
        Expression expression;
    };
    std::vector<Computed> computed_;
};

} // namespace lz::traced
