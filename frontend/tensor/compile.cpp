#include "lazuli/compile.h"

#include "frontend/autograd/kept.h"
#include "frontend/engine/engine.h"
#include "frontend/record/failure_record.h"
#include "frontend/record/record.h"
#include "frontend/record/recording/flops.h"
#include "frontend/record/sync/sync.h"
#include "ir/text/text.h"

#include <fmt/format.h>
#include <vector>

namespace lz {
namespace {

std::string failed_text(const detail::FailureRecord &record) {
    const ir::Failure &failure = record.failure;
    const ir::Location at = failure.loc().known() ? failure.loc() : detail::to_ir(record.loc);
    std::string text =
        "The tensor could not be computed, and nothing is pending for it: " + failure.message();
    if (text.ends_with('.'))
        text.pop_back();
    return text + (at.known() ? ", at " + ir::to_string(at) + ".\n" : ".\n");
}

} // namespace

std::string dump(const Tensor &tensor, Location loc) {
    return ir::print(detail::pending_graph(detail::node_of(tensor, "dump", loc)), {.number_effects = true});
}

std::string dump(Location) {
    return ir::print(detail::pending_graph(nullptr), {.number_effects = true});
}

std::string explain(const Tensor &tensor, Location loc) {
    return detail::translated(loc, [&] {
        detail::Node *const node = detail::node_of(tensor, "explain", loc);
        if (has_failed(node->state.load(std::memory_order_acquire)))
            return failed_text(*node->failure);
        const ir::Graph graph = detail::pending_graph(node);
        const std::string kept = detail::explain_kept(tensor);
        if (graph.nodes().empty())
            return "The tensor is computed already: nothing is pending for it.\n" + kept;
        return engine::Engine::get().explain(graph) + kept;
    });
}

std::string explain(Location loc) {
    return detail::translated(loc,
                              [] { return engine::Engine::get().explain(detail::pending_graph(nullptr)); });
}

double pending_flops(const Tensor &tensor, std::span<const Tensor> given, Location loc) {
    std::vector<detail::Node *> stops;
    for (const Tensor &one : given)
        if (one.defined())
            stops.push_back(detail::node_of(one, "pending_flops", loc));
    return detail::pending_flops(detail::node_of(tensor, "pending_flops", loc), stops);
}

std::string verify_schedule(const Tensor &tensor, Location loc) {
    return detail::translated(loc, [&] {
        return engine::Engine::get().verify_schedule(
            detail::pending_graph(detail::node_of(tensor, "verify_schedule", loc)));
    });
}

std::string verify_schedule(Location loc) {
    return detail::translated(
        loc, [] { return engine::Engine::get().verify_schedule(detail::pending_graph(nullptr)); });
}

CompileStats compile_stats() {
    const engine::CompileStats s = engine::Engine::get().stats();
    return {.programs_compiled = s.programs_compiled,
            .programs_resized = s.programs_resized,
            .programs_reused = s.programs_reused,
            .kernels_compiled = s.kernels_compiled,
            .kernels_from_memory = s.kernels_from_memory,
            .kernels_from_disk = s.kernels_from_disk,
            .kernel_launches = s.kernel_launches,
            .pass_seconds = s.pass_seconds,
            .codegen_seconds = s.codegen_seconds};
}

void reset_compile_stats() {
    engine::Engine::get().reset_stats();
}

int num_threads() {
    return engine::Engine::get().num_threads();
}

void set_num_threads(int n, Location loc) {
    detail::translated(loc, [n] { engine::Engine::get().set_num_threads(n); });
}

bool is_reproducible() {
    return engine::Engine::get().reproducible();
}

void set_reproducible(bool reproducible) {
    engine::Engine::get().set_reproducible(reproducible);
}

MatmulPrecision float32_matmul_precision() {
    return static_cast<MatmulPrecision>(engine::Engine::get().float32_matmul());
}

void set_float32_matmul_precision(MatmulPrecision precision) {
    engine::Engine::get().set_float32_matmul(static_cast<ir::MatmulPrecision>(precision));
}

void set_float32_matmul_precision(std::string_view name, Location loc) {
    const auto precision = ir::matmul_precision(name);
    if (!precision)
        throw StateError(fmt::format("set_float32_matmul_precision: \"{}\" is no precision: there are "
                                     "\"highest\", \"high\" and \"medium\".",
                                     name),
                         loc);
    engine::Engine::get().set_float32_matmul(*precision);
}

} // namespace lz
