#include "frontend/record/record.h"
#include "frontend/record/recording/recording.h"
#include "ir/graph/builder.h"
#include "ir/graph/share_words.h"

#include <map>
#include <string>

namespace lz::detail {

namespace {

/// Which event a record or a wait is about is a runtime word; that a wait comes after its record is
/// structure. (What effects hold back on their streams is the passes' business: order_effects.)
class EventOrder {
public:
    /// The node added last to the builder.
    void add(ir::GraphBuilder &builder, Node *n) {
        if (n->op == ir::Op::RecordEvent)
            records_[n->runtime_data()[0]] = builder.last_node();
        else if (n->op == ir::Op::WaitEvent)
            if (const auto record = records_.find(n->runtime_data()[0]); record != records_.end())
                builder.add_order({&record->second, 1});
    }

private:
    std::map<int64_t, ir::NodeId> records_; // by event: the last record
};

} // namespace

ir::Graph Recording::build_graph(StreamNames names) const {
    ir::GraphBuilder builder("main");
    std::vector<ir::ValueId> values(next_index_);
    for (size_t i = 0; i < inputs.size(); ++i) {
        const Input &input = inputs[i];
        values[input.index] = builder.param(input.node->type, "x" + std::to_string(i));
        builder.graph().params.back().donated = input.donated;
        if (input.donated)
            builder.graph().params.back().donated_to = input.donated_to;
        builder.graph().params.back().kept = input.kept;
        builder.graph().params.back().storage = input.storage_group;
        builder.graph().params.back().loc = origin_of(input.node);
    }
    const bool real = names == StreamNames::Real;
    std::vector<ir::ValueId> operands;
    std::vector<int64_t> wait;
    size_t runtime_at = 0;
    EventOrder events;
    std::vector<ir::SharedWords> shared;
    for (size_t i = 0; i < operations.size(); ++i) {
        const Operation &o = operations[i];
        Node *const n = o.node;
        if (o.argument) {
            const int64_t word = words[runtime_at];
            const int64_t type[] = {static_cast<int64_t>(n->type.dtype), 0, ir::device_word(ir::kCpu)};
            values[o.index] = builder.add(ir::Op::Constant, {}, type, {&word, 1}, n->loc);
            builder.set_recorded(static_cast<uint32_t>(i));
            ++runtime_at;
        } else if (n->projection > 0) {
            values[o.index] = values[operand_index(o, 0)] + n->projection;
        } else {
            operands.clear();
            const size_t read = n->read_operands().size();
            for (size_t k = 0; k < read; ++k)
                operands.push_back(values[operand_index(o, k)]);
            const ir::AttrView attrs = n->attrs();
            std::span<const int64_t> structural = attrs.structural;
            if (n->op == ir::Op::WaitStream && !real) {
                wait.assign(structural.begin(), structural.end());
                wait[ir::attr::kWaitStreamStream] = canonical(waited_for(n));
                structural = wait;
            }
            values[o.index] = builder.add(n->op, operands, structural, attrs.runtime, n->loc);
            const uint64_t like = n->like ? key[o.key_at + 1 + (read + 1) / 2] : 0;
            if (like > 0)
                shared.push_back({builder.last_node(), builder.graph().value(values[like - 1]).producer});
            builder.set_recorded(static_cast<uint32_t>(i));
            builder.set_stream(n->stream == ir::kNoStream || real ? n->stream : canonical(stream_of(n)));
            runtime_at += attrs.runtime.size();
            events.add(builder, n);
        }
    }
    for (const uint32_t i : wanted)
        builder.graph().results.push_back(values[operations[i].index]);
    return shared.empty() ? builder.take() : ir::share_words(builder.take(), shared);
}

} // namespace lz::detail
