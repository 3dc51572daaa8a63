// What a new process loads.
#include <lazuli/lazuli.h>

#include "tests/support/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

namespace {

bool has_opened_llvm() {
    std::ifstream maps("/proc/self/maps");
    const std::string text{std::istreambuf_iterator<char>(maps), {}};
    return text.find("liblazuli-llvm") != std::string::npos || text.find("libLLVM") != std::string::npos;
}

/// Ends with 0 where the sum is right and LLVM is as expected.
[[noreturn]] void compute(bool opens_llvm) {
    const lz::Tensor x = lz::arange(100, lz::f32);
    const float sum = (lz::exp(x * 0.01) + 1).sum().item<float>();
    const bool right = sum > 270.9F && sum < 271.1F; // 100 + (e - 1) / (e^0.01 - 1)
    std::exit(!right ? 3 : has_opened_llvm() == opens_llvm ? 0 : 4);
}

/// A new folder, and in a child of this process the same one.
std::string cache_folder() {
    constexpr const char *kName = "LAZULI_COLD_START_CACHE";
    if (const char *const made = std::getenv(kName))
        return made;
    std::string folder = (std::filesystem::temp_directory_path() / "lazuli-cold-start-XXXXXX").string();
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    ::setenv(kName, folder.c_str(), 1);
    return folder;
}

TEST(ColdStartDeathTest, AProcessWhoseKernelsAreOnDiskOpensNoLlvm) {
    LZ_NEEDS_JIT();
    if (std::getenv("LAZULI_TEST_DEVICE") || std::getenv("LAZULI_CODEGEN"))
        GTEST_SKIP() << "what is asked of every test opens the engine before this one can";
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // each child is a process from the start
    const std::string cache = cache_folder();
    const char *const set = std::getenv("LAZULI_CACHE_DIR");
    const std::optional<std::string> before = set ? std::optional<std::string>(set) : std::nullopt;
    ::setenv("LAZULI_CACHE_DIR", cache.c_str(),
             1); // for the children: tensors before main open their engines
    EXPECT_EXIT(compute(true), testing::ExitedWithCode(0), "") << "with nothing on disk";
    EXPECT_EXIT(compute(false), testing::ExitedWithCode(0), "") << "with all on disk";
    before ? ::setenv("LAZULI_CACHE_DIR", before->c_str(), 1) : ::unsetenv("LAZULI_CACHE_DIR");
    std::error_code ignored;
    std::filesystem::remove_all(cache, ignored);
}

} // namespace
