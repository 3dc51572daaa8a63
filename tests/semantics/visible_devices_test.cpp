// S09 to S12: which devices there are, and what links them.
#include "support.h"

#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace lz::test;
using lz::Device;
using lz::Tensor;

TEST(Child, DISABLED_TwoVisible) {
    ASSERT_EQ(lz::cuda::device_count(), 2);
    EXPECT_NE(lz::cuda::get_device_name(kGpu0).find('2'), std::string::npos)
        << lz::cuda::get_device_name(kGpu0);
    EXPECT_NE(lz::cuda::get_device_name(kGpu1).find('0'), std::string::npos)
        << lz::cuda::get_device_name(kGpu1);
    EXPECT_EQ(floats(lz::ones({2}, {.device = kGpu1}) + 1), (std::vector<float>{2, 2}));
    const Caught error = caught<lz::DeviceError>([] { lz::ones({2}, {.device = kGpu2}); });
    EXPECT_TRUE(error.has("the devices are cpu, cuda:0 and cuda:1")) << error.what;
}
TEST(Child, DISABLED_NoneVisible) {
    EXPECT_FALSE(lz::cuda::is_available());
    EXPECT_EQ(lz::try_gpu(), Device::cpu());
    EXPECT_EQ(lz::try_all_gpus(), std::vector<Device>{Device::cpu()});
    const Caught error = caught<lz::DeviceError>([] { lz::ones({2}, {.device = "cuda"}); });
    EXPECT_TRUE(error.has("the only device is cpu")) << error.what;
    EXPECT_TRUE(error.has("CUDA_VISIBLE_DEVICES hides")) << error.what;
    EXPECT_TRUE(caught<lz::DeviceError>([] { lz::ones({2}).pin_memory(); }).has("page-locked")) << error.what;
}
TEST(Child, DISABLED_NoneThere) {
    EXPECT_EQ(lz::cuda::device_count(), 0);
    const Caught error = caught<lz::DeviceError>([] { lz::ones({2}, {.device = "cuda:1"}); });
    EXPECT_TRUE(error.has("There is no device cuda:1: the only device is cpu.")) << error.what;
    EXPECT_TRUE(error.has("LAZULI_VIRTUAL_GPUS")) << error.what;
}

TEST(Semantics, S09_cuda_visible_devices_hides_orders_and_renumbers) {
    LZ_NEEDS_GPUS(3);
    run_child("CUDA_VISIBLE_DEVICES=2,0", "TwoVisible");
    run_child("CUDA_VISIBLE_DEVICES='2, 0'", "TwoVisible");
    run_child("CUDA_VISIBLE_DEVICES=", "NoneVisible");
}

TEST(Semantics, S10_programs_find_out_what_there_is) {
    LZ_NEEDS_GPUS(4);
    EXPECT_TRUE(lz::cuda::is_available());
    EXPECT_EQ(lz::cuda::device_count(), 4);
    EXPECT_NE(lz::cuda::get_device_name(kGpu1).find("virtual"), std::string::npos);
    const lz::cuda::DeviceProperties properties = lz::cuda::get_device_properties(kGpu1);
    EXPECT_TRUE(properties.is_virtual);
    EXPECT_EQ(properties.total_memory, int64_t{256} << 20);
    // An index alone is a GPU's, also 0, which could be a null pointer.
    EXPECT_EQ(Device(0), kGpu0);
    EXPECT_EQ(lz::cuda::get_device_properties(0).total_memory, int64_t{256} << 20);
    EXPECT_EQ(lz::cuda::get_device_name(0), lz::cuda::get_device_name(kGpu0));
    EXPECT_EQ(lz::ones({2}).to(0).device(), kGpu0);
    EXPECT_EQ(lz::ones({2}, {.device = 1}).device(), kGpu1);
    EXPECT_EQ(lz::cuda::can_device_access_peer(0, 1), lz::cuda::can_device_access_peer(kGpu0, kGpu1));
    EXPECT_EQ(lz::default_stream(0).device(), kGpu0);
    EXPECT_EQ(lz::Stream(0).device(), kGpu0);
    EXPECT_EQ(lz::Stream(1, -1).device(), kGpu1);
    EXPECT_NO_THROW(lz::cuda::synchronize(0));
    EXPECT_TRUE(caught<lz::DeviceError>([] { lz::cuda::get_device_properties(4); }).has("cuda:4"));
    EXPECT_EQ(lz::try_gpu(3), Device::cuda(3));
    EXPECT_EQ(lz::try_gpu(10), Device::cpu());
    EXPECT_EQ(lz::try_gpu(-1), Device::cpu());
    EXPECT_EQ(lz::try_all_gpus().size(), 4u);
    run_child("CUDA_VISIBLE_DEVICES=", "NoneVisible");
}

TEST(Semantics, S11_a_device_that_is_not_there_is_an_error_that_lists_those_that_are) {
    LZ_NEEDS_GPUS(4);
    const uint32_t line = __LINE__ + 1;
    const Caught error = caught<lz::DeviceError>([] { lz::ones({2}, {.device = "cuda:7"}); });
    EXPECT_EQ(error.line, line);
    EXPECT_TRUE(
        error.has("There is no device cuda:7: the devices are cpu, cuda:0, cuda:1, cuda:2 and cuda:3"))
        << error.what;
    EXPECT_THROW(lz::ones({2}).cuda(4), lz::DeviceError);
    EXPECT_THROW(lz::ones({2}).to("cuda:99"), lz::DeviceError);
    for (const int absent : {-2, 256, 300}) {
        const std::string named =
            "There is no device cuda:" + std::to_string(absent) + ": the devices are cpu,";
        const Caught number = caught<lz::DeviceError>([&] { lz::ones({2}).cuda(absent); });
        EXPECT_TRUE(number.has(named)) << number.what;
    }
    const Caught text = caught<lz::DeviceError>([] { lz::ones({2}).to("cuda:300"); });
    EXPECT_TRUE(text.has("There is no device cuda:300: the devices are cpu,")) << text.what;
    run_child("LAZULI_VIRTUAL_GPUS=0", "NoneThere");
}

TEST(Child, DISABLED_NoLinks) {
    EXPECT_FALSE(lz::cuda::can_device_access_peer(kGpu0, kGpu1));
    const Caught refused = caught<lz::DeviceError>([] { lz::cuda::enable_peer_access(kGpu0, kGpu1); });
    EXPECT_TRUE(refused.has("enable_peer_access: cuda:0 cannot have access to the memory of cuda:1"))
        << refused.what;
    EXPECT_TRUE(refused.has(lz::cuda::get_device_properties(kGpu0).is_virtual
                                ? "LAZULI_VIRTUAL_PEERS=0"
                                : "this hardware has no link between the two"))
        << refused.what;
    const Tensor x = lz::arange(100000, {.dtype = lz::f32}), y = x.cuda(0).cuda(1) * 2;
    EXPECT_EQ(y.device(), kGpu1);
    EXPECT_EQ(floats(y), floats(x * 2));
}

TEST(Semantics, S12_copies_without_peer_access_are_staged_and_right) {
    LZ_NEEDS_GPUS(4);
    EXPECT_TRUE(lz::cuda::can_device_access_peer(kGpu0, kGpu1));
    EXPECT_FALSE(lz::cuda::can_device_access_peer(kGpu0, kGpu0));
    const Tensor x = lz::randn({300000}, {.device = kGpu2});
    EXPECT_EQ(floats(x.cuda(3)), floats(x));
    lz::cuda::enable_peer_access(kGpu2, kGpu3);
    EXPECT_EQ(floats(x.cuda(3) + 0), floats(x));
    lz::cuda::disable_peer_access(kGpu2, kGpu3);
    EXPECT_THROW(lz::cuda::enable_peer_access(kGpu0, kGpu0), lz::DeviceError);
    // As the device says it: virtual GPUs, and the driver without a GPU.
    run_child(lz::cuda::get_device_properties(kGpu0).is_virtual ? "LAZULI_VIRTUAL_PEERS=0"
                                                                : "LAZULI_FAKE_CUDA_PEERS=0",
              "NoLinks");
}

TEST(Child, DISABLED_AskedFor) {
    lz::use_virtual_gpus(2, {.memory_bytes = int64_t{64} << 20});
    EXPECT_EQ(lz::cuda::device_count(), 2);
    EXPECT_EQ(lz::cuda::get_device_properties(kGpu1).total_memory, int64_t{64} << 20);
}

TEST(Child, DISABLED_Modelled) {
    EXPECT_EQ(lz::cuda::device_count(), 3);
    EXPECT_NE(lz::cuda::get_device_name(kGpu2).find("h100"), std::string::npos);
}
TEST(Child, DISABLED_ModelAlone) {
    EXPECT_EQ(lz::cuda::device_count(), 1);
    EXPECT_NE(lz::cuda::get_device_name(kGpu0).find("h200"), std::string::npos);
}
TEST(Child, DISABLED_NoGpu) {
    EXPECT_EQ(lz::cuda::device_count(), 0);
}
TEST(Devices, AModelAloneMakesOneGpu) {
    const std::string model = "LAZULI_TEST_PLAIN=1 LAZULI_VIRTUAL_MODEL=h200";
    run_child("-u LAZULI_VIRTUAL_GPUS " + model, "ModelAlone");
    run_child("LAZULI_VIRTUAL_GPUS=0 " + model, "NoGpu"); // a number was given
}
TEST(Devices, AModelMaySayHowManyGpusThereAre) {
    run_child("-u LAZULI_VIRTUAL_GPUS LAZULI_TEST_PLAIN=1 LAZULI_VIRTUAL_MODEL=h100x3", "Modelled");
}

TEST(Child, DISABLED_UnknownModel) {
    const Caught error = caught<lz::DeviceError>([] { lz::ones({1}, {.device = "cuda"}); });
    EXPECT_TRUE(error.has("There is no virtual model `h300x4`")) << error.what;
}
TEST(Child, DISABLED_TooMany) {
    const Caught error = caught<lz::DeviceError>([] { lz::ones({1}, {.device = "cuda"}); });
    EXPECT_TRUE(error.has("A machine has 0 to 16 virtual GPUs; 99 were asked for")) << error.what;
}
TEST(Devices, AModelThatMakesNoGpusIsTheReasonWhyThereAreNone) {
    const std::string plain = "-u LAZULI_VIRTUAL_GPUS LAZULI_TEST_PLAIN=1 LAZULI_VIRTUAL_MODEL=";
    run_child(plain + "h300x4", "UnknownModel");
    run_child(plain + "h200x99", "TooMany");
}

TEST(Devices, VirtualGpusCannotHaveLessThanNoMemory) {
    const Caught error = caught<lz::DeviceError>([] { lz::use_virtual_gpus(2, {.memory_bytes = -5}); });
    EXPECT_TRUE(error.has("use_virtual_gpus: a GPU cannot have -5 bytes")) << error.what;
}

TEST(Child, DISABLED_WrongModels) {
    const std::string file = testing::TempDir() + "lazuli_wrong_model.json";
    const auto asked_for = [](const std::string &model) {
        const auto ask = [&] { lz::use_virtual_gpus(2, {.model = model}); };
        const uint32_t line = __LINE__ - 1;
        const Caught error = caught<lz::DeviceError>(ask);
        EXPECT_EQ(error.line, line);
        EXPECT_TRUE(error.what.starts_with("use_virtual_gpus: ")) << error.what;
        EXPECT_TRUE(error.has("visible_devices_test.cpp:")) << error.what;
        return error.what;
    };
    const auto has = [](const std::string &text, const std::string &part) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    const std::string unknown = asked_for("h300");
    has(unknown, "There is no virtual model `h300`");
    for (const char *known : {"a100", "h200", "rtx4090"})
        has(unknown, known);
    has(asked_for("/nowhere/at_all.json"), "/nowhere/at_all.json cannot be read");
    std::ofstream(file) << "{\"base\": ";
    has(asked_for(file), "is not JSON");
    std::ofstream(file) << "{\"flops\": -1}";
    has(asked_for(file), "`flops` is -1, and should be a number, 1000 or more");
    std::ofstream(file) << "{\"flips\": 1}";
    has(asked_for(file), "a virtual model has no `flips`; it has base, name");

    std::ofstream(file) << "{\"base\": \"h200\", \"name\": \"mine\"}";
    lz::use_virtual_gpus(2, {.model = file});
    EXPECT_EQ(lz::cuda::device_count(), 2);
    EXPECT_NE(lz::cuda::get_device_name(kGpu1).find("mine"), std::string::npos);
}
TEST(Devices, AModelThatIsAskedForAndIsNotThereIsAnErrorThatNamesTheOnesThatAre) {
    run_child("-u LAZULI_VIRTUAL_GPUS LAZULI_TEST_PLAIN=1", "WrongModels");
}

TEST(Child, DISABLED_TooLarge) {
    EXPECT_FALSE(lz::cuda::is_available());
    EXPECT_TRUE(caught<lz::DeviceError>([] { lz::ones({1}, {.device = "cuda"}); }).has("could not be made"));
    EXPECT_EQ(floats(lz::ones({2}) + 1), (std::vector<float>{2, 2}));
}
TEST(Devices, VirtualGpusThatCannotBeMadeAreSaidToBeAbsent) {
    const std::string output = run_child("LAZULI_VIRTUAL_MEMORY=8000000G", "TooLarge");
    EXPECT_NE(output.find("lazuli devices: The virtual GPUs could not be made: A virtual GPU can have up to"),
              std::string::npos)
        << output;
}

TEST(Child, DISABLED_NoRoom) {
    const Caught error =
        caught<lz::DeviceError>([] { lz::use_virtual_gpus(16, {.memory_bytes = int64_t{4} << 40}); });
    EXPECT_TRUE(error.has("use_virtual_gpus: The system has no range of")) << error.what;
    lz::use_virtual_gpus(1, {.memory_bytes = int64_t{64} << 20}); // nothing was asked for before
    EXPECT_EQ(lz::cuda::device_count(), 1);
}
TEST(Devices, VirtualGpusThatCannotBeMadeAreRefusedWhereTheyAreAskedFor) {
    run_child("-u LAZULI_VIRTUAL_GPUS -u LAZULI_VIRTUAL_MEMORY LAZULI_TEST_PLAIN=1", "NoRoom");
}

TEST(Devices, VirtualGpusCanBeAskedForBeforeTheFirstUse) {
    lz::sync();
    lz::ones({1}).eval();
    EXPECT_TRUE(caught<lz::StateError>([] { lz::use_virtual_gpus(2); }).has("has started already"));
    run_child("-u LAZULI_VIRTUAL_GPUS -u LAZULI_VIRTUAL_MEMORY LAZULI_TEST_PLAIN=1", "AskedFor");
}

} // namespace
