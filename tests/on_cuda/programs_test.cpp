// Program files of CUDA devices: saved here, where NVRTC is, and run by a process that has liblazuli-run.so,
// the driver and no NVRTC. The environment is faults_test.cpp's.
#include "tests/support/caught.h"
#include "tests/support/cuda/nvrtc.h"
#include "tests/support/run_file.h"

#include "ir/saved/saved_program.h"

#include <lazuli/lazuli.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace {

using namespace lz;
using namespace lz::test;
using testing::HasSubstr;

const Device kFirst = Device::cuda(0), kSecond = Device::cuda(1);

class OnCudaPrograms : public testing::Test {
protected:
    void SetUp() override {
        if (!why_no_nvrtc().empty())
            GTEST_SKIP() << why_no_nvrtc();
        ASSERT_TRUE(cuda::is_available());
        manual_seed(7);
    }
    const TestFolder folder_;
    const std::string file_ = folder_ / "f.lzp";
};

using Tensors = std::vector<Tensor>;

/// A file of `x * 3 + 1` on cuda:0 and cuda:1.
void save_on_two(const std::string &file) {
    const auto f = compile([](const Tensor &x) { return (x * 3).to(kSecond) + 1; });
    for (int call = 0; call < 3; ++call)
        f(ones({5}, {.device = kFirst}));
    save_program(file, f, {.name = "two"});
}

/// Writes the file again with something else in it.
template <class F>
void change(const std::string &file, F &&f) {
    const std::string bytes = read_bytes(file);
    ir::SavedProgram saved = ir::read_saved(std::as_bytes(std::span(bytes)));
    f(saved);
    const std::vector<std::byte> changed = ir::write_saved(saved);
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(reinterpret_cast<const char *>(changed.data()), static_cast<std::streamsize>(changed.size()));
}

TEST_F(OnCudaPrograms, AProductRowsSumsAndRandomNumbers) {
    const Tensor w = randn({12, 20}, {.device = kFirst}), b = randn({20}, {.device = kFirst});
    expect_same_from_file(file_,
                          [&](const Tensors &in) {
                              const Tensor h = gelu(matmul(in[0], w) + b);
                              return Tensors{softmax(h, -1), h.sum(), h.cpu() * 2,
                                             in[0] + rand({9, 12}, {.device = kFirst}), in[0].argmax(1)};
                          },
                          {randn({9, 12}, {.device = kFirst})});
    const std::string bytes = read_bytes(file_);
    const std::string text = ir::describe(ir::read_saved(std::as_bytes(std::span(bytes))));
    EXPECT_THAT(text, HasSubstr("cuda:0: a CUDA device, saved on "));
    EXPECT_THAT(text, HasSubstr("PTX of compute capability "));
    EXPECT_THAT(text, HasSubstr("kernel of the library, products of f32"));
    EXPECT_THAT(text, HasSubstr(", NVRTC "));
}

TEST_F(OnCudaPrograms, SeveralDevicesWithCopiesBetween) {
    const auto f = [](const Tensors &in) {
        const Tensor there = tanh(in[0]).to(kSecond) * in[1];
        const Tensor back = there.to(kFirst) + in[0];
        return Tensors{there, back, back.cpu() - in[2], there.sum(0)};
    };
    const Tensors inputs{randn({33, 40}, {.device = kFirst}), randn({33, 40}, {.device = kSecond}),
                         randn({33, 40})};
    expect_same_from_file(file_, f, inputs);
    cuda::enable_peer_access(kFirst, kSecond);
    expect_same_from_file(folder_ / "peers.lzp", f, inputs);
    cuda::disable_peer_access(kFirst, kSecond);
    EXPECT_EQ(elements_of(load_program(file_)(inputs)), elements_of(f(inputs)));
    EXPECT_THAT(run_file(folder_ / "peers.lzp", inputs, "", "LAZULI_FAKE_CUDA_PEERS=0").error,
                HasSubstr("was saved where cuda:0 had access to the memory of cuda:1, and has none here"));
}

TEST_F(OnCudaPrograms, NumbersAndScalarsOfTheHostAreArguments) {
    const auto f = compile([](const Tensor &x, const Tensor &scale, double add) { return x * scale + add; });
    const Tensor x = randn({50}, {.device = kFirst});
    for (int call = 1; call < 5; ++call)
        f(x, full({}, call * 0.5), 0.25 * call);
    save_program(file_, f);
    const Tensor scale = full({}, 3.0);
    const std::string expected = elements_of({x * scale + -1.5});
    EXPECT_EQ(run_file(file_, {x, scale}, "-1.5").elements, expected);
    EXPECT_EQ(elements_of(load_program(file_)({x, scale}, {-1.5})), expected);
    EXPECT_THAT(run_file(file_, {x, scale}, "1 2").error,
                HasSubstr("Error: compiled function: it takes 1 numbers"));
}

TEST_F(OnCudaPrograms, KernelsOfTheLibraryComeFromTheFile) {
    expect_same_from_file(
        file_,
        [](const Tensors &in) {
            const auto [sorted, order] = in[0].sort(1);
            const auto [most, where] = in[0].topk(3, 1);
            return Tensors{sorted, order, most, where, in[0].cumsum(1), in[0].scatter_add(1, in[1], in[0])};
        },
        {randn({4, 70}, {.device = kFirst}), (arange(280).reshape({4, 70}) * 7 % 70).to(kFirst)});
}

TEST_F(OnCudaPrograms, AnIndexOutOfRangeNamesTheLineOfTheFunction) {
    expect_index_error_from_file(file_, kFirst);
}

TEST_F(OnCudaPrograms, ACopyIsUpdatedInPlace) {
    expect_same_from_file(file_,
                          [](const Tensors &in) {
                              Tensor y = in[0].clone();
                              y.at({0}) += 2;
                              y *= in[1];
                              return Tensors{y, in[0]};
                          },
                          {randn({8, 5}, {.device = kFirst}), randn({8, 5}, {.device = kFirst})});
    Tensor state = zeros({4}, {.device = kFirst});
    const auto changes = compile([&](const Tensor &x) { return state += x, state * 2; });
    for (int call = 0; call < 3; ++call)
        changes(ones({4}, {.device = kFirst}));
    const Caught error = caught<StateError>([&] { save_program(folder_ / "g.lzp", changes); });
    EXPECT_TRUE(error.has("changes a tensor that it captures")) << error.what;
}

TEST_F(OnCudaPrograms, OtherExtentsAndDevicesAreRefused) {
    save_on_two(file_);
    EXPECT_THAT(run_file(file_, {ones({5})}, "--cut").error,
                HasSubstr("ShapeError: two: its input `input0` is f32[4], and has to be f32[5]"));
    EXPECT_THAT(run_file(file_, {ones({5})}, "--null").error,
                HasSubstr("Error: two: its input `input0` is at a null pointer"));
    const Program program = load_program(file_);
    EXPECT_EQ(program.inputs()[0].device, "cuda:0");
    EXPECT_EQ(program.outputs()[0].device, "cuda:1");
    const Caught shape = caught<ShapeError>([&] { program({ones({4}, {.device = kFirst})}); });
    EXPECT_TRUE(shape.has("is f32[4] @cuda:0, and has to be f32[5] on cuda:0")) << shape.what;
    const Caught device = caught<DeviceError>([&] { program({ones({5})}); });
    EXPECT_TRUE(device.has("is f32[5] @cpu, and has to be f32[5] on cuda:0")) << device.what;
}

/// Other machines than that which saved it.
TEST_F(OnCudaPrograms, DevicesThatAreNotThereOrAreOthersAreErrors) {
    save_on_two(file_);
    const Tensors x{ones({5})};
    EXPECT_EQ(run_file(file_, x).elements, elements_of({x[0] * 3 + 1}));
    const auto error = [&](const std::string &environment) {
        return run_file(file_, x, "", environment).error;
    };
    EXPECT_THAT(error("LAZULI_FAKE_CUDA_DEVICES=1"),
                HasSubstr("DeviceError: load_program: \"" + file_ +
                          "\" was saved for cuda:1, a CUDA device, and there is none: the devices are cpu "
                          "and cuda:0"));
    EXPECT_THAT(error("LAZULI_CUDA_DRIVER=/nonexistent"),
                HasSubstr("was saved for cuda:0, a CUDA device, and there is none: the only device is cpu. "
                          "LAZULI_CUDA_DRIVER is set"));
    EXPECT_THAT(error("LAZULI_FAKE_CUDA_CAPABILITY=8.0"),
                testing::AllOf(testing::StartsWith("DeviceError: "),
                               HasSubstr("has code for compute capability"), HasSubstr(" has 8.0")));
    EXPECT_THAT(error("LAZULI_VIRTUAL_GPUS=2"),
                HasSubstr("was saved for CUDA devices, and cuda:0 (Lazuli virtual GPU 0) is a virtual GPU"));
    change(file_, [](ir::SavedProgram &saved) {
        for (ir::SavedDevice &device : saved.devices) {
            device.is_virtual = true;
            device.sm = 0;
        }
    });
    EXPECT_THAT(run_file(file_, x).error,
                testing::AllOf(HasSubstr("was saved for virtual GPUs, and cuda:0 ("),
                               HasSubstr(") is a CUDA device")));
}

/// Of liblazuli.so GPUs need NVRTC: it says what does without.
TEST_F(OnCudaPrograms, TensorsNeedNvrtc) {
    save_on_two(file_);
    const std::string command =
        "env LAZULI_TEST_PROGRAM=" + file_ + " LAZULI_NVRTC=/nonexistent/libnvrtc.so " +
        std::filesystem::read_symlink("/proc/self/exe").string() +
        " --gtest_also_run_disabled_tests --gtest_filter=OnCudaChild.* > " + (folder_ / "out") + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read_bytes(folder_ / "out");
}
TEST(OnCudaChild, DISABLED_LoadsWithoutNvrtc) {
    const Caught error = caught<DeviceError>([] { load_program(::getenv("LAZULI_TEST_PROGRAM")); });
    EXPECT_TRUE(error.has("and there is none: the only device is cpu. LAZULI_NVRTC is set: ") &&
                error.has("liblazuli-run.so runs program files without NVRTC"))
        << error.what;
}

/// The file's code is made as the function's was.
TEST_F(OnCudaPrograms, FastMathIsThatOfTheFunction) {
    const std::string command = "env LAZULI_FAST_MATH=1 LAZULI_TEST_PROGRAM=" + file_ + " " +
                                std::filesystem::read_symlink("/proc/self/exe").string() +
                                " --gtest_also_run_disabled_tests --gtest_filter=OnCudaFastMathChild.* > " +
                                (folder_ / "out") + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read_bytes(folder_ / "out");
}
TEST(OnCudaFastMathChild, DISABLED_SavesAndLoads) {
    const std::string file = ::getenv("LAZULI_TEST_PROGRAM");
    manual_seed(7);
    const Tensor x = randn({500}), y = randn({500}), z = randn({500});
    const std::vector<float> a = x.to_vector<float>(), b = y.to_vector<float>(), c = z.to_vector<float>();
    std::vector<float> contracted;
    for (size_t i = 0; i < a.size(); ++i)
        contracted.push_back(std::fma(a[i], b[i], c[i]));
    const Tensors on_gpu{x.to(kFirst), y.to(kFirst), z.to(kFirst)};
    const auto f = compile([](const Tensors &in) { return in[0] * in[1] + in[2]; });
    for (int call = 0; call < 3; ++call)
        EXPECT_EQ(f(on_gpu).cpu().to_vector<float>(), contracted);
    save_program(file, f);
    EXPECT_EQ(load_program(file)(on_gpu)[0].cpu().to_vector<float>(), contracted);
}

TEST_F(OnCudaPrograms, WithoutCublasltProductsOfAFileAreAnError) {
    const Tensor w = randn({6, 7}, {.device = kFirst});
    const auto f = [&](const Tensors &in) { return Tensors{matmul(in[0], w)}; };
    const Tensors inputs{randn({5, 6}, {.device = kFirst})};
    expect_same_from_file(file_, f, inputs);
    EXPECT_THAT(run_file(file_, inputs, "", "LAZULI_CUBLASLT=/nonexistent").error,
                testing::AllOf(HasSubstr("DeviceError: "), HasSubstr("makes products on cuda:0"),
                               HasSubstr("LAZULI_CUBLASLT is set")));
}

/// A problem for which cuBLASLt has no algorithm: the kernel for it is the file's.
TEST_F(OnCudaPrograms, AProductThatCublasltRefusesIsMadeByTheFilesKernel) {
    const Tensor w = arange(42).reshape({6, 7}).to(f32).to(kFirst);
    const auto f = compile([&](const Tensor &x) { return matmul(x, w); });
    const Tensor x = arange(30).reshape({5, 6}).to(f32).to(kFirst);
    for (int call = 0; call < 3; ++call)
        f(x);
    save_program(file_, f);
    const std::string fail = "LAZULI_FAKE_CUDA_FAIL=cublasLtMatmulAlgoGetHeuristic:1:15";
    EXPECT_EQ(run_file(file_, {x}, "", fail).elements, elements_of({matmul(x, w)}));
    change(file_, [](ir::SavedProgram &saved) { saved.library.clear(); });
    EXPECT_THAT(run_file(file_, {x}).error,
                HasSubstr("has no code of the library's kernel `products of f32` for cuda:0"));
}

/// What a device of another model would not have.
TEST_F(OnCudaPrograms, AKernelThatTakesMoreThanTheDeviceHasIsAnError) {
    save_on_two(file_);
    change(file_, [](ir::SavedProgram &saved) {
        for (ir::SavedCode &code : saved.code)
            for (ir::CompiledPhase &phase : code.phases)
                phase.shared_bytes = 300 << 10;
    });
    EXPECT_THAT(
        run_file(file_, {ones({5})}).error,
        testing::AllOf(testing::StartsWith("DeviceError: "), HasSubstr("was saved on "),
                       HasSubstr("a kernel takes 307200 bytes of a block's shared memory, and cuda:")));
    change(file_, [](ir::SavedProgram &saved) {
        for (ir::SavedCode &code : saved.code)
            for (ir::CompiledPhase &phase : code.phases)
                phase.parameters.at(0).index = 99;
    });
    EXPECT_THAT(run_file(file_, {ones({5})}).error, HasSubstr("IoError: "));
}

/// Each byte of the frame, and one in so many of the rest.
TEST_F(OnCudaPrograms, ADamagedFileIsAnError) {
    save_on_two(file_);
    const std::string bytes = read_bytes(file_), damaged = folder_ / "damaged.lzp";
    for (size_t at = 8; at < bytes.size(); at += at < 400 ? 1 : 1 + bytes.size() / 150) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(changed[at] ^ 0x10);
        std::ofstream(damaged, std::ios::binary | std::ios::trunc) << changed;
        ::chmod(damaged.c_str(), 0644);
        caught<IoError>([&] { load_program(damaged); });
    }
    std::string older = bytes;
    older[8] = 6;
    std::ofstream(damaged, std::ios::binary | std::ios::trunc) << older;
    const Caught error = caught<IoError>([&] { load_program(damaged); });
    EXPECT_TRUE(
        error.has("is a program file of version 6, and this library reads version 8: save the program again"))
        << error.what;
}

} // namespace
