// The environment variables, as a process that starts with them sees them. Each test runs this program again,
// with the variables set, as a child that runs one of the DISABLED_ tests below.
#include "support.h"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <unistd.h>

namespace {

using lz::test::run_child;

TEST(Child, DISABLED_Softmax) {
    const lz::Tensor x = lz::ones({3, 5}) * 2;
    EXPECT_NEAR(lz::softmax(x, -1).sum().item<double>(), 3, 1e-5);
}

TEST(Child, DISABLED_BadIndex) {
    const lz::Tensor table = lz::arange(5);
    try {
        const lz::Tensor picked = lz::index_select(table, 0, lz::tensor({1, 9}));
        FAIL() << "launch blocking: the failing line itself throws";
    } catch (const lz::IndexError &error) {
        EXPECT_EQ(error.line(), static_cast<uint32_t>(__LINE__ - 3));
    }
}

TEST(Child, DISABLED_Threads) {
    EXPECT_EQ(lz::num_threads(), 1);
}

/// How often a compiled function is called in 640 calls that can be replayed.
TEST(Child, DISABLED_CountsRecordings) {
    int recordings = 0;
    const auto f = lz::compile([&](const lz::Tensor &x) {
        ++recordings;
        return x * 2;
    });
    const lz::Tensor x = lz::ones({3});
    for (int call = 0; call < 4; ++call)
        f(x);
    recordings = 0;
    for (int call = 0; call < 640; ++call)
        f(x);
    std::cout << "recorded " << recordings << " times\n";
}

TEST(Environment, DumpsShowEveryStage) {
    const std::string output =
        run_child("LAZULI_DUMP=graph,passes,kernel,llvm,asm,program,explain,dot", "Softmax");
    for (const char *part : {"graph @main", "after-fuse", "after-plan-memory", "kernel @", "define ",
                             "program", "became", "digraph", "ret"})
        EXPECT_NE(output.find(part), std::string::npos) << part << " is missing in\n"
                                                        << output.substr(0, 4000);
}

TEST(Environment, DumpsGoToADirectory) {
    const auto directory =
        std::filesystem::temp_directory_path() / ("lazuli-dump-" + std::to_string(::getpid()));
    run_child("LAZULI_DUMP=graph,program LAZULI_DUMP_DIR=" + directory.string(), "Softmax");
    EXPECT_TRUE(std::filesystem::exists(directory / "p0001-graph.lz"));
    EXPECT_TRUE(std::filesystem::exists(directory / "p0001-program.lz"));
    std::filesystem::remove_all(directory);
}

TEST(Environment, CodeSaysWhichLinesOfTheUsersItIs) {
    const auto directory =
        std::filesystem::temp_directory_path() / ("lazuli-dump-lines-" + std::to_string(::getpid()));
    run_child("LAZULI_DUMP=kernel,llvm,asm LAZULI_DUMP_DIR=" + directory.string(), "Softmax");
    ASSERT_FALSE(std::filesystem::is_empty(directory));
    for (const auto &entry : std::filesystem::directory_iterator(directory)) {
        std::ifstream file(entry.path());
        std::string text;
        std::getline(file, text);
        EXPECT_NE(text.find("environment_test.cpp:"), std::string::npos) << entry.path() << ": " << text;
    }
    std::filesystem::remove_all(directory);
}

TEST(Environment, FilesWithCodeAreNamedAfterWhatIsInThem) {
    const auto directory =
        std::filesystem::temp_directory_path() / ("lazuli-dump-code-" + std::to_string(::getpid()));
    run_child("LAZULI_CODEGEN=interpret LAZULI_DUMP=llvm LAZULI_DUMP_DIR=" + directory.string(), "Softmax");
    ASSERT_FALSE(std::filesystem::is_empty(directory));
    for (const auto &entry : std::filesystem::directory_iterator(directory))
        EXPECT_EQ(entry.path().extension(), ".lz") << "the interpreter's code is Kernel IR";
    std::filesystem::remove_all(directory);
}

TEST(Environment, LogsSayWhyACompileHappenedAndWhatRan) {
    const std::string output = run_child("LAZULI_LOG=compile,run,memory", "Softmax");
    EXPECT_NE(output.find("lazuli compile: program 1 (a new sequence of operations)"), std::string::npos)
        << output;
    EXPECT_NE(output.find("lazuli run: program 1: "), std::string::npos) << output;
    EXPECT_NE(output.find("lazuli memory: after program 1"), std::string::npos) << output;
}

TEST(Environment, ValuesThatMeanNothingAreNamedAndIgnored) {
    const std::string output =
        run_child("LAZULI_DUMP=grahp LAZULI_THREADS=many LAZULI_VERIFY=maybe LAZULI_QUICK=soon", "Softmax");
    EXPECT_NE(output.find("LAZULI_DUMP=grahp is ignored"), std::string::npos) << output;
    EXPECT_NE(output.find("LAZULI_THREADS=many is ignored"), std::string::npos) << output;
    EXPECT_NE(output.find("LAZULI_VERIFY=maybe is ignored"), std::string::npos) << output;
    EXPECT_NE(output.find("LAZULI_QUICK=soon is ignored: expected 0, 1 or always"), std::string::npos)
        << output;
}

TEST(Semantics, S25_launch_blocking_throws_at_the_failing_line) {
    run_child("LAZULI_LAUNCH_BLOCKING=1", "BadIndex");
    run_child("CUDA_LAUNCH_BLOCKING=1", "Softmax");
}

TEST(Semantics, S99_debug_builds_check_every_64th_replay) {
    const auto count = [](const std::string &variables) {
        const std::string output = run_child(variables, "CountsRecordings");
        const size_t at = output.find("recorded ");
        return at == std::string::npos ? -1 : std::stoi(output.substr(at + 9));
    };
#ifdef NDEBUG
    EXPECT_EQ(count("-u LAZULI_CHECK_COMPILED"), 0);
#else
    EXPECT_EQ(count("-u LAZULI_CHECK_COMPILED"), 10);
#endif
    EXPECT_EQ(count("LAZULI_CHECK_COMPILED=0"), 0);
    EXPECT_EQ(count("LAZULI_CHECK_COMPILED=64"), 10);
    EXPECT_EQ(count("LAZULI_CHECK_COMPILED=2"), 320);
}

TEST(Semantics, S67_threads_can_be_set) {
    run_child("LAZULI_THREADS=1", "Threads");
}

TEST(Environment, EverythingRunsVerifiedUnfusedAndWithoutCachingMemory) {
    run_child("LAZULI_VERIFY=1", "Softmax");
    run_child("LAZULI_FUSE=0", "Softmax");
    run_child("LAZULI_FAST_MATH=1", "Softmax");
    run_child("LAZULI_NO_MEMORY_CACHING=1", "Softmax");
    run_child("LAZULI_ALLOC_CONF=max_split_size_mb:64", "Softmax");
}

} // namespace
