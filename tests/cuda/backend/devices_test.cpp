// The engine's devices on the fake driver: what NVRTC has to do with whether there are GPUs.

#include "driver/driver.h"

#include "frontend/engine/devices.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lz::test {
namespace {

using testing::HasSubstr;

/// Sets variables of the environment while it lives.
class Environment {
public:
    void set(const char *name, const char *value) {
        const char *const before = std::getenv(name);
        before_.push_back({name, before ? std::optional<std::string>(before) : std::nullopt});
        setenv(name, value, 1);
    }
    ~Environment() {
        for (const auto &[name, value] : before_)
            value ? setenv(name, value->c_str(), 1) : unsetenv(name);
    }

private:
    std::vector<std::pair<const char *, std::optional<std::string>>> before_;
};

engine::Options no_virtual_gpus() {
    engine::Options options;
    options.virtual_gpus = 0;
    return options;
}

constexpr ir::Device kCpu{}, kFirst{ir::DeviceKind::Cuda, 0}, kSecond{ir::DeviceKind::Cuda, 1};

TEST(CudaDevices, GpusOfOneArchitectureShareTheirCompiler) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    driver_library();
    Environment environment;
    environment.set("LAZULI_CUDA_DRIVER", LAZULI_FAKE_CUDA);
    environment.set("LAZULI_CUBLASLT", LAZULI_FAKE_CUBLASLT);
    const engine::Devices devices(no_virtual_gpus());
    ASSERT_EQ(devices.gpus(), 2u) << devices.why_no_gpu();
    EXPECT_EQ(devices.cuda_compiler(kCpu), nullptr);
    EXPECT_NE(devices.cuda_compiler(kFirst), nullptr);
    EXPECT_EQ(devices.cuda_compiler(kFirst), devices.cuda_compiler(kSecond));
    EXPECT_EQ(devices.cuda_compiler(kFirst)->endings().text, "cu");
    EXPECT_EQ(devices.cuda_compiler(kFirst)->endings().assembly, "ptx");
}

TEST(CudaDevices, TheCpuGoesOnWhereNvrtcIsDamaged) {
    driver_library();
    Environment environment;
    environment.set("LAZULI_CUDA_DRIVER", LAZULI_FAKE_CUDA);
    environment.set("LAZULI_CUBLASLT", LAZULI_FAKE_CUBLASLT);
    environment.set("LAZULI_NVRTC", LAZULI_NVRTC_WITHOUT_COMPILER);
    const engine::Devices devices(no_virtual_gpus());
    EXPECT_EQ(devices.gpus(), 0u);
    EXPECT_EQ(devices.infos().size(), 1u);
    EXPECT_EQ(devices.cuda_compiler(kFirst), nullptr);
    EXPECT_THAT(devices.cuda_availability(), HasSubstr("has no function nvrtcGetNumSupportedArchs."));
    EXPECT_THAT(devices.why_no_gpu(), HasSubstr(devices.cuda_availability()));
    EXPECT_THAT(devices.why_no_gpu(), HasSubstr("LAZULI_VIRTUAL_GPUS=2"));
}

} // namespace
} // namespace lz::test
