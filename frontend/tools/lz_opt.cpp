// lz-opt: reads IR as text, runs named passes, prints any of its forms, or runs it.
//
//   lz-opt in.lz --passes=check-devices,simplify,fuse --print-after-all
//   lz-opt in.lz --to=program          (the whole pipeline)
//   lz-opt in.lz --run=check           (compiled against the interpreter)

#include "lz_opt_run.h"

#include "codegen/compiler.h"
#include "ir/diagnostic.h"
#include "ir/kernel/kernel.h"
#include "ir/program/program.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "passes/verify/verify_schedule.h"
#include "runtime/api/parallel.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

namespace lz::tools {
namespace {

using namespace ir;

struct Options {
    std::string input = "-";
    std::vector<std::string> passes;
    std::string to;
    std::string run;
    std::string target;
    std::string devices;
    std::vector<std::string> peers;
    std::string transfer = "explicit";
    std::optional<uint64_t> delay;
    bool print_after_all = false;
    bool verify = false;
    bool no_fuse = false;
    bool no_locations = false;
};

PrintOptions print_options(const Options &options) {
    return {.locations = !options.no_locations};
}

std::string read_input(const std::string &path) {
    std::ostringstream text;
    if (path == "-") {
        text << std::cin.rdbuf();
        return text.str();
    }
    if (std::filesystem::is_directory(path))
        throw Failure(ErrorKind::Io, fmt::format("Cannot read {}: it is a directory.", path));
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw Failure(ErrorKind::Io, fmt::format("Cannot open {}: {}.", path, std::strerror(errno)));
    text << file.rdbuf();
    return text.str();
}

/// The first word after comments and the `lazuli 1` line: `graph`, `kernel` or `program`.
std::string first_block(const std::string &text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string word;
        if (words >> word && !word.starts_with("//") && !word.starts_with("#") && word != "lazuli")
            return word;
    }
    return "graph";
}

[[noreturn]] void bad_option(std::string_view option, std::string_view text, std::string_view wanted) {
    throw Failure(ErrorKind::State, fmt::format("--{} is `{}`; it should be {}.", option, text, wanted));
}

/// The whole text as a number from 0 to 255, or -1.
int small_number(std::string_view text) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value >= 0 && value < 256 ? value : -1;
}

/// `cuda:4`: that many GPUs.
int number_of_gpus(const Options &options) {
    if (options.devices.empty())
        return 0;
    const int count =
        options.devices.starts_with("cuda:") ? small_number(std::string_view(options.devices).substr(5)) : -1;
    if (count < 0)
        bad_option("devices", options.devices, "cuda:n for n GPUs");
    return count;
}

/// `0-1`: these two GPUs have peer access to each other; `0to1`: the first has access to the memory of the
/// second.
void add_peers(Target &target, std::string_view pair) {
    const size_t way = pair.find("to"), middle = way == std::string_view::npos ? pair.find('-') : way;
    const int a = small_number(pair.substr(0, middle));
    const int b = middle == std::string_view::npos
                      ? -1
                      : small_number(pair.substr(middle + (way == std::string_view::npos ? 1 : 2)));
    const auto count = static_cast<int>(target.devices.size()) - 1;
    if (a < 0 || b < 0 || a >= count || b >= count || a == b)
        bad_option("peers", pair, fmt::format("i-j or itoj for two of the {} GPUs of --devices", count));
    target.devices[static_cast<size_t>(a) + 1].peers.push_back(static_cast<uint8_t>(b));
    if (way == std::string_view::npos)
        target.devices[static_cast<size_t>(b) + 1].peers.push_back(static_cast<uint8_t>(a));
}

/// What this machine is, or the fixed target of tests. Running needs code for this machine.
Target make_target(const Options &options) {
    const bool runs = options.run == "compiled" || options.run == "check";
    Target target = test_target(number_of_gpus(options));
    for (DeviceInfo &device : target.devices) // GPUs here are virtual ones
        device.library = &runtime::cpu_library();
    for (const std::string &pair : options.peers)
        add_peers(target, pair);
    target.modes.transfer =
        options.transfer == "automatic" ? TransferMode::Automatic : TransferMode::Explicit;
    if (options.target.empty() ? runs : options.target == "host") {
        for (DeviceInfo &device : target.devices)
            device.cpu().isa = codegen::host_isa();
        target.set_threads(runtime::num_threads());
    }
    target.modes.fuse = !options.no_fuse;
    target.modes.verify = options.verify;
    return target;
}

std::string describe(const passes::MemoryPlan &plan) {
    std::string text;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
        const BufferDesc &buffer = plan.buffers[b];
        const auto place = [&] {
            switch (buffer.kind) {
            case BufferKind::Input:
                return fmt::format("input {}", buffer.index);
            case BufferKind::Result:
                return fmt::format("result {}", buffer.index) +
                       (buffer.donor < 0 ? "" : fmt::format(" in the memory of buffer {}", buffer.donor));
            case BufferKind::Arena:
                return fmt::format("arena {} [{}, {})", buffer.arena, buffer.offset,
                                   buffer.offset + buffer.bytes);
            }
            return std::string();
        };
        text += fmt::format("// buffer {}: {}, {} bytes on {}\n", b, place(), buffer.bytes,
                            to_string(buffer.device));
    }
    for (const passes::Reuse &reuse : plan.reuses)
        text += fmt::format("// reuse: buffer {} before buffer {}\n", reuse.before, reuse.after);
    for (size_t a = 0; a < plan.arenas.size(); ++a)
        text += fmt::format("// arena {} on {}: {} bytes, at most {} live\n", a,
                            to_string(plan.arenas[a].device), plan.arenas[a].bytes, plan.live_bytes[a]);
    return text;
}

std::string describe(std::span<const passes::LoweredStep> steps, const passes::Schedule &schedule) {
    std::string text;
    for (size_t s = 0; s < steps.size(); ++s)
        text += fmt::format("// step {} on {}, {:.1f} to {:.1f} us: {}\n", s,
                            to_string(schedule.streams[schedule.stream[s]]), schedule.begin[s] * 1e6,
                            schedule.end[s] * 1e6, steps[s].label);
    return text;
}

/// Prints the newest form that a pass left.
void print_after(const passes::PassOutput &output, const Options &options) {
    std::cout << "// ---- after " << output.pass << "\n";
    if (output.program)
        std::cout << print(*output.program, print_options(options));
    else if (output.plan)
        std::cout << describe(*output.plan);
    else if (output.schedule)
        std::cout << describe(output.steps, *output.schedule);
    else if (!output.steps.empty()) {
        for (const passes::LoweredStep &step : output.steps)
            if (step.kind == StepKind::Launch)
                std::cout << print(step.kernel, print_options(options));
    } else if (output.graph) {
        std::cout << print(*output.graph, print_options(options));
    }
}

std::string pass_names() {
    std::string names = "verify";
    for (const passes::GraphPass &pass : passes::graph_passes())
        names += fmt::format(", {}", pass.name);
    return names;
}

Graph run_named_passes(Graph graph, const Target &target, const Options &options,
                       passes::FusionNotes &notes) {
    for (const std::string &name : options.passes) {
        if (name == "verify") {
            verify(graph);
            continue;
        }
        const passes::GraphPass *pass = passes::find_graph_pass(name);
        if (!pass)
            throw Failure(ErrorKind::State,
                          fmt::format("There is no pass `{}`; the passes are {}.", name, pass_names()));
        graph = pass->run(std::move(graph), {target, &notes});
        if (options.verify)
            verify(graph);
        if (options.print_after_all)
            print_after({.pass = pass->name, .graph = &graph}, options);
    }
    return graph;
}

/// The Program of a graph: by the whole pipeline, or from where --passes left it.
Program compile_graph(const Graph &graph, const Target &target, const Options &options,
                      const passes::FusionNotes &notes) {
    passes::PipelineObserver observer;
    if (options.print_after_all)
        observer.after = [&](const passes::PassOutput &output) { print_after(output, options); };
    if (options.passes.empty())
        return passes::compile(graph, target, &observer).program;
    if (graph.clusters.empty() && !graph.nodes().empty())
        throw Failure(ErrorKind::State,
                      "What comes after --passes needs clusters: add `fuse` to the passes, or leave "
                      "--passes out to run all of them.");
    return passes::lower(graph, target, notes, &observer);
}

void print_program_as(const Program &program, const Target &target, const Options &options) {
    if (options.to == "program") {
        std::cout << print(program, print_options(options));
    } else if (options.to == "explain") {
        for (const std::string &note : program.notes)
            std::cout << note << "\n";
    } else if (options.to == "kernel") {
        for (const Kernel &kernel : program.kernels)
            std::cout << print(kernel, print_options(options));
    } else {
        for (Kernel kernel : program.kernels) {
            expand_math(kernel);
            const CompiledKernel compiled = codegen::compile_cpu(
                kernel, target.host().isa, {.want_text = true, .want_assembly = options.to == "asm"});
            std::cout << (options.to == "asm" ? compiled.assembly : compiled.text);
        }
    }
}

void run_graph(const Graph &graph, const Target &target, const Options &options,
               const passes::FusionNotes &notes) {
    const std::vector<HostTensor> inputs = inputs_of(graph);
    std::vector<HostTensor> expected, actual;
    if (options.run != "compiled")
        expected = interpret(graph, inputs);
    if (options.run != "interpreter")
        actual =
            run_program(graph, compile_graph(graph, target, options, notes), target, inputs, options.delay);
    std::cout << print_results(options.run == "interpreter" ? expected : actual);
    if (options.run != "check")
        return;
    if (const std::string difference = compare_results(expected, actual); !difference.empty())
        throw Failure(ErrorKind::Internal,
                      "Compiled code disagrees with the interpreter: " + difference + ".");
    std::cout << "compiled and interpreted results agree\n";
}

void process_graph(const std::string &text, const Options &options) {
    const Target target = make_target(options);
    Graph graph = parse_graph(text);
    verify(graph);
    passes::FusionNotes notes;
    graph = run_named_passes(std::move(graph), target, options, notes);
    if (!options.run.empty())
        run_graph(graph, target, options, notes);
    else if (options.to == "dot")
        std::cout << to_dot(graph);
    else if (!options.to.empty() && options.to != "graph")
        print_program_as(compile_graph(graph, target, options, notes), target, options);
    else if (!options.print_after_all || options.passes.empty())
        std::cout << print(graph, print_options(options));
}

/// Kernels and Programs have no data to run on, no passes, and few other forms.
void check_options(const Options &options, std::string_view block) {
    const auto refuse = [&](std::string_view option, std::string_view what) {
        throw Failure(ErrorKind::State,
                      fmt::format("--{} {}; {} holds a {}.", option, what, options.input, block));
    };
    if (!options.run.empty())
        refuse("run", "runs graphs, which name their data");
    if (!options.passes.empty())
        refuse("passes", "works on graphs");
    if (options.to.empty() || options.to == block)
        return;
    if (block == "program" || (options.to != "llvm" && options.to != "asm"))
        refuse("to=" + options.to,
               "is made of graphs" +
                   std::string(options.to == "llvm" || options.to == "asm" ? " and kernels" : ""));
}

void process(const Options &options) {
    if (!options.run.empty() && !options.to.empty())
        throw Failure(ErrorKind::State, fmt::format("--to={} prints and --run={} runs: give one of the two.",
                                                    options.to, options.run));
    const std::string text = read_input(options.input);
    const std::string block = first_block(text);
    if (block == "kernel" || block == "program")
        check_options(options, block);
    if (block == "kernel") {
        const Kernel kernel = parse_kernel(text);
        verify(kernel);
        if (options.to == "llvm" || options.to == "asm") {
            Program program;
            program.kernels.push_back(kernel);
            print_program_as(program, make_target(options), options);
        } else {
            std::cout << print(kernel, print_options(options));
        }
    } else if (block == "program") {
        const Program program = parse_program(text);
        verify(program);
        if (options.verify)
            passes::verify_schedule(program);
        std::cout << print(program, print_options(options));
    } else {
        process_graph(text, options);
    }
}

std::string location_suffix(const Failure &failure) {
    return failure.loc().known() ? fmt::format(" (at {})", to_string(failure.loc())) : std::string();
}

} // namespace
} // namespace lz::tools

int main(int argc, char **argv) {
    lz::tools::Options options;
    CLI::App app(
        "Reads Lazuli IR as text, runs passes over it, and prints it in any of its forms or runs it.",
        "lz-opt");
    app.set_version_flag("--version", "lz-opt " LAZULI_VERSION ", " + lz::codegen::compiler_version());
    app.add_option("input", options.input, "a .lz file; - is standard input");
    app.add_option("--passes", options.passes, "passes over the graph, in order: " + lz::tools::pass_names())
        ->delimiter(',');
    app.add_option("--to", options.to, "the form to print; all but graph and dot go through the pipeline")
        ->check(CLI::IsMember({"graph", "kernel", "llvm", "asm", "program", "dot", "explain"}));
    app.add_option("--run", options.run, "run it on the data in its text; check compares both ways")
        ->check(CLI::IsMember({"interpreter", "compiled", "check"}));
    app.add_option("--target", options.target,
                   "the machine to compile for: test (the same text everywhere) or host; default is test to "
                   "print and "
                   "host to run")
        ->check(CLI::IsMember({"test", "host"}));
    app.add_option("--devices", options.devices, "the target's GPUs: cuda:4 for four, estimated as H200s");
    app.add_option("--peers", options.peers,
                   "GPUs with peer access, in pairs: 0-1 both ways, 2to3 of 2 to the memory of 3")
        ->delimiter(',');
    app.add_option("--transfer", options.transfer, "what operands on different devices are")
        ->check(CLI::IsMember({"explicit", "automatic"}));
    app.add_option("--delay", options.delay, "run with random waits of streams, by this seed");
    app.add_flag("--print-after-all", options.print_after_all, "print after every pass");
    app.add_flag("--verify", options.verify, "verify after every pass, and the schedule of the Program");
    app.add_flag("--no-fuse", options.no_fuse, "every operation its own kernel");
    app.add_flag("--no-locations", options.no_locations, "print without loc(...)");
    CLI11_PARSE(app, argc, argv);
    try {
        lz::tools::process(options);
    } catch (const lz::ir::Failure &failure) {
        std::cout << std::flush;
        std::cerr << "lz-opt: " << failure.message() << lz::tools::location_suffix(failure) << "\n";
        return 1;
    } catch (const std::exception &error) {
        std::cout << std::flush;
        std::cerr << "lz-opt: " << error.what() << "\n";
        return 1;
    }
    return 0;
}
