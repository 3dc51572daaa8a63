#include "ir/saved/saved_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace lz::ir {
namespace {

std::string listed(const std::vector<SavedTensor> &tensors) {
    std::string text;
    for (const SavedTensor &tensor : tensors)
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", tensor.name, to_string(tensor.type));
    return text.empty() ? "none" : text;
}

std::string outputs_of(const SavedPlan &plan) {
    std::string text;
    for (const SavedOutput &output : plan.outputs) {
        text += text.empty() ? "" : ", ";
        if (output.value == kNothing && output.argument == kNothing && output.output == kNothing)
            text += output.tensor.name + ": empty";
        else
            text += fmt::format("{}: {}", output.tensor.name, to_string(output.tensor.type));
        if (output.argument != kNothing)
            text += fmt::format(" (argument {})", plan.arguments[output.argument].name);
    }
    return text.empty() ? "none" : text;
}

std::string numbers_of(const SavedPlan &plan) {
    std::string text;
    for (const SavedNumber &number : plan.numbers)
        text += fmt::format("{}{}", text.empty() ? "" : ", ",
                            number.any ? std::string("any") : fmt::format("{}", number.value));
    return text;
}

} // namespace

std::string describe(const SavedProgram &program) {
    std::string text = fmt::format("program `{}`, made by {}\n", program.name, program.made_by);
    const auto out = std::back_inserter(text);
    for (size_t p = 0; p < program.plans.size(); ++p) {
        const SavedPlan &plan = program.plans[p];
        fmt::format_to(out, "signature {}\n  inputs: {}\n", p, listed(plan.arguments));
        if (!plan.numbers.empty())
            fmt::format_to(out, "  numbers: {}\n", numbers_of(plan));
        fmt::format_to(out, "  outputs: {}\n", outputs_of(plan));
        fmt::format_to(out, "  {} operations", plan.operations.size());
        if (!plan.draws.empty())
            fmt::format_to(out, ", random numbers in {} places", plan.draws.size());
        text += '\n';
        for (const SavedVariant &variant : plan.variants) {
            size_t bytes = 0;
            std::vector<uint32_t> seen;
            for (const uint32_t code : variant.code)
                if (code != kNothing && std::ranges::find(seen, code) == seen.end()) {
                    seen.push_back(code);
                    bytes += program.code[code].object.size();
                }
            fmt::format_to(out, "  {}: {} kernels, {} bytes of code\n", name(variant.level), seen.size(),
                           bytes);
        }
    }
    for (size_t c = 0; c < program.constants.size(); ++c)
        fmt::format_to(out, "constant {}: {}, {} bytes\n", c, to_string(program.constants[c].type),
                       program.constants[c].bytes.size());
    return text;
}

} // namespace lz::ir
