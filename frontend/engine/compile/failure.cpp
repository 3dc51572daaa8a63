#include "frontend/engine/compile/failure.h"

#include "ir/op.h"
#include "passes/operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace lz::engine {
namespace {

/// Longer lists help nobody.
constexpr size_t kListed = 8;

/// The nodes of the operations of the first step that launches the kernel, as recorded: one a call of a
/// function that is made of several, and none that costs nothing.
std::vector<const ir::Node *> operations_of(const ir::Graph &graph, const ir::Program &program,
                                            size_t kernel) {
    const auto step = std::ranges::find_if(program.steps, [&](const ir::Step &s) {
        return s.kind == ir::StepKind::Launch && s.kernel == kernel;
    });
    std::vector<const ir::Node *> found;
    if (step == program.steps.end())
        return found;
    for (ir::NodeId id = 0; id < graph.nodes().size(); ++id) {
        const ir::Node &node = graph.node(id);
        const uint32_t recorded = node.recorded != ir::kNone ? node.recorded : id;
        if (std::ranges::find(step->recorded, recorded) == step->recorded.end() ||
            (passes::is_free(node.op) && node.loc.function == 0 && recorded != step->recorded.back()))
            continue;
        const auto same = [&](const ir::Node *other) { return ir::same_call(other->loc, node.loc); };
        if (std::ranges::none_of(found, same))
            found.push_back(&node);
    }
    return found;
}

/// `a, b and c`.
std::string listed(const std::vector<std::string> &names) {
    std::string text;
    const size_t shown = names.size() > kListed ? kListed - 1 : names.size();
    for (size_t i = 0; i < shown; ++i)
        text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
    return shown == names.size() ? text : fmt::format("{} and {} more", text, names.size() - shown);
}

/// `add (main.cpp:12)`
std::string with_line(const ir::Node &node) {
    return node.loc.known() ? fmt::format("{} ({})", ir::called(node.op, node.loc), to_string(node.loc))
                            : std::string(ir::called(node.op, node.loc));
}

} // namespace

std::string kernel_lines(const ir::Graph &graph, const ir::Program &program, size_t kernel,
                         std::string_view comment) {
    std::string text;
    for (const ir::Node *node : operations_of(graph, program, kernel))
        text += fmt::format("{} {}\n", comment, with_line(*node));
    return text;
}

std::string kernel_called(const ir::Graph &graph, const ir::Program &program, size_t kernel) {
    std::vector<std::string> names;
    for (const ir::Node *node : operations_of(graph, program, kernel))
        if (std::string name(ir::called(node->op, node->loc)); std::ranges::find(names, name) == names.end())
            names.push_back(std::move(name));
    return fmt::format("`{}`", listed(names));
}

ir::Failure compile_failure(const ir::Failure &failure, size_t kernel, const ir::Graph &graph,
                            const ir::Program &program) {
    const std::vector<const ir::Node *> nodes = operations_of(graph, program, kernel);
    if (nodes.empty())
        return failure;
    std::vector<std::string> names;
    for (const ir::Node *node : nodes)
        names.push_back(with_line(*node));
    const ir::Node &last = *nodes.back();
    const auto id = static_cast<uint32_t>(&last - graph.nodes().data());
    return {failure.kind(),
            fmt::format("{}: the kernel of {} could not be made: {}", ir::called(last.op, last.loc),
                        listed(names), failure.message()),
            last.loc, last.recorded != ir::kNone ? last.recorded : id};
}

} // namespace lz::engine
