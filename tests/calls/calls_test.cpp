// Random programs as users write them: calls of the public API on handles, beside a second implementation in
// plain loops (oracle.cpp and the rows). What is compared: values to the bit where they are exact, dtypes,
// shapes, devices, the type and line of errors, aliases, memory, and that a program comes to its end.
//
// What it finds again when one mend alone is taken out, from seed 1 (the seed is the number of programs until
// then; more rows in the table of calls shift it). A dash: not in 1500 programs; CI runs 500 on the GPUs.
//
//   defect                                                                  CPU   GPUs
//   one result of several is claimed without the others                      24     44
//   addcmul multiplies before it promotes                                    39    140
//   add with alpha has another dtype than PyTorch's                         154    305
//   a number beside f16 and bf16 is first rounded to that dtype               -    431
//   a folded chain of copies keeps a stream that its device has not           -     45
//   what the compiler removes does not count for its stream                   -      6
//   the caller's rounding and FTZ are those of kernels on its thread        560    328
//   a load leaves a loop of no elements                                       8    119
//   a stream that is done is counted with the next one's priority (hangs)     -    166
//   streams in a loop that evaluates nothing die at the 65th                  -     39
//   the check of an integer division counts outside its mask                 55     66
//   one_hot makes a row of zeros of a class that is not there                12     29
//   peer access in one direction allows the other                             -     43
//
// Each is measured with the calls as they were then: the last five since divisions in pads, one_hot and
// turns() are among them, the others before.
//
// LAZULI_FUZZ_PROGRAMS=n  how many (0: without end)
// LAZULI_FUZZ_SEED=s      the first seed (1)
// LAZULI_FUZZ_APART=1     each program in a process of its own: those that crash or hang are shrunk, too
// LAZULI_FUZZ_SECONDS=t   how long one program may take
// LAZULI_FUZZ_DIGESTS=f   writes to this file what the bits of each program's values are
#include "generate.h"

#include "tests/support/environment.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace {

using namespace lz::test;
using namespace lz::test::calls;

/// Before anything uses the engine.
[[maybe_unused]] const bool has_devices = [] {
    ::setenv("LAZULI_VIRTUAL_GPUS", "4", 0);
    ::setenv("LAZULI_VIRTUAL_DELAY", "1", 0);
    ::setenv("LAZULI_VIRTUAL_MEMORY", "20M", 0);
    ::setenv("LAZULI_VERIFY", "1", 0);
    return true;
}();

#if LAZULI_SANITIZE_ADDRESS || LAZULI_SANITIZE_THREAD
constexpr int64_t kPrograms = 150;
#else
constexpr int64_t kPrograms = 1500;
#endif
/// In each further mode, of either kind.
constexpr int64_t kInModes = kPrograms / 10;
constexpr int kGpus = 4;

void expect_right(const GenerateOptions &options, int64_t programs, uint64_t first) {
    const bool apart = number_from("LAZULI_FUZZ_APART", 0) != 0;
    std::ofstream digests;
    if (const char *const path = std::getenv("LAZULI_FUZZ_DIGESTS"))
        digests.open(path);
    int failures = 0;
    for (uint64_t seed = first; programs == 0 || seed < first + static_cast<uint64_t>(programs); ++seed) {
        const Program program = generate(seed, options);
        Seen seen;
        const std::string what = apart ? run_apart(program) : run_and_see(program, seen);
        if (digests.is_open())
            digests << seed << ' ' << seen.bits << '\n';
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

/// Copies, streams of the user's, guards, events, callbacks and peers as well.
TEST(Calls, RandomProgramsOnFourGpusDoWhatPlainLoopsDo) {
    if (!lz::cuda::is_available())
        GTEST_SKIP() << "Virtual GPUs need the CPU's JIT, and this build has none. "
                     << lz::cuda::availability();
    GenerateOptions options;
    options.gpus = std::min(kGpus, lz::cuda::device_count());
    const int64_t programs = number_from("LAZULI_FUZZ_PROGRAMS", (kPrograms + 2) / 3);
    expect_right(options, programs, static_cast<uint64_t>(number_from("LAZULI_FUZZ_SEED", 1)));
}

// --- modes that are settled once in a process: each has one of its own

/// The test in a process with this variable: what it says if it fails, and the digests of its programs.
struct Other {
    bool passed = false;
    std::string output, digests;
};
Other in_process_with(const std::string &variable, const std::string &test) {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / fmt::format("lazuli-calls-{}", ::getpid());
    std::filesystem::create_directory(folder);
    const std::string output = folder / "output", digests = folder / "digests";
    const std::string command = fmt::format(
        "env {} LAZULI_FUZZ_PROGRAMS={} LAZULI_FUZZ_DIGESTS='{}' '{}' "
        "--gtest_filter='{}' >'{}' 2>&1",
        variable, kInModes, digests, std::filesystem::read_symlink("/proc/self/exe").string(), test, output);
    Other out;
    out.passed = std::system(command.c_str()) == 0; // NOLINT: of nothing but its own
    const auto text = [](const std::string &path) {
        std::ifstream file(path);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    out.output = text(output);
    out.digests = text(digests);
    std::filesystem::remove_all(folder);
    return out;
}

void expect_same_bits(const std::string &test) {
    const Other plain = in_process_with("LAZULI_FUSE=1", test);
    ASSERT_TRUE(plain.passed) << plain.output;
    ASSERT_EQ(std::ranges::count(plain.digests, '\n'), kInModes);
    for (const char *const mode : {"LAZULI_FUSE=0", "LAZULI_LAUNCH_BLOCKING=1"}) {
        const Other other = in_process_with(mode, test);
        EXPECT_TRUE(other.passed) << mode << '\n' << other.output;
        EXPECT_EQ(other.digests, plain.digests) << mode << ": another program has other bits";
    }
}

TEST(Semantics, S29_random_programs_have_the_same_bits_however_they_are_cut) {
    expect_same_bits("Calls.RandomProgramsDoWhatPlainLoopsDo");
}

TEST(Semantics, S29_random_programs_on_gpus_have_the_same_bits_however_they_are_cut) {
    if (!lz::cuda::is_available())
        GTEST_SKIP() << "Virtual GPUs need the CPU's JIT, and this build has none.";
    expect_same_bits("Calls.RandomProgramsOnFourGpusDoWhatPlainLoopsDo");
}

TEST(Calls, OperandsAreBroughtTogetherWhereTheProgramAsksForIt) {
    if (!lz::cuda::is_available())
        GTEST_SKIP() << "Virtual GPUs need the CPU's JIT, and this build has none.";
    for (const char *const test : {"Calls.RandomProgramsOnFourGpusDoWhatPlainLoopsDo", "Calls.EveryRow*"}) {
        const Other other = in_process_with("LAZULI_TRANSFER=automatic", test);
        EXPECT_TRUE(other.passed) << other.output;
    }
}

} // namespace
