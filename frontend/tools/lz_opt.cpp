// lz-opt: reads IR as text, runs named passes, prints any of its forms, or runs it.
//
//   lz-opt in.lz --passes=check-devices,simplify,fuse --print-after-all
//   lz-opt in.lz --passes=fuse,lower-clusters,assign-streams > p.lz; lz-opt p.lz --passes=plan-memory
//   lz-opt in.lz --to=program          (the whole pipeline)
//   lz-opt in.lz --to=cuda --arch=sm_90 (CUDA C++ of the kernels of GPUs; --unaligned: for any address)
//   lz-opt in.lz --to=stats --arch=sm_90 (registers, spills, shared memory, occupancy of their machine code)
//   lz-opt in.lz --run=check           (compiled against the interpreter)
//   lz-opt net.lzp                     (what a program file holds; --to=graph, --to=program, --to=ptx: its
//   texts)

#include "ir/graph/verify.h"
#include "ir/kernel/verify.h"
#include "ir/program/verify.h"
#include "lz_opt_code.h"
#include "lz_opt_run.h"

#include "codegen/cpu.h"
#include "codegen/host.h"
#include "ir/diagnostic.h"
#include "ir/kernel/kernel.h"
#include "ir/program/program.h"
#include "ir/saved/saved_program.h"
#include "ir/text/text.h"
#include "passes/devices/places.h"
#include "passes/lower/lower_clusters.h"
#include "passes/pipeline.h"
#include "passes/verify/verify_schedule.h"
#include "runtime/api/parallel.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
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
    std::string arch;
    std::string devices;
    std::vector<std::string> peers;
    std::string transfer = "explicit";
    std::optional<uint64_t> delay;
    bool unaligned = false;
    bool print_after_all = false;
    bool verify = false;
    bool no_fuse = false;
    bool reproducible = false;
    std::string float32_matmul_precision = "highest";
    bool no_locations = false;
};

/// Whether GPUs are CUDA devices; else they are virtual ones.
bool for_cuda(const Options &options) {
    return options.to == "cuda" || options.to == "ptx" || options.to == "stats" || !options.arch.empty();
}

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

/// `sm_90`.
int sm_of(const Options &options) {
    const int sm = options.arch.empty()              ? CudaLimits{}.sm
                   : options.arch.starts_with("sm_") ? small_number(std::string_view(options.arch).substr(3))
                                                     : -1;
    if (sm < 0)
        bad_option("arch", options.arch, "sm_90 or another architecture of CUDA devices");
    return sm;
}

/// What this machine is, or the fixed target of tests. Running needs code for this machine.
Target make_target(const Options &options) {
    const bool runs = options.run == "compiled" || options.run == "check";
    const int gpus = number_of_gpus(options);
    Target target = for_cuda(options) ? cuda_test_target(std::max(gpus, 1)) : test_target(gpus);
    for (DeviceInfo &device : target.devices) {
        device.library = &runtime::cpu_library();
        if (device.runs_cuda()) {
            device.cuda().sm = sm_of(options);
            if (device.cuda().sm < 90)
                device.cuda().cluster_blocks = 1;
        }
    }
    for (const std::string &pair : options.peers)
        add_peers(target, pair);
    target.modes.transfer =
        options.transfer == "automatic" ? TransferMode::Automatic : TransferMode::Explicit;
    if (options.target.empty() ? runs : options.target == "host") {
        for (DeviceInfo &device : target.devices)
            if (!device.runs_cuda())
                device.cpu().isa = codegen::host_isa();
        target.set_threads(runtime::num_threads());
    }
    target.modes.fuse = !options.no_fuse;
    target.modes.reproducible = options.reproducible;
    target.modes.float32_matmul = *ir::matmul_precision(options.float32_matmul_precision);
    target.modes.verify = options.verify;
    return target;
}

/// Prints the newest form that a pass left.
void print_after(const passes::PassOutput &output, const Options &options) {
    std::cout << "// ---- after " << output.pass << "\n";
    if (output.program)
        std::cout << print(*output.program, print_options(options));
    else if (output.graph)
        std::cout << print(*output.graph, print_options(options));
}

constexpr std::string_view kLower = "lower-clusters";

std::string pass_names() {
    std::string names = "verify";
    for (const passes::GraphPass &pass : passes::graph_passes())
        names += fmt::format(", {}", pass.name);
    names += fmt::format(", {}", kLower);
    for (const passes::ProgramPass &pass : passes::program_passes())
        names += fmt::format(", {}", pass.name);
    return names;
}

/// What is worked on: a graph, and the Program that it becomes or that was read in its stead.
class Module {
public:
    Module(Graph graph, const Target &target, const Options &options)
        : graph_(std::move(graph)), user_streams_(passes::user_streams(*graph_)), target_(target),
          options_(options), context_{target, &*graph_, &notes_} {
        if (options.print_after_all)
            observer_.after = [&](const passes::PassOutput &output) { print_after(output, options_); };
    }
    Module(Program program, const Target &target, const Options &options)
        : program_(std::move(program)), target_(target), options_(options), context_{target} {
        if (options.print_after_all)
            observer_.after = [&](const passes::PassOutput &output) { print_after(output, options_); };
    }
    Module(const Module &) = delete;
    Module &operator=(const Module &) = delete;

    /// Runs the passes of --passes.
    void run_named_passes() {
        for (const std::string &name : options_.passes)
            run(name);
    }

    /// Whether it is a Program by now.
    bool is_program() const { return program_.has_value(); }
    /// As passes over graphs left it.
    const Graph &graph() const { return *graph_; }
    /// The same; null where a Program was read.
    const Graph *read_graph() const { return graph_ ? &*graph_ : nullptr; }

    /// The Program as --passes left it; of a graph, by the passes that are left.
    const Program &program() {
        if (program_)
            return *program_;
        if (options_.passes.empty())
            return program_.emplace(passes::compile(*graph_, target_, &observer_).program);
        if (graph_->clusters.empty() && !graph_->nodes().empty())
            throw Failure(ErrorKind::State,
                          "What comes after --passes needs clusters: add `fuse` to the passes, or leave "
                          "--passes out to run all of them.");
        return program_.emplace(passes::lower(*graph_, target_, &notes_, &observer_, &user_streams_));
    }
    const Program &final_program() {
        program();
        passes::finish(*program_, context_, &observer_);
        return *program_;
    }

private:
    void run(const std::string &which) {
        if (which == "verify") {
            program_ ? verify(*program_) : verify(*graph_);
            return;
        }
        if (const passes::GraphPass *pass = passes::find_graph_pass(which)) {
            need_graph(which);
            graph_ = pass->run(std::move(*graph_), {target_, &notes_});
        } else if (which == kLower) {
            need_graph(which);
            program_ = passes::lower_clusters(*graph_, target_);
            program_->user_streams = user_streams_;
        } else if (const passes::ProgramPass *pass = passes::find_program_pass(which)) {
            need_stage(*pass);
            pass->run(*program_, context_);
        } else {
            throw Failure(ErrorKind::State,
                          fmt::format("There is no pass `{}`; the passes are {}.", which, pass_names()));
        }
        if (options_.verify)
            program_ ? verify(*program_) : verify(*graph_);
        if (options_.print_after_all)
            print_after({.pass = which,
                         .graph = graph_ ? &*graph_ : nullptr,
                         .program = program_ ? &*program_ : nullptr},
                        options_);
    }

    void need_graph(std::string_view pass) const {
        if (program_)
            throw Failure(ErrorKind::State,
                          fmt::format("`{}` works on graphs, and this is a program by then.", pass));
    }
    void need_stage(const passes::ProgramPass &pass) const {
        if (!program_)
            throw Failure(ErrorKind::State,
                          fmt::format("`{}` works on programs: add `{}` before it.", pass.name, kLower));
        if (program_->stage != pass.takes)
            throw Failure(ErrorKind::State,
                          fmt::format("`{}` takes a program that is {}, and this one is {}.", pass.name,
                                      name(pass.takes), name(program_->stage)));
        if (pass.name == "explain" && !graph_)
            throw Failure(ErrorKind::State, "`explain` names operations of the graph, which was not read.");
    }

    std::optional<Graph> graph_;
    std::vector<StreamRef> user_streams_; // before passes add others
    std::optional<Program> program_;
    const Target &target_;
    const Options &options_;
    passes::FusionNotes notes_;
    passes::ProgramContext context_;
    passes::PipelineObserver observer_;
};

void print_program_as(const Graph *graph, const Program &program, const Target &target,
                      const Options &options) {
    if (options.to == "program" || options.to.empty()) {
        std::cout << print(program, print_options(options));
    } else if (options.to == "explain") {
        for (const std::string &note : program.notes)
            std::cout << note << "\n";
    } else {
        const bool lines = graph && !options.no_locations &&
                           std::ranges::any_of(graph->nodes(), [](const Node &n) { return n.loc.known(); });
        print_kernels(program, target,
                      {.form = options.to,
                       .sm = sm_of(options),
                       .unaligned = options.unaligned,
                       .locations = !options.no_locations,
                       .lines_of = lines ? graph : nullptr});
    }
}

/// In the form of --to; what --print-after-all has printed last is not printed again.
void print_module(Module &module, const Target &target, const Options &options) {
    const bool printed = options.print_after_all && !options.passes.empty();
    if ((options.to.empty() || options.to == "graph") && !module.is_program()) {
        if (!printed)
            std::cout << print(module.graph(), print_options(options));
    } else if (options.to == "graph") {
        throw Failure(ErrorKind::State, "--to=graph prints graphs, and this is a program by then.");
    } else if (!options.to.empty() || !printed) {
        const Program &program = module.program();
        print_program_as(module.read_graph(), program, target, options);
    }
}

void run_graph(Module &module, const Target &target, const Options &options) {
    const Graph &graph = module.graph();
    const std::vector<HostTensor> inputs = inputs_of(graph);
    std::vector<HostTensor> expected, actual;
    if (options.run != "compiled")
        expected = interpret(graph, inputs);
    if (options.run != "interpreter")
        actual = run_program(graph, module.final_program(), target, inputs, options.delay);
    std::cout << print_results(options.run == "interpreter" ? expected : actual);
    if (options.run != "check")
        return;
    if (const std::string difference = compare_results(expected, actual); !difference.empty())
        throw Failure(ErrorKind::Internal,
                      "Compiled code disagrees with the interpreter: " + difference + ".");
    std::cout << "compiled and interpreted results agree\n";
}

/// Whether the form is made of a kernel alone.
bool is_code(const std::string &form) {
    return form == "llvm" || form == "asm" || form == "cuda" || form == "ptx" || form == "stats";
}

void process_graph(const std::string &text, const Options &options) {
    const Target target = make_target(options);
    Graph graph = parse_graph(text);
    verify(graph);
    if (is_code(options.to) || options.to == "kernel") // steps name what they compute by these numbers
        for (NodeId id = 0; id < graph.nodes().size(); ++id)
            if (graph.node(id).recorded == kNone)
                graph.set_recorded(id, id);
    Module module(graph, target, options);
    module.run_named_passes();
    if (!options.run.empty())
        run_graph(module, target, options);
    else if (options.to == "dot")
        std::cout << to_dot(module.graph());
    else
        print_module(module, target, options);
}

void process_program(const std::string &text, const Options &options) {
    const Target target = make_target(options);
    Program program = parse_program(text);
    verify(program);
    if (options.verify && program.stage == Stage::Final)
        passes::verify_schedule(program);
    Module module(std::move(program), target, options);
    module.run_named_passes();
    print_module(module, target, options);
}

/// Kernels and Programs have no data to run on, kernels no passes, and not all of the other forms.
void check_options(const Options &options, std::string_view block) {
    const auto refuse = [&](std::string_view option, std::string_view what) {
        throw Failure(ErrorKind::State,
                      fmt::format("--{} {}; {} holds a {}.", option, what, options.input, block));
    };
    const std::string &to = options.to;
    const bool code = is_code(to);
    if (!options.run.empty())
        refuse("run", "runs graphs, which name their data");
    if (block == "kernel" && !options.passes.empty())
        refuse("passes", "works on graphs and programs");
    if (to == "graph" || to == "dot" || (block == "kernel" && !to.empty() && to != "kernel" && !code))
        refuse("to=" + to, "is made of graphs");
}

/// A program file: what is in it, or the texts that it holds.
void process_saved(const std::string &file, const Options &options) {
    if (!options.run.empty() || !options.passes.empty() ||
        (!options.to.empty() && options.to != "graph" && options.to != "program" && options.to != "ptx"))
        throw Failure(
            ErrorKind::State,
            fmt::format("{} is a program file, of which --to=graph and --to=program print the texts, and "
                        "--to=ptx the code for CUDA devices; they can be passes' and --run's input.",
                        options.input));
    SavedProgram saved;
    try {
        saved = read_saved(std::as_bytes(std::span(file)));
    } catch (const Failure &failure) {
        throw Failure(failure.kind(), fmt::format("{} {}.", options.input, failure.message()));
    }
    if (options.to.empty()) {
        std::cout << describe(saved);
        return;
    }
    for (const SavedPlan &plan : saved.plans) {
        if (options.to == "graph")
            std::cout << plan.graph;
        for (const SavedVariant &variant : plan.variants)
            if (options.to == "program")
                std::cout << "// for " << (variant.any_processor ? "any processor" : name(variant.level))
                          << "\n"
                          << variant.program;
    }
    for (const SavedCode &code : saved.code)
        if (options.to == "ptx" && code.format == CodeFormat::Ptx)
            std::cout << "// " << code.name << "\n"
                      << std::string_view(reinterpret_cast<const char *>(code.object.data()),
                                          code.object.size())
                      << "\n";
}

void process(const Options &options) {
    if (!options.run.empty() && !options.to.empty())
        throw Failure(ErrorKind::State, fmt::format("--to={} prints and --run={} runs: give one of the two.",
                                                    options.to, options.run));
    if (!options.run.empty() && for_cuda(options))
        throw Failure(ErrorKind::State, "--arch says what code is made for; --run runs on the host.");
    if (for_cuda(options) && (options.to == "llvm" || options.to == "asm"))
        throw Failure(ErrorKind::State,
                      fmt::format("--to={} is made for CPUs; --arch is of CUDA devices.", options.to));
    const std::string text = read_input(options.input);
    if (text.starts_with(kProgramFileMagic)) {
        process_saved(text, options);
        return;
    }
    const std::string block = first_block(text);
    if (block == "kernel" || block == "program")
        check_options(options, block);
    if (block == "kernel") {
        const Kernel kernel = parse_kernel(text);
        verify(kernel);
        if (is_code(options.to)) {
            Program program;
            program.kernels.push_back(kernel);
            print_program_as(nullptr, program, make_target(options), options);
        } else {
            std::cout << print(kernel, print_options(options));
        }
    } else if (block == "program") {
        process_program(text, options);
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
    app.add_option("input", options.input, "a .lz file, or a program file; - is standard input");
    app.add_option("--passes", options.passes, "passes, in order: " + lz::tools::pass_names())
        ->delimiter(',');
    app.add_option("--to", options.to, "the form to print; all but graph and dot go through the pipeline")
        ->check(CLI::IsMember(
            {"graph", "kernel", "llvm", "asm", "cuda", "ptx", "stats", "program", "dot", "explain"}));
    app.add_option("--run", options.run, "run it on the data in its text; check compares both ways")
        ->check(CLI::IsMember({"interpreter", "compiled", "check"}));
    app.add_option("--target", options.target,
                   "the machine to compile for: test (the same text everywhere) or host; default is test to "
                   "print and "
                   "host to run")
        ->check(CLI::IsMember({"test", "host"}));
    app.add_option(
        "--arch", options.arch,
        "GPUs are CUDA devices of this architecture, sm_90 if only --to=cuda, ptx or stats asks for them");
    app.add_flag("--unaligned", options.unaligned,
                 "--to=cuda and ptx: the kernels for launches with addresses that are no multiples of 16 "
                 "bytes; --to=stats has both");
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
    app.add_flag("--reproducible", options.reproducible, "products have one order on every device");
    app.add_option("--float32-matmul-precision", options.float32_matmul_precision,
                   "what products of f32 may round their operands to on CUDA devices")
        ->check(CLI::IsMember({"highest", "high", "medium"}));
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
