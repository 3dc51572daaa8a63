#include "frontend/engine/compile/driver.h"

#include "frontend/engine/compile/failure.h"
#include "ir/text/sentences.h"
#include "ir/text/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::engine {
namespace {

void dump_pass(const Dumper &dumper, const passes::PassOutput &output) {
    const Dumps &wanted = dumper.wanted();
    if (wanted.passes && output.program)
        dumper.write(fmt::format("after-{}", output.pass), "lz", ir::print(*output.program));
    else if (wanted.passes && output.graph)
        dumper.write(fmt::format("after-{}", output.pass), "lz",
                     ir::print(*output.graph, {.number_effects = true}));
    if (wanted.dot && output.pass == "fuse" && output.graph)
        dumper.write("clusters", "dot", ir::to_dot(*output.graph));
}

std::string joined(const std::vector<std::string> &lines) {
    std::string text;
    for (const std::string &line : lines)
        text += line + "\n";
    return text;
}

} // namespace

Compiled compile_graph(const ir::Graph &graph, const ir::Target &target, const Dumper &dumper,
                       passes::Explained explained) {
    const Dumps &wanted = dumper.wanted();
    if (wanted.explain || wanted.program || wanted.passes)
        explained = passes::Explained::Yes;
    passes::PipelineObserver observer;
    observer.after = [&](const passes::PassOutput &output) { dump_pass(dumper, output); };
    passes::CompileResult result = passes::compile(graph, target, &observer, explained);

    Compiled compiled;
    compiled.program = std::move(result.program);
    compiled.explanation = joined(compiled.program.notes);
    for (const uint32_t buffer : compiled.program.results) {
        const int32_t donor = compiled.program.buffers[buffer].donor;
        compiled.donors.push_back(
            donor < 0 ? -1 : static_cast<int>(compiled.program.buffers[static_cast<size_t>(donor)].index));
    }
    if (wanted.explain)
        dumper.write("explain", "txt", compiled.explanation);
    if (wanted.program)
        dumper.write("program", "lz", ir::print(compiled.program));
    if (wanted.kernel)
        for (size_t k = 0; k < compiled.program.kernels.size(); ++k)
            dumper.write(fmt::format("kernel-{}", k), "lz",
                         kernel_lines(graph, compiled.program, k, "//") +
                             ir::print(compiled.program.kernels[k]));
    return compiled;
}

void dump_code(const Dumper &dumper, const ir::Graph &graph, const ir::Program &program, size_t kernel,
               const codegen::CachedKernel &code, const codegen::Compiler::FileEndings &endings) {
    const auto dump = [&](std::string_view ending, const std::string &text) {
        const std::string_view comment = ending == "ll" ? ";" : ending == "s" ? "#" : "//";
        dumper.write(fmt::format("kernel-{}", kernel), ending,
                     kernel_lines(graph, program, kernel, comment) + text);
    };
    if (dumper.wanted().llvm)
        dump(endings.text, code.text);
    if (dumper.wanted().assembly)
        dump(endings.assembly, code.assembly);
}

std::string what_was_verified(const ir::Program &program) {
    std::vector<ir::StreamRef> streams;
    size_t accesses = 0, waits = 0;
    for (const ir::Step &step : program.steps) {
        accesses += step.accesses.size();
        waits += step.kind == ir::StepKind::WaitEvent;
        const ir::StreamRef stream{step.device, step.stream};
        if (std::ranges::find(streams, stream) == streams.end())
            streams.push_back(stream);
    }
    using ir::plural;
    return fmt::format("Every two conflicting accesses are ordered: {} on {}, {} to {}, {}.",
                       plural(program.steps.size(), "step"), plural(streams.size(), "stream"),
                       accesses == 1 ? "1 access" : fmt::format("{} accesses", accesses),
                       plural(program.buffers.size(), "buffer"), plural(waits, "wait"));
}

} // namespace lz::engine
