// Program files: what is written is read, and everything else is refused in a sentence.
#include "tests/support/samples/saved.h"

#include <gmock/gmock.h>

#include <array>
#include <random>

namespace lz::test {
namespace {

using namespace ir;

const std::array<float, 4> kElements = {1, 2, 3, 4};

std::string text_of(const SavedProgram &program) {
    const std::vector<std::byte> file = write_saved(program);
    return {reinterpret_cast<const char *>(file.data()), file.size()};
}
std::string sample_file() {
    return text_of(saved_sample(std::as_bytes(std::span(kElements))));
}
std::string sample_file_with_weights() {
    return text_of(saved_sample_with_weights(std::as_bytes(std::span(kElements))));
}

const SavedCode *best_of(const SavedProgram &program, const std::vector<uint32_t> &code, uint32_t sm) {
    std::vector<const SavedCode *> pointers;
    for (const uint32_t c : code)
        pointers.push_back(&program.code[c]);
    return best_code(pointers, sm);
}

/// Empty where it is read.
std::string refusal_of(const std::string &bytes) {
    const std::vector<std::byte> copy = bytes_of(bytes); // ends where the bytes end
    try {
        const SavedProgram read = read_saved(copy);
        EXPECT_NE(describe(read), "");
        best_variant(read.plans.front());
        for (const SavedLibraryKernel &kernel : read.library)
            best_of(read, kernel.code, 90);
        return {};
    } catch (const Failure &failure) {
        EXPECT_EQ(failure.kind(), ErrorKind::Io) << failure.message();
        return failure.message();
    }
}

TEST(SavedProgram, IsReadAsItWasWritten) {
    const std::string file = sample_file();
    const auto bytes = std::as_bytes(std::span(file));
    const SavedProgram read = read_saved(bytes);
    EXPECT_EQ(read.name, "sample");
    ASSERT_EQ(read.plans.size(), 1u);
    const SavedPlan &plan = read.plans[0];
    EXPECT_EQ(plan.arguments[1].name, "n");
    EXPECT_EQ(plan.arguments[0].type, (TensorType{DType::F32, {4}, kCpu}));
    EXPECT_FALSE(plan.numbers[0].any);
    EXPECT_EQ(plan.numbers[0].value, 0.5);
    EXPECT_EQ(plan.words, (std::vector<int64_t>{1, -2, 3, 4}));
    EXPECT_EQ(plan.again[2].form, NumberForm::Inverse);
    EXPECT_EQ(to_string(plan.operations[0].loc), "sample.cpp:31");
    EXPECT_EQ(function_name(plan.operations[0].loc.function), "gelu");
    EXPECT_EQ(plan.variants[1].level, IsaLevel::V3);
    EXPECT_TRUE(plan.variants[2].any_processor);
    EXPECT_EQ(plan.variants[0].code, (std::vector<std::vector<uint32_t>>{{0}, {1, 2}}));
    for (size_t c = 0; c < 5; ++c)
        EXPECT_EQ(read.code[c].phases, saved_sample({}).code[c].phases) << c;
    EXPECT_EQ(read.code[1].unaligned, 3u);
    EXPECT_EQ(read.code[3].unaligned, kNothing);
    EXPECT_EQ(read.code[1].format, CodeFormat::Ptx);
    EXPECT_EQ(read.code[1].sm, 90u);
    ASSERT_EQ(read.devices.size(), 2u);
    EXPECT_EQ(read.devices[0].name, "a GPU");
    EXPECT_TRUE(read.devices[1].is_virtual);
    EXPECT_EQ(to_string(read.devices[1].device), "cuda:2");
    EXPECT_EQ(read.library[0].source, 0x123456789abcdef0u);
    EXPECT_EQ(to_string(read.constants[1].type), "f32[4] @cuda:2");
    EXPECT_EQ(std::memcmp(read.constants[0].bytes.data(), kElements.data(), sizeof kElements), 0);
    // Written again it is the same file.
    const std::vector<std::byte> again = write_saved(read);
    EXPECT_TRUE(std::ranges::equal(again, bytes));
    EXPECT_THAT(describe(read), testing::HasSubstr("x: f32[4] @cpu, n: f64[] @cpu"));
    EXPECT_THAT(
        describe(read),
        testing::HasSubstr("  PTX of compute capability 9.0: 1 kernels, 12 bytes of code\n"
                           "  cubins of compute capability 10.0: 1 kernels, 12 bytes of code\n"
                           "cuda:0: a CUDA device, saved on a GPU of compute capability 9.0\n"
                           "cuda:2: a virtual GPU\n"
                           "kernel of the library, sort f32: PTX of compute capability 9.0, 6 bytes of "
                           "code\n"));
}

TEST(SavedProgram, RefersToTensorsOfOtherFiles) {
    const std::string file = sample_file_with_weights();
    const SavedProgram read = read_saved(std::as_bytes(std::span(file)));
    EXPECT_EQ(read.weights, (std::vector<std::string>{"weights/net.safetensors"}));
    EXPECT_EQ(read.constants[0].from.file, kNothing);
    EXPECT_EQ(read.constants[0].bytes.size(), 16u);
    EXPECT_EQ(to_string(read.constants[1].type), "f32[4] @cuda:2");
    EXPECT_EQ(read.constants[1].from.file, 0u);
    EXPECT_EQ(read.constants[1].from.tensor, "0.bias");
    EXPECT_EQ(read.constants[1].from.hash[15], std::byte{0xaf});
    EXPECT_TRUE(read.constants[1].bytes.empty());
    EXPECT_EQ(text_of(read), file) << "written again it is the same file";
    EXPECT_THAT(
        describe(read),
        testing::HasSubstr("constant 0: f32[4] @cpu, 16 bytes\n"
                           "constant 1: f32[4] @cuda:2, 16 bytes: \"0.bias\" of "
                           "\"weights/net.safetensors\", XXH3-128 a0a1a2a3a4a5a6a7a8a9aaabacadaeaf\n"));
}

/// Cubins are of one generation; PTX is finished by every newer device.
TEST(SavedProgram, TheBestCodeForADeviceIsOfItsGeneration) {
    SavedProgram program;
    const auto add = [&](CodeFormat format, uint32_t sm) {
        program.code.emplace_back().format = format;
        program.code.back().sm = sm;
    };
    add(CodeFormat::Ptx, 80);
    add(CodeFormat::Cubin, 80);
    add(CodeFormat::Cubin, 86);
    add(CodeFormat::Ptx, 90);
    add(CodeFormat::Cubin, 90);
    add(CodeFormat::Object, 0);
    const auto best = [&](uint32_t sm) -> int64_t {
        const SavedCode *const code = best_of(program, {0, 1, 2, 3, 4, 5}, sm);
        return code ? code - program.code.data() : -1;
    };
    EXPECT_EQ(best(75), -1);
    EXPECT_EQ(best(80), 1);
    EXPECT_EQ(best(86), 2);
    EXPECT_EQ(best(89), 2);
    EXPECT_EQ(best(90), 4);
    EXPECT_EQ(best(100), 3);
}

TEST(SavedProgram, IsNotReadWhereItRefersToWhatIsNotThere) {
    const auto refused = [](auto &&change, const char *part) {
        SavedProgram program = saved_sample(std::as_bytes(std::span(kElements)));
        change(program, program.plans[0]);
        EXPECT_THAT(refusal_of(text_of(program)), testing::HasSubstr(part));
    };
    refused([](auto &, SavedPlan &p) { p.inputs[0].argument = 2; }, "an input of a Program");
    refused([](auto &, SavedPlan &p) { p.inputs[1].constant = 2; }, "an input of a Program");
    refused([](auto &, SavedPlan &p) { p.values[0].result = 1; }, "a value is no result");
    refused([](auto &, SavedPlan &p) { p.values[1].argument = 1; }, "a value is no argument");
    refused([](auto &, SavedPlan &p) { p.outputs[0].value = 2; }, "a result of a call is no value");
    refused([](auto &, SavedPlan &p) { p.outputs[2].output = 2; }, "a result of a call is no earlier one");
    refused([](auto &, SavedPlan &p) { p.outputs[1].value = 0; }, "a result of a call is several values");
    refused([](auto &, SavedPlan &p) { p.again[0].at = 4; }, "a word of a Program is not there");
    refused([](auto &, SavedPlan &p) { p.again[3].of = 0; }, "an argument of several elements");
    refused([](auto &, SavedPlan &p) { p.draws.clear(); }, "a word of a Program is of nothing");
    refused([](auto &, SavedPlan &p) { p.operations[0].op = "subtract it"; }, "an operation is unknown");
    refused([](auto &, SavedPlan &p) { p.variants[0].code[0] = {5}; }, "a kernel has no code");
    refused([](auto &, SavedPlan &p) { p.variants[2].code[0] = {0}; },
            "a kernel is for a processor that its Program does not name");
    refused([](SavedProgram &p, auto &) { p.code[0].sm = 90; }, "code is for no device");
    refused([](SavedProgram &p, auto &) { p.code[1].sm = 0; }, "code is for no device");
    const char *const needs = "code for aligned addresses alone";
    refused([](SavedProgram &p, auto &) { p.code[1].unaligned = kNothing; }, needs);
    refused([](SavedProgram &p, auto &) { p.code[0].unaligned = 3; }, needs);
    refused([](SavedProgram &p, auto &) { p.code[1].unaligned = 5; }, "addresses is not there");
    refused([](SavedProgram &p, auto &) { p.code[1].unaligned = 4; }, "addresses is of another kernel");
    refused([](SavedProgram &p, auto &) { p.code[1].unaligned = 1; }, "addresses is of another kernel");
    refused([](SavedProgram &p, auto &) { p.code[3].phases[0].threads = 64; },
            "addresses is of another kernel");
    refused([](SavedProgram &p, auto &) { p.library[0].code = {5}; }, "a kernel of the library has no code");
    refused([](SavedProgram &p, auto &) { p.library[0].code = {0}; }, "a kernel of the library has no code");
    refused([](SavedProgram &p, auto &) { p.devices[1].device.index = 0; }, "a device is none");
    refused([](SavedProgram &p, auto &) { p.devices[1].device = kCpu; }, "a device is none");
    refused([](SavedProgram &p, auto &) { p.devices[1].sm = 80; }, "a device is none");
    refused([](SavedProgram &p, auto &) { p.devices.pop_back(); },
            "a tensor is on a device that it does not name");
    refused([](auto &, SavedPlan &p) { p.arguments[0].type.device = {DeviceKind::Cuda, 1}; },
            "a tensor is on a device that it does not name");
    refused([](auto &, SavedPlan &p) { p.variants.clear(); }, "a signature has no Program");
    refused([](SavedProgram &p, auto &) { p.plans.clear(); }, "it has no program");
    refused([](SavedProgram &p, auto &) { p.constants[0].type.shape = {5}; },
            "a constant is f32[5] @cpu and has 16 bytes");
}

TEST(SavedProgram, IsNotReadWhereItsReferencesAreNone) {
    const auto refused = [](auto &&change, const char *part) {
        SavedProgram program = saved_sample_with_weights(std::as_bytes(std::span(kElements)));
        change(program);
        EXPECT_THAT(refusal_of(text_of(program)), testing::HasSubstr(part));
    };
    refused([](SavedProgram &p) { p.constants[1].from.file = 1; }, "in a file that it does not name");
    refused([](SavedProgram &p) { p.weights.push_back("b"); }, "that it does not need");
    for (const char *const path : {"", "/net.safetensors"})
        refused([&](SavedProgram &p) { p.weights[0] = path; }, "is none that can be beside it");
    refused([](SavedProgram &p) { p.weights[0] += '\0'; }, "is none that can be beside it");
}

TEST(SavedProgram, OfChangedBytesIsReadOrRefused) {
    const std::array<std::string, 2> files = {sample_file(), sample_file_with_weights()};
    std::mt19937 random(7);
    const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
    // The frame is right: only what the sections say is wrong.
    int accepted = 0;
    for (int i = 0; i < 20000; ++i) {
        const std::string changed = change_section(
            files[static_cast<size_t>(i) % 2], [&](size_t n) { return below(4) == 0 ? below(n) : 0; },
            [&](std::string &text) {
                for (size_t edits = 1 + below(3); edits > 0 && !text.empty(); --edits) {
                    const size_t at = below(text.size());
                    switch (below(4)) {
                    case 0:
                        text[at] = static_cast<char>(below(256));
                        break;
                    case 1:
                        text[at] = static_cast<char>(below(2) == 0 ? 0xff : 0);
                        break;
                    case 2:
                        text.erase(at, 1 + below(8));
                        break;
                    default:
                        text.insert(at, text.substr(below(text.size()), 1 + below(8)));
                    }
                }
            });
        accepted += refusal_of(changed).empty();
    }
    EXPECT_GT(accepted, 0) << "names, texts and elements may be others";
    EXPECT_LT(accepted, 15000);
}

} // namespace
} // namespace lz::test
