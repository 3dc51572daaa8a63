// What a new process loads.
#include <lazuli/lazuli.h>

#include "codegen/host.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <sys/wait.h>

namespace {

bool has_opened_llvm() {
    std::ifstream maps("/proc/self/maps");
    const std::string text{std::istreambuf_iterator<char>(maps), {}};
    return text.find("liblazuli-llvm") != std::string::npos || text.find("libLLVM") != std::string::npos;
}

bool computes_right() {
    const lz::Tensor x = lz::arange(100, lz::f32);
    const float sum = (lz::exp(x * 0.01) + 1).sum().item<float>();
    return sum > 270.9F && sum < 271.1F; // 100 + (e - 1) / (e^0.01 - 1)
}
/// Ends with 0 where the sum is right and LLVM is as expected.
[[noreturn]] void compute(bool opens_llvm) {
    std::exit(!computes_right() ? 3 : has_opened_llvm() == opens_llvm ? 0 : 4);
}
/// Ends with 0 where the sum is right and no kernel had to be made.
[[noreturn]] void compute_from_disk() {
    const bool right = computes_right();
    std::exit(!right ? 3 : lz::compile_stats().kernels_compiled == 0 ? 0 : 4);
}

/// A variable of the environment for a scope, and for children.
class Variable {
public:
    Variable(const char *name, const std::string &value) : name_(name) {
        if (const char *const set = std::getenv(name))
            before_ = set;
        ::setenv(name, value.c_str(), 1);
    }
    ~Variable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
    Variable(const Variable &) = delete;
    Variable &operator=(const Variable &) = delete;

private:
    const char *const name_;
    std::optional<std::string> before_;
};

/// A new folder, and in a child of this process the same one. It is the cache: tensors before main open their
/// engines.
class ColdStartDeathTest : public testing::Test {
protected:
    void SetUp() override {
        if (!lz::codegen::cpu_jit_available() || std::getenv("LAZULI_TEST_DEVICE") ||
            std::getenv("LAZULI_CODEGEN"))
            GTEST_SKIP() << "it needs the JIT, and the engine must not be opened before this test can: what "
                            "is asked of every test does";
        GTEST_FLAG_SET(death_test_style, "threadsafe"); // each child is a process from the start
        constexpr const char *kName = "LAZULI_COLD_START_CACHE";
        if (const char *const made = std::getenv(kName)) {
            folder_ = made;
        } else {
            folder_ = (std::filesystem::temp_directory_path() / "lazuli-cold-start-XXXXXX").string();
            ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
            name_.emplace(kName, folder_);
        }
        cache_.emplace("LAZULI_CACHE_DIR", folder_);
    }
    void TearDown() override {
        std::error_code ignored;
        if (!folder_.empty())
            std::filesystem::remove_all(folder_, ignored);
    }

private:
    std::string folder_;
    std::optional<Variable> name_, cache_;
};

TEST_F(ColdStartDeathTest, AProcessWhoseKernelsAreOnDiskOpensNoLlvm) {
    const Variable quick("LAZULI_QUICK", "0");
    EXPECT_EXIT(compute(true), testing::ExitedWithCode(0), "") << "with nothing on disk";
    EXPECT_EXIT(compute(false), testing::ExitedWithCode(0), "") << "with all on disk";
}

/// A process that has its result before LLVM is ready does not keep the next ones from finding its kernels.
TEST_F(ColdStartDeathTest, ShortProcessesLeaveTheirKernels) {
    const Variable quick("LAZULI_QUICK", "1");
    constexpr int kMost = 10; // there are fewer kernels, and each process leaves one
    int turn = 0;
    for (; turn < kMost; ++turn) {
        int ended = -1;
        EXPECT_EXIT(
            compute_from_disk(),
            [&](int status) {
                ended = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
                return ended == 0 || ended == 4;
            },
            "");
        if (ended == 0) // -1: it is another turn's child, which has not come to its turn
            break;
    }
    EXPECT_LT(turn, kMost);
}

} // namespace
