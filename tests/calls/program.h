#pragma once
/// A random program as a value: statements over numbered handles, each a row of the table of calls (rows.h).

#include "array.h"

#include <lazuli/core/scalar.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lz::test::calls {

struct Row;

/// An operand: the tensor that a handle names, or a number.
struct Arg {
    int handle = -1;
    Scalar number;
    static Arg of(int handle) { return {handle, {}}; }
};

/// One entry of an index (`at`).
struct Entry {
    enum class Kind : uint8_t { Integer, Slice, Ellipsis, None, Tensor } kind = Kind::Integer;
    int64_t integer = 0;
    std::optional<int64_t> start, stop, step;
    int handle = -1;
};

struct Statement {
    const Row *row = nullptr;
    std::vector<Arg> args;
    std::vector<Scalar> numbers;
    std::vector<int64_t> ints;
    std::vector<Extents> sizes;
    std::vector<Entry> index;
    DType dtype = DType::F32;
    int device = -1;
    uint64_t seed = 0; ///< of the elements of a new tensor
    std::vector<int> out;
    uint64_t id = 0;     ///< what its variations are drawn from
    bool thread = false; ///< on a thread of its own, which ends before the next statement
};

/// What stays the same while a program runs.
struct Program {
    uint64_t seed = 0;
    int handles = 0; ///< x0, x1, ...
    int gpus = 0;
    uint64_t random_seed = 0; ///< lz::manual_seed, first of all
    bool again = false;       ///< runs several times in one process, its variations among them
    std::vector<Statement> statements;
};

/// Which of its runs in one process a program is, and what is expected of it beside its values.
struct Run {
    const char *name = "first";
    Program program;
    bool compiles = true; ///< whether it may: numbers alone never do (S27)
};
/// The runs of a program, in order: itself, with other numbers, with other extents, itself.
std::vector<Run> runs_of(const Program &program);

/// A `main` that does it all and prints each observed value: compiles as it stands.
std::string print(const Program &program);
/// A number as C++ spells it.
std::string print(const Scalar &x);

} // namespace lz::test::calls
