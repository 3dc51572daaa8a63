#pragma once
/// What goes in and out of the passes that are compiled a second time, in types that both builds have.

#include "passes/traced/tape.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lz::traced {

/// A graph as words: what it is, and apart from it for which extents.
///
/// The *structure* has everything else, and extents of 0 and 1, which are common and mean something. In place
/// of any other stands kExtentMark. Lengths that are given with extents (of windows, slices, padding) count
/// as extents.
struct GraphForm {
    std::vector<int64_t> structure;
    std::vector<int64_t> extents; ///< in the order of their marks
    /// Of nodes and parameters, no part of the structure: where they were recorded. Files are never freed.
    struct Line {
        const char *file;
        uint32_t line;
        uint16_t function, call;
    };
    std::vector<Line> lines;
    std::string name;
    std::vector<std::string> names; ///< of parameters
    std::vector<int64_t> words;     ///< runtime words: no part of the structure
};
/// An extent in GraphForm::structure. A number that is the mark stands behind it; behind an extent's is a 0.
inline constexpr int64_t kExtentMark = 0x6578'7465'6e74'7300;

/// For each extent of a structure the number of its parameter, or kFixed: it is what it is.
using ExtentPattern = std::vector<uint32_t>;
inline constexpr uint32_t kFixed = UINT32_MAX;

/// A Target as values: those of `for_each_field` (traced/fields.h) in order.
struct TargetForm {
    std::vector<int64_t> numbers;
    std::vector<double> reals;
    std::vector<std::string> texts;
    std::string fingerprint;
    /// What the library of a kind (LibraryRules::kind) knows of a function: nothing, or its scratch for these
    /// integers on device `device` of the Target; empty where it needs none.
    using Scratch = std::function<int64_t(std::span<const int64_t> ints, size_t device)>;
    std::function<std::optional<Scratch>(std::string_view kind, std::string_view symbol)> function;
};

struct Number {
    int64_t value;
    Expression expression;
};

/// A Program that was made of numbers with expressions: those of `for_each_number` in order, and the Program
/// as text.
struct TracedProgram {
    std::vector<Number> numbers;
    std::string text;
};

/// Runs the passes of the second build and writes on `tape`, on which parameters are those of the pattern.
/// Throws std::exception where they throw.
TracedProgram compile_traced(const GraphForm &graph, const ExtentPattern &pattern, const TargetForm &target,
                             Tape &tape);

// Of the first build, for the second: names of files and functions are interned once.
std::string_view plain_function_name(uint16_t number);
std::string plain_line_text(const char *file, uint32_t line);

} // namespace lz::traced

/// In the second build `lz` is another namespace (inside/prelude.h); this one is the same in both.
namespace lz_numbers = lz::traced;
