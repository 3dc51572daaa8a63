// Random programs as users write them: calls of the public API on handles, beside a second implementation in
// plain loops (oracle.cpp and the rows). What is compared: values to the bit where they are exact, dtypes,
// shapes, devices, the type and line of errors, aliases, memory, and that a program comes to its end.
//
// LAZULI_FUZZ_PROGRAMS=n  how many (0: without end)
// LAZULI_FUZZ_SEED=s      the first seed (1)
// LAZULI_FUZZ_APART=1     each program in a process of its own: those that crash or hang are shrunk, too
// LAZULI_FUZZ_SECONDS=t   how long one program may take
#include "generate.h"

#include "tests/support/environment.h"

#include <gtest/gtest.h>

namespace {

using namespace lz::test;
using namespace lz::test::calls;

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
constexpr int64_t kPrograms = 150;
#else
constexpr int64_t kPrograms = 1500;
#endif

void expect_right(const GenerateOptions &options, int64_t programs, uint64_t first) {
    const bool apart = number_from("LAZULI_FUZZ_APART", 0) != 0;
    int failures = 0;
    for (uint64_t seed = first; programs == 0 || seed < first + static_cast<uint64_t>(programs); ++seed) {
        const Program program = generate(seed, options);
        const std::string what = apart ? run_apart(program) : run(program);
        if (what.empty())
            continue;
        ADD_FAILURE() << report(program, what, apart ? run_apart : run);
        if (++failures == 5)
            break;
    }
}

TEST(Calls, RandomProgramsDoWhatPlainLoopsDo) {
    expect_right({}, number_from("LAZULI_FUZZ_PROGRAMS", kPrograms),
                 static_cast<uint64_t>(number_from("LAZULI_FUZZ_SEED", 1)));
}

} // namespace
