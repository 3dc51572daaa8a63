#pragma once
/// Inside simplify: what a rule sees, and the table of rules.

#include "ir/graph/graph.h"
#include "passes/simplify/fold.h"

#include <optional>
#include <span>
#include <string_view>

namespace lz::passes {

class Simplifier;

/// A node about to be made: its operands are values of the new graph and are simplified already.
struct Candidate {
    Simplifier &simplifier;
    ir::AttrView attrs;
    std::span<const ir::ValueId> operands;
    const ir::Node &origin; ///< the old node that it is made for: location, stream, recorded index

    ir::Op op() const { return attrs.op; }
    ir::ValueId operand(size_t k = 0) const { return operands[k]; }
    const ir::TensorType &type_of(ir::ValueId v) const;
    const ir::TensorType &operand_type(size_t k = 0) const { return type_of(operands[k]); }
    /// What the node's result would be.
    ir::TensorType result_type() const;
    /// The node that makes an operand if it has this op, or nullptr.
    const ir::Node *made_by(ir::ValueId v, ir::Op op) const;
    ir::ValueId operand_of(const ir::Node &node, size_t k = 0) const;
    ir::AttrView attrs_of(const ir::Node &node) const;
    std::optional<LiteralValue> literal(ir::ValueId v) const;
    /// Whether it is made of nothing, and so can neither fail nor be lost.
    bool is_made(ir::ValueId v) const;

    // What a rule may make; each is simplified itself.
    ir::ValueId make(ir::Op op, std::initializer_list<ir::ValueId> operands,
                     std::initializer_list<int64_t> structural = {}) const {
        return make(op, std::span(operands.begin(), operands.size()),
                    std::span(structural.begin(), structural.size()));
    }
    ir::ValueId make(ir::Op op, std::span<const ir::ValueId> operands,
                     std::span<const int64_t> structural) const;
    /// A literal of the result's shape and device.
    ir::ValueId make_literal(const ir::TensorType &type, int64_t word) const;
    /// `v` if it has the type of the result, else kNone: the rule does not apply.
    ir::ValueId same_type(ir::ValueId v) const { return type_of(v) == result_type() ? v : ir::kNone; }
};

/// Gives the value that stands for the candidate, bit for bit, or kNone where it does not apply.
using RuleFn = ir::ValueId (*)(const Candidate &);

struct Rule {
    std::string_view name;
    ir::Op op;
    RuleFn apply;
};

/// All rules; those of one op are tried in this order.
std::span<const Rule> simplify_rules();

} // namespace lz::passes
