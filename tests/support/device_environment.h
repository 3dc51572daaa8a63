#pragma once
/// LAZULI_TEST_DEVICE=cuda:0: the tests of a binary make their tensors there (ctest runs some both ways).
/// With LAZULI_TEST_CUDA=1 that is a CUDA device, and where there is none all tests are skipped, which says
/// why. Include in one file of a binary.

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

class OnDevice : public testing::Environment {
public:
    void SetUp() override {
        if (std::getenv("LAZULI_TEST_CUDA") && !lz::cuda::is_available())
            GTEST_SKIP() << lz::cuda::availability();
        if (const char *const device = std::getenv("LAZULI_TEST_DEVICE"))
            lz::set_default_device(device);
    }
};

const testing::Environment *const on_device = testing::AddGlobalTestEnvironment(new OnDevice);

} // namespace
