// What only a device has: memory that comes to an end, and errors that stay.
#include "device.h"

#include "tests/support/failure_of.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cstring>
#include <string_view>
#include <vector>

namespace lz::test {
namespace {

constexpr Device kGpu = Device::cuda(0);

/// tests/gpu/run.sh asks with this whether there is one.
TEST(GpuDevice, IsThere) {
    LZ_NEEDS_GPU();
    EXPECT_TRUE(lz::cuda::is_available()) << lz::cuda::availability();
    EXPECT_GE(lz::cuda::device_count(), 1);
}

TEST(GpuDevice, SaysThatItsMemoryIsUsedUpAndGoesOn) {
    LZ_NEEDS_GPU();
    const auto total = static_cast<int64_t>(gpu()->backend->total_memory());
    EXPECT_THROW(lz::ones({total / 2}, {.dtype = f32, .device = kGpu}).eval(), OutOfMemoryError);
    std::vector<Tensor> held;
    try {
        for (int i = 0; i < 64; ++i) {
            held.push_back(lz::full({total / 32}, i, {.dtype = u8, .device = kGpu}));
            held.back().eval();
        }
        ADD_FAILURE() << "twice as much as there is was given out";
    } catch (const OutOfMemoryError &error) {
        EXPECT_NE(std::strstr(error.what(), "device_test.cpp"), nullptr) << error.what();
    }
    ASSERT_GT(held.size(), 8U);
    held.pop_back(); // which was not made
    EXPECT_EQ(held[7].select(0, total / 32 - 1).item<int>(), 7);
    held.clear();
    lz::empty_cache(kGpu);
    EXPECT_EQ(lz::ones({1 << 20}, {.dtype = f32, .device = kGpu}).sum().item<float>(), 1 << 20);
}

/// Rows that no 32 bits count, and their last ones. (Without a GPU: tests/cuda/emitted/far_items_test.cpp.)
TEST(GpuDevice, ComputesMoreThanTwoToThe31Rows) {
    LZ_NEEDS_GPU();
    constexpr int64_t rows = (int64_t{1} << 31) + 3, part = int64_t{1} << 20;
    if (const auto total = static_cast<int64_t>(gpu()->backend->total_memory()); total < 8 * rows)
        GTEST_SKIP()
            << "A tensor of 2^31 + 3 bytes and what is computed of it need a device of 16 GiB; this has "
            << (total >> 20) << " MiB.";
    const Tensor x = lz::full({rows, 1}, 3, {.dtype = u8, .device = kGpu});
    x.at({Slice(rows - part, rows)}) = (lz::arange(part) % 100).to(u8).view({part, 1}).to(kGpu);
    x.eval();
    const Tensor y = (x * 2 + 1).eval(), most = x.amax(1).eval();
    for (const int64_t row :
         {int64_t{0}, (int64_t{1} << 31) - 1 - part, (int64_t{1} << 31) - 1, int64_t{1} << 31, rows - 1}) {
        const int value = row < rows - part ? 3 : static_cast<int>((row - (rows - part)) % 100);
        EXPECT_EQ(y.select(0, row).item<int>(), 2 * value + 1) << row;
        EXPECT_EQ(most.select(0, row).item<int>(), value) << row;
    }
    EXPECT_EQ((y == 7).sum().item<int64_t>(), rows - part + (part + 96) / 100);
}

/// Stores to the address that it gets.
constexpr std::string_view kStore = R"(.version 7.0
.target sm_80
.address_size 64
.visible .entry phase0(
	.param .u64 phase0_param_0
)
{
	.reg .b32 	%r<2>;
	.reg .b64 	%rd<3>;
	ld.param.u64 	%rd1, [phase0_param_0];
	cvta.to.global.u64 	%rd2, %rd1;
	mov.u32 	%r1, 7;
	st.global.u32 	[%rd2], %r1;
	ret;
}
)";

void store_to(void *address) {
    ir::CompiledKernel kernel;
    kernel.name = "store";
    kernel.format = ir::CodeFormat::Ptx;
    kernel.object.resize(kStore.size() + 1);
    std::memcpy(kernel.object.data(), kStore.data(), kStore.size());
    ir::CompiledPhase phase;
    phase.symbol = "phase0";
    phase.parameters = {{ir::LaunchParameter::Buffer, 8, 0, 0}};
    phase.threads = 1;
    kernel.phases = {phase};
    runtime::Backend &backend = *gpu()->backend;
    const auto module = backend.load(kernel);
    void *const buffers[] = {address};
    const ir::KernelFrame frame{buffers, nullptr, nullptr, nullptr};
    const int64_t items = 1;
    runtime::Backend::Launch launch{};
    launch.entry = module->entry("phase0");
    launch.frames = &frame;
    launch.ends = &items;
    launch.segments = launch.buffers = 1;
    backend.launch(launch, 0);
    backend.synchronize(0, backend.record(0));
}

/// In a process of its own: the device is lost to it.
TEST(GpuDeviceDeathTest, AnErrorThatStaysIsToldAndTheCpuGoesOn) {
    LZ_NEEDS_GPU();
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            const Tensor before = lz::ones({100}, {.device = kGpu});
            before.eval();
            auto *const memory = gpu()->backend->allocate(4);
            store_to(memory);
            const ir::Failure failure = failure_of([] { store_to(reinterpret_cast<void *>(0x1000)); });
            const ir::Failure again = failure_of([] { gpu()->backend->allocate(4); });
            for (const ir::Failure &f : {failure, again})
                if (f.kind() != ir::ErrorKind::Cuda || f.message().find("is lost") == std::string::npos) {
                    std::cerr << f.message() << '\n';
                    std::_Exit(1);
                }
            int told = 0;
            for (int i = 0; i < 2; ++i)
                try {
                    (void)(before + i).sum().item<float>();
                } catch (const CudaError &error) {
                    told += std::strstr(error.what(), "device_test.cpp") != nullptr;
                }
            std::_Exit(told == 2 && lz::ones({100}).sum().item<float>() == 100 ? 42 : 2);
        },
        testing::ExitedWithCode(42), "");
}

} // namespace
} // namespace lz::test
