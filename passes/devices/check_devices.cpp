#include "passes/devices/check_devices.h"

#include "ir/diagnostic.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace lz::passes {

using namespace ir;

namespace {

/// A few bytes that become a kernel argument or a small transfer.
bool is_cpu_scalar(const TensorType &type) {
    return type.device == kCpu && type.shape.rank() == 0;
}

bool takes_any_device(const Node &node) {
    return (node.op == Op::Transfer && node.operand_count == 1) || info(node.op).family == OpFamily::Effect;
}

/// `a`, `b`, ... as in the call that a message proposes.
std::string letter(size_t operand) {
    return operand < 26 ? std::string(1, static_cast<char>('a' + operand)) : fmt::format("x{}", operand);
}

/// Two operands that cannot meet: the one where the operation runs, and one that is elsewhere.
struct Clash {
    size_t home, stranger;
};

class Checker {
public:
    Checker(const Graph &graph, const Target &target) : graph_(graph), target_(target) {}

    void run() {
        for (NodeId id = 0; id < graph_.nodes().size(); ++id) {
            const Node &node = graph_.node(id);
            node_ = &node;
            blamed_ = node.recorded != kNone ? node.recorded : id;
            check_present();
            // Most nodes are right: more is looked at only for those that mix.
            const auto operands = operands_of(node);
            const auto elsewhere = [&](ValueId v) { return device(v) != device(operands[0]); };
            if (takes_any_device(node) || std::ranges::none_of(operands, elsewhere))
                continue;
            home_ = home_device(operands);
            if (target_.modes.transfer != TransferMode::Automatic && clash_of(operands))
                throw mixed();
        }
    }

private:
    Device device(ValueId v) const { return graph_.type(v).device; }

    /// The operands that meet in a node. Those of an operation for which a transfer moves one of them stand
    /// behind that one.
    std::span<const ValueId> operands_of(const Node &node) const {
        const auto operands = graph_.operands(node);
        return node.op == Op::Transfer && operands.size() > 1 ? operands.subspan(1) : operands;
    }

    Failure failure(const std::string &what) const {
        return {ErrorKind::Device, fmt::format("{}: {}", called(node_->op, node_->loc), what), node_->loc,
                blamed_};
    }

    /// S11: what the node reads, makes or names is on a device that is there.
    void check_present() const {
        const auto check = [&](Device at) {
            if (target_.find(at))
                return;
            std::string text = target_.missing_device(at).message();
            text[0] = 't'; // in the middle of a sentence now
            throw failure(text);
        };
        for (const ValueId v : graph_.operands(*node_))
            check(device(v));
        for (uint32_t k = 0; k < node_->result_count; ++k)
            check(device(graph_.result(*node_, k)));
        if (info(node_->op).family == OpFamily::Effect)
            check(graph_.attrs(*node_).device(attr::kEffectDevice));
        if (node_->op == Op::WaitStream)
            check(graph_.attrs(*node_).device(attr::kWaitStreamOf));
    }

    /// Where the operation runs.
    Device home_device(std::span<const ValueId> operands) const {
        if (node_->op == Op::Transfer)
            return device(graph_.result(*node_));
        const auto home =
            std::ranges::find_if(operands, [&](ValueId v) { return !is_cpu_scalar(graph_.type(v)); });
        return home == operands.end() ? kCpu : device(*home);
    }
    bool stays_away(ValueId v) const { return device(v) != home_ && !is_cpu_scalar(graph_.type(v)); }

    std::optional<Clash> clash_of(std::span<const ValueId> operands) const {
        const auto there = [&](ValueId v) { return device(v) == home_; };
        // Above all what decided: not a number on the CPU, unless nothing else is there.
        auto home = std::ranges::find_if(
            operands, [&](ValueId v) { return there(v) && !is_cpu_scalar(graph_.type(v)); });
        if (home == operands.end())
            home = std::ranges::find_if(operands, there);
        const auto stranger = std::ranges::find_if(
            operands, [&](ValueId v) { return stays_away(v) && !target_.may_access(home_, device(v)); });
        if (home == operands.end() || stranger == operands.end())
            return std::nullopt;
        return Clash{static_cast<size_t>(home - operands.begin()),
                     static_cast<size_t>(stranger - operands.begin())};
    }

    /// The tensors that went into the call of which the node is a part: for `linear(x, w, b)` these, whether
    /// the node that mixes is the product, which b has no part in, or adds b to a product that the user never
    /// named.
    std::vector<ValueId> handed_in() const {
        std::vector<ValueId> found, stack;
        std::vector<bool> seen(graph_.values().size());
        const auto push = [&](const Node &n) {
            const auto operands = operands_of(n);
            stack.insert(stack.end(), operands.rbegin(), operands.rend()); // the first is looked at first
        };
        const auto gather = [&](const Node &last) {
            push(last);
            while (!stack.empty()) {
                const ValueId v = stack.back();
                stack.pop_back();
                if (seen[v])
                    continue;
                seen[v] = true;
                const Node *const producer = graph_.producer(v);
                if (producer && same_call(producer->loc, node_->loc))
                    push(*producer);
                else
                    found.push_back(v);
            }
        };
        gather(*node_);
        for (auto later = static_cast<size_t>(node_ - graph_.nodes().data()) + 1;
             later < graph_.nodes().size(); ++later)
            if (const Node &n = graph_.node(static_cast<NodeId>(later));
                same_call(n.loc, node_->loc) && !takes_any_device(n))
                gather(n);
        return found;
    }

    Failure mixed() const {
        std::vector<ValueId> operands = handed_in();
        std::optional<Clash> clash = clash_of(operands);
        if (!clash) { // the call itself made what is elsewhere
            const auto own = operands_of(*node_);
            operands.assign(own.begin(), own.end());
            clash = clash_of(operands);
        }
        // What is on the CPU is most often what was forgotten there (S73).
        std::string fix = moves_to(operands, clash->home);
        // A tensor that is changed in place cannot be moved.
        const bool in_place = called(node_->op, node_->loc).ends_with('_');
        if (home_ == kCpu && !in_place)
            fix = fmt::format("{}, or {}", moves_to(operands, clash->stranger), fix);
        return failure(
            fmt::format("operands are on different devices: {}. Bring them together, for instance with {}.{}",
                        list_of(operands), fix, one_way(device(operands[clash->stranger]))));
    }

    /// Access has a direction, and the user may have given the other one.
    std::string one_way(Device stranger) const {
        if (!target_.may_access(stranger, home_))
            return {};
        return fmt::format(
            " {0} may access the memory of {1}, but this runs on {1}, which may not access that of "
            "{0}: enable_peer_access(\"{1}\", \"{0}\") allows it.",
            to_string(stranger), to_string(home_));
    }

    /// `made by randn at train.cpp:30`; for text without lines `the input %x`.
    std::string origin(ValueId v) const {
        const Node *const producer = graph_.producer(v);
        const Param *const param = producer ? nullptr : &graph_.params[graph_.value(v).result];
        const Location &loc = producer ? producer->loc : param->loc;
        if (!producer && !loc.known())
            return param->name.empty() ? "an input" : fmt::format("the input %{}", param->name);
        std::string text = "made";
        if (producer || loc.function != 0)
            text += fmt::format(" by {}", producer ? called(producer->op, loc) : function_name(loc.function));
        return loc.known() ? fmt::format("{} at {}", text, to_string(loc)) : text;
    }

    std::string list_of(std::span<const ValueId> operands) const {
        std::string text;
        for (size_t k = 0; k < operands.size(); ++k) {
            const TensorType &type = graph_.type(operands[k]);
            text += fmt::format("{}{} is {}{} on {} ({})", k == 0 ? "" : ", ", letter(k), name(type.dtype),
                                to_string(type.shape), to_string(type.device), origin(operands[k]));
        }
        return text;
    }

    /// `b.to(a.device()) and c.to(a.device())`: brings to `home` whatever is elsewhere.
    std::string moves_to(std::span<const ValueId> operands, size_t home) const {
        std::vector<size_t> strangers;
        for (size_t k = 0; k < operands.size(); ++k)
            if (!is_cpu_scalar(graph_.type(operands[k])) && device(operands[k]) != device(operands[home]))
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

    const Graph &graph_;
    const Target &target_;
    const Node *node_ = nullptr;
    uint32_t blamed_ = 0;
    Device home_ = kCpu; ///< where the node runs
};

} // namespace

void check_devices(const Graph &graph, const Target &target) {
    Checker(graph, target).run();
}

} // namespace lz::passes
