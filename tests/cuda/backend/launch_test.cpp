// What a launch becomes: the size of its grid, and code that a device does not take.

#include "backend/gpus.h"

#include "codegen/cuda/compiler.h"
#include "runtime/cuda/launch.h"
#include "tests/support/failure_of.h"

#include <gmock/gmock.h>

#include <cstring>

namespace lz::test {
namespace {

using testing::HasSubstr;

class CudaGrids : public CudaGpus {
protected:
    void SetUp() override {
        LZ_NEEDS_NVRTC();
        make();
    }
};

/// A grid has at most 2^31 - 1 blocks along x; a block takes items in turns.
TEST_F(CudaGrids, HaveABlockAnItemAsFarAsThereAreThatMany) {
    ir::CompiledPhase phase{"phase0"};
    phase.parameters = {{.kind = ir::LaunchParameter::Items}};
    phase.threads = 32;
    const auto module = load("extern \"C\" __global__ void phase0(long long items) {}", phase);
    const auto &entry = *static_cast<const runtime::cuda::Entry *>(module->entry("phase0"));
    const runtime::cuda::CudaDevice device(driver_table(), 0, 0);
    const runtime::cuda::Current current(driver_table(), device.context());
    const ir::KernelFrame frame{};
    const auto blocks = [&](int64_t items) {
        runtime::cuda::DriverLaunch launch(device, entry, {&frame, 1}, &items, 0);
        if (launch.empty())
            return 0u;
        const CUDA_KERNEL_NODE_PARAMS node = launch.node();
        EXPECT_EQ(*static_cast<const int64_t *>(node.kernelParams[0]), items) << "the kernel knows of all";
        EXPECT_EQ(node.gridDimY * node.gridDimZ, 1u);
        return node.gridDimX;
    };
    constexpr int64_t kMost = (int64_t{1} << 31) - 1;
    EXPECT_EQ(blocks(0), 0u);
    EXPECT_EQ(blocks(1), 1u);
    EXPECT_EQ(blocks(kMost - 1), kMost - 1);
    for (const int64_t items : {kMost, kMost + 1, kMost + 6, int64_t{1} << 40})
        EXPECT_EQ(blocks(items), kMost) << items;
}

/// Whole, cut off, and with a bit that is another one.
TEST_F(CudaGrids, MachineCodeThatIsDamagedOrOfAnotherDeviceIsACompileError) {
    const auto compiler = codegen::make_cuda_compiler(codegen::load_nvrtc(nvrtc_library()), 90);
    const ir::CompiledKernel whole = compiler->compile_source(
        {.name = "softmax",
         .text = "extern \"C\" __global__ void phase0(float *x) { x[threadIdx.x] = 1; }",
         .entries = {"phase0"}});
    ASSERT_EQ(whole.format, ir::CodeFormat::Cubin);
    const auto refused = [&](const ir::CompiledKernel &kernel) {
        const ir::Failure failure = failure_of([&] { gpu().load(kernel); });
        EXPECT_EQ(failure.kind(), ir::ErrorKind::Compile);
        EXPECT_THAT(failure.message(), HasSubstr("cuda:0 cannot load the code of kernel softmax: "));
        return failure.message();
    };
    EXPECT_THAT(refused(whole), HasSubstr("CUDA_ERROR_NO_BINARY_FOR_GPU"));
    ir::CompiledKernel cut = whole;
    cut.object.resize(12);
    EXPECT_THAT(refused(cut), HasSubstr("CUDA_ERROR_INVALID_IMAGE"));
    ir::CompiledKernel flipped = whole;
    flipped.object[4] ^= std::byte{3}; // of 64 bits
    EXPECT_THAT(refused(flipped), HasSubstr("CUDA_ERROR_INVALID_IMAGE"));
    // The device is as it was.
    auto *const x = allocate<float>(4);
    write(x, {1, 2, 3, 4});
    EXPECT_EQ(read(x, 4), (std::vector<float>{1, 2, 3, 4}));
}

} // namespace
} // namespace lz::test
