#include "passes/check_devices.h"

#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::passes {

using namespace ir;

namespace {

/// A few bytes that become a kernel argument or a small transfer.
bool is_cpu_scalar(const TensorType &type) {
    return type.device == kCpu && type.shape.rank() == 0;
}

bool are_peers(const Target &target, Device a, Device b) {
    if (a.kind != DeviceKind::Cuda || b.kind != DeviceKind::Cuda)
        return false;
    for (const DeviceInfo &d : target.devices)
        if (d.device == a)
            return std::ranges::find(d.peers, b.index) != d.peers.end();
    return false;
}

/// `from dot at train.cpp:30`, `from the input %x`.
std::string origin(const Graph &graph, ValueId v) {
    if (const Node *node = graph.producer(v))
        return node->loc.known() ? fmt::format("from {} at {}", name(node->op), to_string(node->loc))
                                 : fmt::format("from {}", name(node->op));
    return fmt::format("from the input %{}", graph.params[graph.value(v).result].name);
}

/// `a`, `b`, ... as in the call that the message proposes.
std::string letter(size_t operand) {
    return operand < 26 ? std::string(1, static_cast<char>('a' + operand)) : fmt::format("x{}", operand);
}

[[noreturn]] void reject(const Graph &graph, NodeId id, size_t home, size_t stranger) {
    const Node &node = graph.node(id);
    const auto operands = graph.operands(node);
    std::string listed;
    for (size_t k = 0; k < operands.size(); ++k) {
        const TensorType &type = graph.type(operands[k]);
        listed += fmt::format("{}{} is {}{} on {} ({})", k == 0 ? "" : ", ", letter(k), name(type.dtype),
                              to_string(type.shape), to_string(type.device), origin(graph, operands[k]));
    }
    throw Failure(ErrorKind::Device,
                  fmt::format("{}: operands are on different devices: {}. Move one of them, for instance "
                              "{}.to({}.device()).",
                              name(node.op), listed, letter(stranger), letter(home)),
                  node.loc, node.recorded != kNone ? node.recorded : id);
}

} // namespace

void check_devices(const Graph &graph, const Target &target) {
    for (NodeId id = 0; id < graph.nodes().size(); ++id) {
        const Node &node = graph.node(id);
        if (node.operand_count < 2 || node.op == Op::Transfer || info(node.op).family == OpFamily::Effect)
            continue;
        const auto operands = graph.operands(node);
        size_t home = operands.size();
        for (size_t k = 0; k < operands.size(); ++k) {
            const TensorType &type = graph.type(operands[k]);
            if (is_cpu_scalar(type))
                continue;
            if (home == operands.size())
                home = k;
            else if (const Device at = graph.type(operands[home]).device;
                     type.device != at && !are_peers(target, at, type.device))
                reject(graph, id, home, k);
        }
    }
}

} // namespace lz::passes
