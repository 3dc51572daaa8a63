#include "codegen/interpreter.h"

#include "codegen/emitter_id.h"
#include "ir/diagnostic.h"
#include "ir/interpreter/kernel.h"
#include "ir/kernel/verify.h"
#include "ir/text/text.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace lz::codegen {

namespace {

/// Entry points are functions without a context: there is one for each number of a phase, and the kernel is
/// in the frame.
constexpr size_t kMostPhases = 512;

template <size_t phase>
void run_phase(const ir::KernelFrame *frame, int64_t begin, int64_t, void *worker) {
    const auto &kernel = *static_cast<const ir::Kernel *>(frame->code);
    if (begin == 0) // whoever has the first work item does all of them
        ir::interpret_phase(kernel, kernel.phases[phase], *frame, worker);
}

template <size_t... phases>
constexpr std::array<ir::PhaseEntry, kMostPhases> table(std::index_sequence<phases...>) {
    return {run_phase<phases>...};
}
constexpr std::array<ir::PhaseEntry, kMostPhases> kEntries = table(std::make_index_sequence<kMostPhases>());

std::string symbol_of(size_t phase) {
    return "phase" + std::to_string(phase);
}

class InterpretedModule final : public runtime::Module {
public:
    explicit InterpretedModule(ir::Kernel kernel) : kernel_(std::move(kernel)) {}

    void *entry(const std::string &symbol) const override {
        for (size_t phase = 0; phase < kernel_.phases.size(); ++phase)
            if (symbol == symbol_of(phase))
                return reinterpret_cast<void *>(kEntries[phase]);
        ir::internal_failure(__FILE__, __LINE__, "kernel " + kernel_.name + " has no symbol " + symbol);
    }
    const void *code() const override { return &kernel_; }

private:
    const ir::Kernel kernel_;
};

class Interpreter final : public Compiler {
public:
    const std::string &key() const override { return key_; }
    FileEndings endings() const override { return {"expanded.lz", "s"}; }

    ir::CompiledKernel compile(const ir::Kernel &kernel) const override {
        if (kernel.phases.size() > kMostPhases)
            throw ir::Failure(ir::ErrorKind::Compile,
                              fmt::format("Kernel {} cannot be interpreted: it has {} phases, and the "
                                          "interpreter has entry points for {}.",
                                          kernel.name, kernel.phases.size(), kMostPhases));
        ir::CompiledKernel compiled;
        compiled.name = kernel.name;
        compiled.format = ir::CodeFormat::KernelText;
        for (size_t phase = 0; phase < kernel.phases.size(); ++phase)
            compiled.phases.push_back({symbol_of(phase)});
        const std::string text = ir::print(kernel);
        compiled.object.resize(text.size());
        std::memcpy(compiled.object.data(), text.data(), text.size());
        compiled.text = text;
        return compiled;
    }

private:
    const std::string key_ = fmt::format("interpreter of Kernel IR, text 1, emitter {}", emitter_id());
};

} // namespace

std::unique_ptr<Compiler> make_interpreter() {
    return std::make_unique<Interpreter>();
}

std::unique_ptr<runtime::Module> load_interpreted(const ir::CompiledKernel &kernel) {
    const std::string text(reinterpret_cast<const char *>(kernel.object.data()), kernel.object.size());
    try {
        ir::Kernel parsed = ir::parse_kernel(text);
        ir::verify(parsed);
        if (parsed.phases.size() != kernel.phases.size() || parsed.phases.size() > kMostPhases)
            throw ir::Failure(ir::ErrorKind::Compile, "it has another number of phases");
        parsed.name = kernel.name;
        return std::make_unique<InterpretedModule>(std::move(parsed));
    } catch (const ir::Failure &failure) {
        throw ir::Failure(ir::ErrorKind::Compile, fmt::format("The text of kernel {} could not be read: {}",
                                                              kernel.name, failure.message()));
    }
}

} // namespace lz::codegen
