#pragma once
/// What tests of the caches share.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <unistd.h>

namespace lz::test {

/// A directory of the test's own, gone with it. It is not made yet.
class CacheDirectory : public testing::Test {
protected:
    CacheDirectory()
        : directory_(std::filesystem::temp_directory_path() /
                     ("lazuli-cache-" + std::to_string(::getpid()) + "-" +
                      testing::UnitTest::GetInstance()->current_test_info()->name())) {
        std::filesystem::remove_all(directory_);
    }
    ~CacheDirectory() override { std::filesystem::remove_all(directory_); }

    std::filesystem::path directory_;
};

} // namespace lz::test
