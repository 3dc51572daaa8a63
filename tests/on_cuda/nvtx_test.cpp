// Ranges that a tool hears which listens to NVTX, as Nsight Systems does. The environment is
// faults_test.cpp's.
#include "tests/support/cuda/nvrtc.h"

#include <lazuli/lazuli.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <sstream>
#include <string>
#include <vector>

namespace {

using namespace lz;
using testing::Contains;
using testing::HasSubstr;

/// Before anything makes a range.
const bool prepared = ::setenv("NVTX_INJECTION64_PATH", LAZULI_NVTX_LISTENER, 1) == 0;

/// Ranges since the last call.
std::vector<std::string> heard() {
    static void *const library = ::dlopen(LAZULI_NVTX_LISTENER, RTLD_NOW | RTLD_LOCAL);
    const auto take = reinterpret_cast<const char *(*)()>(::dlsym(library, "lazuli_nvtx_heard"));
    std::istringstream text(take());
    std::vector<std::string> lines;
    for (std::string line; std::getline(text, line);)
        if (line != "domain Lazuli") // once, before the first range
            lines.push_back(line);
    return lines;
}

/// Those that a range has within it, or nothing when there is no such range; ranges end in the order of a
/// stack.
std::vector<std::string> within(const std::vector<std::string> &lines, const std::string &range) {
    std::vector<std::string> inner, open;
    for (const std::string &line : lines) {
        if (line == "pop") {
            EXPECT_FALSE(open.empty());
            if (!open.empty())
                open.pop_back();
        } else if (line.starts_with("push ")) {
            if (!open.empty() && open[0] == range)
                inner.push_back(line.substr(5));
            open.push_back(line.substr(5));
        }
    }
    EXPECT_TRUE(open.empty()) << open.back() << " has no end";
    return inner;
}

TEST(Nvtx, APartOfTheProgramHasItsKernelsWithinIt) {
    ASSERT_TRUE(prepared);
    if (!test::why_no_nvrtc().empty())
        GTEST_SKIP() << test::why_no_nvrtc();
    const Tensor x = arange(12).to(f32).cuda();
    x.eval();
    heard();
    {
        const ProfileRange range("epoch 3");
        (exp(x) + 1).eval();
    }
    const std::vector<std::string> inner = within(heard(), "epoch 3");
    EXPECT_THAT(inner, Contains(HasSubstr("exp")));
    EXPECT_THAT(inner, Contains(HasSubstr("compile")));
    cuda::synchronize();
}

TEST(Nvtx, ExceptionsEndRanges) {
    heard();
    try {
        const ProfileRange outer("outer"), inner("inner");
        throw 1;
    } catch (int) {
    }
    EXPECT_EQ(heard(), (std::vector<std::string>{"push outer", "push inner", "pop", "pop"}));
}

} // namespace
