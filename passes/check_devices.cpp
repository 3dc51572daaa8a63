#include "passes/check_devices.h"

#include <fmt/format.h>

namespace lz::passes {

using namespace ir;

namespace {

/// The failure of S11 as that of an operation.
Failure missing(Op op, const Target &target, Device asked, const Location &loc, uint32_t node) {
    std::string text = target.missing_device(asked).message();
    text[0] = 't'; // in the middle of a sentence now
    return {ErrorKind::Device, fmt::format("{}: {}", name(op), text), loc, node};
}

/// A few bytes that become a kernel argument or a small transfer.
bool is_cpu_scalar(const TensorType &type) {
    return type.device == kCpu && type.shape.rank() == 0;
}

bool takes_any_device(Op op) {
    return op == Op::Transfer || info(op).family == OpFamily::Effect;
}

/// `from dot at train.cpp:30`, `an input recorded at train.cpp:3`, `the input %x`.
std::string origin(const DeviceOperand &operand) {
    const std::string where = operand.loc.known() ? to_string(operand.loc) : std::string();
    if (!operand.made_by.empty())
        return fmt::format("from {}{}{}", operand.made_by, where.empty() ? "" : " at ", where);
    const std::string name = operand.input.empty() ? "an input" : fmt::format("the input %{}", operand.input);
    return where.empty() ? name : fmt::format("{} recorded at {}", name, where);
}

/// `a`, `b`, ... as in the call that the message proposes.
std::string letter(size_t operand) {
    return operand < 26 ? std::string(1, static_cast<char>('a' + operand)) : fmt::format("x{}", operand);
}

std::string list_of(std::span<const DeviceOperand> operands) {
    std::string text;
    for (size_t k = 0; k < operands.size(); ++k) {
        const TensorType &type = *operands[k].type;
        text += fmt::format("{}{} is {}{} on {} ({})", k == 0 ? "" : ", ", letter(k), name(type.dtype),
                            to_string(type.shape), to_string(type.device), origin(operands[k]));
    }
    return text;
}

/// `b.to(a.device()) and c.to(a.device())`: brings to `home` whatever is elsewhere.
std::string moves_to(std::span<const DeviceOperand> operands, size_t home) {
    std::vector<size_t> strangers;
    for (size_t k = 0; k < operands.size(); ++k)
        if (!is_cpu_scalar(*operands[k].type) && operands[k].type->device != operands[home].type->device)
            strangers.push_back(k);
    std::string text;
    for (size_t i = 0; i < strangers.size(); ++i)
        text += fmt::format("{}{}.to({}.device())",
                            i == 0                      ? ""
                            : i + 1 == strangers.size() ? " and "
                                                        : ", ",
                            letter(strangers[i]), letter(home));
    return text;
}

Failure mixed(Op op, std::span<const DeviceOperand> operands, size_t home, size_t stranger,
              const Location &loc, uint32_t node) {
    // What is on the CPU is most often what was forgotten there (S73).
    std::string fix = moves_to(operands, home);
    if (operands[home].type->device == kCpu)
        fix = fmt::format("{}, or {}", moves_to(operands, stranger), fix);
    return {
        ErrorKind::Device,
        fmt::format("{}: operands are on different devices: {}. Bring them together, for instance with {}.",
                    name(op), list_of(operands), fix),
        loc, node};
}

} // namespace

std::optional<Failure> device_error(Op op, std::span<const DeviceOperand> operands, const Target &target,
                                    const Location &loc, uint32_t node, std::span<const int64_t> writes) {
    for (const DeviceOperand &operand : operands)
        if (!target.find(operand.type->device))
            return missing(op, target, operand.type->device, loc, node);
    if (operands.size() < 2 || takes_any_device(op))
        return std::nullopt;
    size_t home = operands.size();
    for (size_t k = 0; k < operands.size() && home == operands.size(); ++k)
        if (!is_cpu_scalar(*operands[k].type))
            home = k;
    if (home == operands.size())
        return std::nullopt;
    const Device at = operands[home].type->device;
    for (const int64_t written : writes)
        if (operands[static_cast<size_t>(written)].type->device != at)
            return Failure(ErrorKind::Device,
                           fmt::format("{}: it runs on {} and changes {}, which is elsewhere: {}. Move that "
                                       "tensor before the call.",
                                       name(op), to_string(at), letter(static_cast<size_t>(written)),
                                       list_of(operands)),
                           loc, node);
    if (target.modes.transfer == TransferMode::Automatic)
        return std::nullopt;
    for (size_t k = home + 1; k < operands.size(); ++k) {
        const TensorType &type = *operands[k].type;
        if (type.device != at && !is_cpu_scalar(type) && !target.are_peers(at, type.device))
            return mixed(op, operands, home, k, loc, node);
    }
    return std::nullopt;
}

namespace {

/// Fails if the node makes something on, or names, a device that is not there.
void check_present(const Graph &graph, const Node &node, const Target &target, uint32_t blamed) {
    const auto check = [&](Device at) {
        if (!target.find(at))
            throw missing(node.op, target, at, node.loc, blamed);
    };
    for (uint32_t k = 0; k < node.result_count; ++k)
        check(graph.type(graph.result(node, k)).device);
    if (info(node.op).family == OpFamily::Effect)
        check(graph.attrs(node).device(attr::kEffectDevice));
    if (node.op == Op::WaitStream)
        check(graph.attrs(node).device(attr::kWaitStreamOf));
}

} // namespace

void check_devices(const Graph &graph, const Target &target) {
    std::vector<DeviceOperand> operands;
    for (NodeId id = 0; id < graph.nodes().size(); ++id) {
        const Node &node = graph.node(id);
        const uint32_t blamed = node.recorded != kNone ? node.recorded : id;
        check_present(graph, node, target, blamed);
        // Most nodes are right: the message's parts are gathered only for those that mix.
        const auto values = graph.operands(node);
        bool mixed = false;
        for (const ValueId v : values)
            mixed = mixed || graph.type(v).device != graph.type(values[0]).device;
        if (!mixed && (node.operand_count == 0 || target.find(graph.type(values[0]).device)))
            continue;
        operands.clear();
        for (const ValueId v : values) {
            if (const Node *p = graph.producer(v)) {
                operands.push_back({&graph.type(v), name(p->op), {}, p->loc});
            } else {
                const Param &param = graph.params[graph.value(v).result];
                operands.push_back({&graph.type(v), {}, param.name, param.loc});
            }
        }
        const auto writes =
            node.op == Op::Call ? graph.attrs(node).ints(attr::kCallWrites) : std::span<const int64_t>();
        if (const auto failure = device_error(node.op, operands, target, node.loc, blamed, writes))
            throw *failure;
    }
}

} // namespace lz::passes
