// Builds without the JIT: tests of what LLVM makes are skipped aloud.
#include <gtest/gtest.h>

#if !LAZULI_CPU_JIT

#include <string_view>

namespace {

class NeedsJit : public testing::EmptyTestEventListener {
    void OnTestStart(const testing::TestInfo &test) override {
        const std::string_view suite = test.test_suite_name();
        if (suite.starts_with("Emitter") || suite == "Loader" || suite == "Object" || suite == "Compile")
            GTEST_SKIP() << "It needs LLVM, and this build has none (LAZULI_CPU_JIT=OFF).";
    }
};

const bool added = [] {
    testing::UnitTest::GetInstance()->listeners().Append(new NeedsJit);
    return true;
}();

} // namespace

#endif
