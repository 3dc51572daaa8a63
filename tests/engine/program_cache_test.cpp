// What is forgotten of the Programs of many sizes.
#include "frontend/engine/program_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace {

using lz::engine::ExecutablePtr;
using lz::engine::ProgramCache;

/// Nobody looks into it.
ExecutablePtr some_program() {
    const auto memory = std::make_shared<int>();
    return ExecutablePtr(memory, reinterpret_cast<const lz::engine::Executable *>(memory.get()));
}

std::vector<uint64_t> key_of(uint64_t number, size_t words) {
    std::vector<uint64_t> key(words, 7);
    key[0] = number;
    return key;
}

void add(ProgramCache &cache, uint64_t number, size_t words) {
    cache.find_or_make(key_of(number, words), number, 0, some_program);
}

bool has(ProgramCache &cache, uint64_t number, size_t words) {
    return cache.find(key_of(number, words), number) != nullptr;
}

TEST(ProgramCache, ForgetsWhatWasNotUsedForLongest) {
    ProgramCache cache(100);
    for (uint64_t i = 0; i < 100; ++i)
        add(cache, i, 3);
    EXPECT_EQ(cache.size(), 100U);
    EXPECT_TRUE(has(cache, 0, 3));
    add(cache, 100, 3);
    EXPECT_EQ(cache.size(), 75U);
    EXPECT_TRUE(has(cache, 0, 3)) << "it was used";
    EXPECT_FALSE(has(cache, 1, 3));
    EXPECT_TRUE(has(cache, 100, 3));
}

TEST(ProgramCache, LargeProgramsAreForgottenSooner) {
    ProgramCache cache(100, 1000);
    for (uint64_t i = 0; i < 50; ++i)
        add(cache, i, 100);
    EXPECT_LE(cache.size(), 10U);
    EXPECT_TRUE(has(cache, 49, 100));
    EXPECT_FALSE(has(cache, 0, 100));
    add(cache, 1000, 5000); // more than all together may have: it stays until another one is made
    EXPECT_TRUE(has(cache, 1000, 5000));
    EXPECT_EQ(cache.size(), 1U);
    for (uint64_t i = 0; i < 100; ++i)
        add(cache, i, 1);
    EXPECT_EQ(cache.size(), 100U);
    EXPECT_FALSE(has(cache, 1000, 5000));
}

TEST(ProgramCache, WhatFailsAndWhatIsClearedCountsNoMore) {
    ProgramCache cache(100, 1000);
    for (uint64_t i = 0; i < 20; ++i)
        EXPECT_THROW(cache.find_or_make(key_of(i, 400), i, 0,
                                        []() -> ExecutablePtr { throw std::runtime_error("no"); }),
                     std::runtime_error);
    for (uint64_t round = 0; round < 3; ++round) {
        for (uint64_t i = 0; i < 10; ++i)
            add(cache, i, 100);
        EXPECT_EQ(cache.size(), 10U);
        cache.clear();
        EXPECT_EQ(cache.size(), 0U);
    }
}

} // namespace
