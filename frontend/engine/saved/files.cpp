#include "frontend/engine/saved/files.h"

#include "codegen/host.h"
#include "frontend/engine/devices.h"
#include "frontend/engine/executable.h"
#include "ir/diagnostic.h"
#include "ir/text/text.h"
#include "runtime/saved/load.h"
#include "runtime/saved/program_file.h"
#include "runtime/saved/weights.h"

#if LAZULI_CUDA
#include "runtime/cuda/gpus.h"
#endif

#include <fmt/format.h>

#include <utility>

namespace lz::engine {
namespace {

runtime::LoadingPlace place_of(Devices &devices) {
    return {
        .devices = devices.slots(),
        .no_gpu = devices.why_no_gpu(),
        .may_access = [](ir::Device who, ir::Device whose) { return Engine::get().peer_access(who, whose); },
        .source = devices.library_source(),
#if LAZULI_CUDA
        .why_no_cublaslt = runtime::cuda::why_no_cublaslt,
#endif
        .library = &devices.library_code(),
        .compiles = true};
}

} // namespace

std::string called_function(const Executable &executable) {
    for (const ir::Node &node : executable.graph.nodes())
        if (node.op == ir::Op::Call)
            return std::string(executable.graph.attrs(node).string(ir::attr::kCallSymbol));
    return {};
}

std::string graph_text(const Executable &executable) {
    return ir::print(executable.graph);
}

void write_file(const std::string &path, const ir::SavedProgram &program) {
    runtime::write_program_file(path, ir::write_saved(program));
}

std::vector<std::byte> read_file(const std::string &path, bool from_anybody) {
    return runtime::read_program_file(path, from_anybody);
}

void refer_to_weights(ir::SavedProgram &program, const std::string &path, const std::string &weights) {
    runtime::refer_to_weights(program, path, weights);
}

std::vector<std::shared_ptr<const void>> find_weights(ir::SavedProgram &program, const std::string &path,
                                                      const std::string &weights, bool check, bool map) {
    return runtime::find_weights(program, {path, weights, check, map});
}

std::string made_by() {
    return codegen::compiler_version();
}

struct SavedLoader::Impl {
    explicit Impl(const ir::SavedProgram &program)
        : place(place_of(Engine::get().devices())), loader(program, place) {}

    const runtime::LoadingPlace place;
    runtime::ProgramLoader loader;
};

SavedLoader::SavedLoader(const ir::SavedProgram &program) : impl_(std::make_unique<Impl>(program)) {}
SavedLoader::~SavedLoader() = default;

ExecutablePtr SavedLoader::load(const ir::SavedPlan &plan) {
    auto executable = std::make_shared<Executable>();
    executable->program = impl_->loader.load(plan);
    executable->donors.assign(plan.results.size(), -1);
    executable->peers = runtime::peers_of(executable->program->program());
    return executable;
}

void check_peers(const Executable &executable) {
    for (const auto &[who, whose] : executable.peers)
        if (!Engine::get().peer_access(who, whose))
            throw ir::Failure(ir::ErrorKind::Device,
                              fmt::format("{} has no access to the memory of {} any more, which the program "
                                          "was saved with",
                                          ir::to_string(who), ir::to_string(whose)));
}

} // namespace lz::engine
