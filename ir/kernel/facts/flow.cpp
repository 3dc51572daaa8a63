#include "ir/kernel/facts/flow.h"

#include <algorithm>
#include <functional>

namespace lz::ir {

namespace {

using Sources = KernelFlow::Sources;

/// Walks the phases in the order in which they run: a load sees what was stored before it. Of a grid point's
/// own stores only, as grid points do not see each other within a phase.
class FlowWalk {
public:
    explicit FlowWalk(const Kernel &kernel) : k_(kernel) {
        flow_.buffers = kernel.buffers.size();
        check_of_.assign(kernel.instrs.size(), 0);
        size_t checks = 0;
        for (size_t i = 0; i < kernel.instrs.size(); ++i)
            if (info(kernel.instrs[i].op).cls == KOpClass::Check)
                check_of_[i] = checks++;
        none_.assign(flow_.buffers + checks, false);
        flow_.stored.assign(flow_.buffers, none_);
        for (size_t b = 0; b < flow_.buffers; ++b) // what an update does not store stays
            flow_.stored[b][b] = kernel.buffers[b].mode == BufferMode::InOut;
        flow_.written.assign(flow_.buffers, false);
        flow_.checks.assign(checks, none_);
        values_.assign(kernel.instrs.size(), none_);
        reductions_.resize(kernel.loops.size());
    }

    KernelFlow run() {
        for (const Phase &phase : k_.phases) {
            product_ = none_;
            if (phase.contraction) {
                add_buffer(product_, phase.contraction->lhs.buffer);
                add_buffer(product_, phase.contraction->rhs.buffer);
            }
            walk(phase.body, none_);
        }
        return std::move(flow_);
    }

private:
    static void add(Sources &to, const Sources &from) {
        std::transform(to.begin(), to.end(), from.begin(), to.begin(), std::logical_or<>());
    }
    void add_value(Sources &to, KValue v) {
        if (v != kNoValue)
            add(to, values_[v]);
    }
    void add_buffer(Sources &to, uint16_t buffer) {
        const BufferMode mode = k_.buffers[buffer].mode;
        if (mode == BufferMode::In || mode == BufferMode::InOut)
            to[buffer] = true;
        add(to, flow_.stored[buffer]);
    }
    void add_address(Sources &to, const Access &access) {
        add_value(to, access.predicate);
        for (const IndexTerm &term : access.terms)
            add_value(to, term.index);
    }

    /// `control`: what decides whether, and how often, the region runs.
    void walk(const Region &region, const Sources &control) {
        for (const Stmt &stmt : region)
            if (stmt.kind == Stmt::Instruction)
                instruction(stmt.id, control);
            else
                loop(stmt.id, control);
    }

    void instruction(KValue id, const Sources &control) {
        const Instr &instr = k_.instrs[id];
        Sources &value = values_[id];
        for (const KValue operand : instr.operands)
            add_value(value, operand);
        if (instr.op == KOp::Load || instr.op == KOp::Store)
            add_address(value, k_.accesses[instr.access]);
        if (instr.op == KOp::Load)
            add_buffer(value, k_.accesses[instr.access].buffer);
        if (instr.op == KOp::Store) {
            const uint16_t buffer = k_.accesses[instr.access].buffer;
            add(value, control);
            add(flow_.stored[buffer], value);
            flow_.written[buffer] = true;
        }
        if (instr.op == KOp::Product)
            add(value, product_);
        if (instr.op == KOp::LoopResult)
            add(value, reductions_[instr.index][instr.bits / 2]);
        if (info(instr.op).cls == KOpClass::Check) {
            const size_t check = check_of_[id];
            add(value, control);
            add(flow_.checks[check], value);
            value[flow_.buffers + check] = true;
        }
    }

    void loop(uint32_t id, const Sources &around) {
        const Loop &loop = k_.loops[id];
        Sources control = around;
        add_value(control, loop.begin);
        add_value(control, loop.end);
        // An iteration may load what an earlier one stored.
        std::vector<Sources> before;
        do {
            before = flow_.stored;
            walk(loop.body, control);
        } while (before != flow_.stored);
        reductions_[id].assign(loop.reductions.size(), control);
        for (size_t r = 0; r < loop.reductions.size(); ++r) {
            add_value(reductions_[id][r], loop.reductions[r].value);
            add_value(reductions_[id][r], loop.reductions[r].index);
        }
    }

    const Kernel &k_;
    KernelFlow flow_;
    Sources none_, product_;
    std::vector<Sources> values_;                  // by instruction
    std::vector<std::vector<Sources>> reductions_; // by loop
    std::vector<size_t> check_of_;                 // by instruction
};

} // namespace

KernelFlow flow_of(const Kernel &kernel) {
    return FlowWalk(kernel).run();
}

} // namespace lz::ir
