#include "ir/saved/saved_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

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

/// What of the code is of some kind, each once.
class Amount {
public:
    explicit Amount(const SavedProgram &program) : program_(program), seen_(program.code.size(), false) {}
    /// Counts it, unless it was counted or is of another kind.
    void add(const std::vector<uint32_t> &code, CodeFormat format, uint32_t sm) {
        for (const uint32_t c : code) {
            const SavedCode &one = program_.code[c];
            const bool wanted = is_cuda(one.format) ? one.format == format && one.sm == sm : !is_cuda(format);
            if (!wanted || seen_[c])
                continue;
            seen_[c] = true;
            ++kernels_;
            bytes_ += one.object.size();
            if (one.unaligned != kNothing)
                bytes_ += program_.code[one.unaligned].object.size();
        }
    }
    size_t kernels() const { return kernels_; }
    size_t bytes() const { return bytes_; }

private:
    const SavedProgram &program_;
    std::vector<bool> seen_;
    size_t kernels_ = 0, bytes_ = 0;
};

/// Of another file, on one line.
std::string in_quotes(const std::string &name) {
    std::string text = "\"";
    for (const char c : name)
        text += static_cast<unsigned char>(c) < ' ' ? '?' : c;
    return text + '"';
}

std::string hexadecimal(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes)
        text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    return text;
}

std::string capability(uint32_t sm) {
    return fmt::format("{}.{}", sm / 10, sm % 10);
}

/// `PTX of compute capability 9.0`, for each that there is, ascending.
template <class F>
void for_cuda_kinds(const SavedProgram &program, F &&f) {
    std::vector<std::pair<uint32_t, CodeFormat>> kinds;
    for (const SavedCode &code : program.code)
        if (is_cuda(code.format))
            kinds.emplace_back(code.sm, code.format);
    std::ranges::sort(kinds);
    const auto rest = std::ranges::unique(kinds);
    kinds.erase(rest.begin(), rest.end());
    for (const auto &[sm, format] : kinds)
        f(fmt::format("{} of compute capability {}", format == CodeFormat::Cubin ? "cubins" : "PTX",
                      capability(sm)),
          format, sm);
}

std::string code_of(const SavedProgram &program, const SavedPlan &plan) {
    std::string text;
    const auto line = [&](std::string_view kind, const Amount &amount) {
        text += fmt::format("  {}: {} kernels, {} bytes of code\n", kind, amount.kernels(), amount.bytes());
    };
    for (const SavedVariant &variant : plan.variants) {
        Amount amount(program);
        for (const std::vector<uint32_t> &of_kernel : variant.code)
            amount.add(of_kernel, CodeFormat::Object, 0);
        if (!variant.any_processor)
            line(name(variant.level), amount);
    }
    for_cuda_kinds(program, [&](const std::string &kind, CodeFormat format, uint32_t sm) {
        Amount amount(program);
        for (const SavedVariant &variant : plan.variants)
            for (const std::vector<uint32_t> &of_kernel : variant.code)
                amount.add(of_kernel, format, sm);
        if (amount.kernels() > 0)
            line(kind, amount);
    });
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
        text += code_of(program, plan);
    }
    for (const SavedDevice &device : program.devices)
        fmt::format_to(out, "{}: {}\n", to_string(device.device),
                       device.is_virtual ? "a virtual GPU"
                                         : fmt::format("a CUDA device, saved on {} of compute capability {}",
                                                       device.name, capability(device.sm)));
    for (const SavedLibraryKernel &kernel : program.library)
        for_cuda_kinds(program, [&](const std::string &kind, CodeFormat format, uint32_t sm) {
            Amount amount(program);
            amount.add(kernel.code, format, sm);
            if (amount.kernels() > 0)
                fmt::format_to(out, "kernel of the library, {}: {}, {} bytes of code\n", kernel.name, kind,
                               amount.bytes());
        });
    for (size_t c = 0; c < program.constants.size(); ++c) {
        const SavedConstant &constant = program.constants[c];
        fmt::format_to(out, "constant {}: {}, {} bytes", c, to_string(constant.type), constant.type.bytes());
        if (constant.from.file != kNothing)
            fmt::format_to(out, ": {} of {}, XXH3-128 {}", in_quotes(constant.from.tensor),
                           in_quotes(program.weights[constant.from.file]), hexadecimal(constant.from.hash));
        text += '\n';
    }
    return text;
}

} // namespace lz::ir
