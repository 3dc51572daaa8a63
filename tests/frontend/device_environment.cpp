// LAZULI_TEST_DEVICE=cuda:0: the tests of this folder make their tensors there (ctest runs them both ways).
#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

class OnDevice : public testing::Environment {
public:
    void SetUp() override {
        if (const char *const device = std::getenv("LAZULI_TEST_DEVICE"))
            lz::set_default_device(device);
    }
};

const testing::Environment *const on_device = testing::AddGlobalTestEnvironment(new OnDevice);

} // namespace
