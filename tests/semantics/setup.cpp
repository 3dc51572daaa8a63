#include "support.h"

#include "codegen/host.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace {

/// Before the engine starts, unless the environment says otherwise or wants nothing said.
const bool has_devices = [] {
    if (::getenv("LAZULI_TEST_PLAIN"))
        return false;
    ::setenv("LAZULI_VIRTUAL_GPUS", "4", 0);
    ::setenv("LAZULI_VIRTUAL_MEMORY", "256M", 0);
    ::setenv("LAZULI_VERIFY", "1", 0);
    return true;
}();

/// LAZULI_TEST_CUDA=1: the GPUs are CUDA devices; without a driver all is skipped, which says why.
class NeedsCuda : public testing::Environment {
public:
    void SetUp() override {
        if (::getenv("LAZULI_TEST_CUDA") && !lz::cuda::is_available())
            GTEST_SKIP() << lz::cuda::availability();
    }
};
const testing::Environment *const needs_cuda = testing::AddGlobalTestEnvironment(new NeedsCuda);

class NeedsDevices : public testing::Environment {
public:
    void SetUp() override {
        if (!lz::codegen::cpu_jit_available())
            GTEST_SKIP() << "Virtual GPUs need the CPU's JIT, and this build has none.";
    }
};
const testing::Environment *const needs_devices = testing::AddGlobalTestEnvironment(new NeedsDevices);

} // namespace

namespace lz::test {

const std::vector<Device> &places() {
    static const std::vector<Device> all = [] {
        std::vector<Device> devices{Device::cpu(), kGpu0};
        if (const int gpus = std::min<int>(cuda::device_count(), 4); gpus > 1)
            devices.push_back(Device::cuda(gpus - 1));
        return devices;
    }();
    return all;
}

std::string run_child(const std::string &variables, const std::string &test) {
    const std::string command = "env " + variables + " LAZULI_CACHE_DIR=off " +
                                std::filesystem::read_symlink("/proc/self/exe").string() +
                                " --gtest_also_run_disabled_tests --gtest_filter=Child.DISABLED_" + test +
                                " 2>&1";
    FILE *pipe = ::popen(command.c_str(), "r");
    std::string output;
    std::array<char, 4096> block;
    while (const size_t got = std::fread(block.data(), 1, block.size(), pipe))
        output.append(block.data(), got);
    EXPECT_EQ(::pclose(pipe), 0) << command << "\n" << output;
    EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << command << "\n" << output;
    return output;
}

} // namespace lz::test
