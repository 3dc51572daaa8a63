#pragma once
/// A program file that was made by hand, and changes of such files that leave their frame right.

#include "ir/diagnostic.h"
#include "ir/saved/container.h"
#include "ir/saved/saved_program.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace lz::test {

inline std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

/// Something of everything. Its constant is `elements`, four of f32, which stay while it is used. Its code is
/// none.
inline ir::SavedProgram saved_sample(std::span<const std::byte> elements) {
    using namespace ir;
    SavedProgram program;
    program.name = "sample";
    program.made_by = "hand";
    const TensorType row{DType::F32, {4}, kCpu}, one{DType::F64, {}, kCpu};
    program.constants.push_back({row, elements});
    CompiledKernel kernel;
    kernel.name = "k0";
    kernel.object = bytes_of("no code");
    kernel.phases.push_back(
        {.symbol = "phase0", .parameters = {{LaunchParameter::Items, 8, 0, 16}}, .threads = 256});
    program.code.push_back({kernel, 0});
    CompiledKernel aligned = kernel; // and what is run where addresses are not
    aligned.phases[0].alignments = {{LaunchAlignment::Arg, 4, 1}};
    kernel.phases[0].symbol = "phase0_unaligned";
    kernel.phases[0].shared_bytes = 64;
    aligned.format = kernel.format = CodeFormat::Ptx;
    aligned.object = kernel.object = bytes_of("no PTX");
    program.code.push_back({aligned, 90, 3});
    aligned.format = CodeFormat::Cubin;
    program.code.push_back({aligned, 100, 4});
    program.code.push_back({kernel, 90});
    kernel.format = CodeFormat::Cubin;
    program.code.push_back({kernel, 100});
    program.devices = {{{DeviceKind::Cuda, 0}, false, 90, "a GPU"},
                       {{DeviceKind::Cuda, 2}, true, 0, "threads"}};
    program.library = {{"sort f32", 0x123456789abcdef0, {3}}};
    program.constants.push_back({{DType::F32, {4}, {DeviceKind::Cuda, 2}}, elements});
    SavedPlan plan;
    plan.arguments = {{"x", row}, {"n", one}};
    plan.numbers = {{0.5, false}, {2, true}};
    plan.inputs = {{0, kNothing}, {kNothing, 0}};
    plan.results = {row};
    const Location at{intern_file("sample.cpp"), 31, intern_function("gelu")};
    plan.values = {{0, kNothing, row, at}, {kNothing, 0, row, {}}};
    plan.outputs = {{0, kNothing, kNothing, {"y", row}},
                    {kNothing, 1, kNothing, {"same", one}},
                    {kNothing, kNothing, 0, {"again", row}},
                    {kNothing, kNothing, kNothing, {"none", {}}}};
    plan.words = {1, -2, 3, 4};
    plan.again = {{0, SavedWord::Kind::Seed, 0, NumberForm::Itself},
                  {1, SavedWord::Kind::Offset, 0, NumberForm::Itself},
                  {2, SavedWord::Kind::Number, 1, NumberForm::Inverse},
                  {3, SavedWord::Kind::Element, 1, NumberForm::Itself}};
    plan.draws = {4};
    plan.operations = {{"add", at}, {"mul", {}}};
    plan.graph = "lazuli 1\ngraph @main() {\n  return\n}\n";
    plan.variants = {{IsaLevel::V4, false, "lazuli 1\nprogram @main {\n}\n", {{0}, {1, 2}}},
                     {IsaLevel::V3, false, "lazuli 1\nprogram @main {\n}\n", {{}, {0}}},
                     {IsaLevel::V3, true, "lazuli 1\nprogram @main {\n}\n", {{2, 1}}}};
    program.plans.push_back(plan);
    return program;
}

/// The same with a constant that is in another file.
inline ir::SavedProgram saved_sample_with_weights(std::span<const std::byte> elements) {
    ir::SavedProgram program = saved_sample(elements);
    program.weights = {"weights/net.safetensors"};
    ir::SavedConstant &constant = program.constants[1];
    constant.bytes = {};
    constant.from = {0, "0.bias", {}};
    for (size_t i = 0; i < constant.from.hash.size(); ++i)
        constant.from.hash[i] = static_cast<std::byte>(0xa0 + i);
    return program;
}

/// The file with the bytes of one section changed by `change(std::string &)`; `pick(n)` gives a number below
/// n. Empty where it has no sections.
template <class Pick, class Change>
std::string change_section(const std::string &file, Pick &&pick, Change &&change) {
    ir::Container container;
    try {
        container = ir::read_container(std::as_bytes(std::span(file)));
    } catch (const ir::Failure &) {
        return {};
    }
    ir::Section &section = container.sections[pick(container.sections.size())];
    std::string text(reinterpret_cast<const char *>(section.bytes.data()), section.bytes.size());
    change(text);
    section.bytes = std::as_bytes(std::span(text));
    const std::vector<std::byte> made = ir::write_container(container);
    return {reinterpret_cast<const char *>(made.data()), made.size()};
}

} // namespace lz::test
