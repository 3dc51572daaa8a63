#pragma once
/// Programs from seeds, their execution beside the oracle, and smaller ones that fail alike.

#include "rows.h"

namespace lz::test::calls {

struct GenerateOptions {
    int longest = 24; ///< statements, beside four
    int gpus = 0;
    /// Where it is not empty: rows that are wanted much more than the others.
    std::set<const Row *> wanted = {};
};

Program generate(uint64_t seed, const GenerateOptions &options);

/// The statement on the oracle. "" or why it has to throw, and what.
std::string perform(Oracle &oracle, const Statement &statement, std::optional<ErrorType> *type = nullptr,
                    bool *late = nullptr);

/// Runs the program on Lazuli and on the oracle, side by side: "" or the first thing that was wrong. All
/// that it allocated is free afterwards.
std::string run(const Program &program);

/// What a program computed, for comparisons between processes.
struct Seen {
    uint64_t bits = 0; ///< of all values that were looked at, in all runs; one NaN is as good as another
    bool wants_text = false;
    std::string shown; ///< what `show` says of each handle at the end of the last run
};
std::string run_and_see(const Program &program, Seen &seen);

/// The same in a process of its own, which has not used Lazuli before: it may crash or hang. This one must
/// not have used it either.
std::string run_apart(const Program &program);

/// The shortest program found that `fails` as this one does: statements are left out, extents and numbers
/// made small.
Program shrink(const Program &program, const std::function<bool(const Program &)> &fails);

/// What to print for a program that is wrong: its seed, what was wrong, and the shrunk program in C++.
std::string report(const Program &program, const std::string &what,
                   const std::function<std::string(const Program &)> &run);

} // namespace lz::test::calls
