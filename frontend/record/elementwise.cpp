// What is recorded most: operations on floats that keep dtype and shape, and numbers beside them. There is
// nothing to infer, and nothing that may fail.
#include "frontend/autograd/attach.h"
#include "frontend/record/make_node.h"
#include "frontend/record/record.h"
#include "frontend/record/storage.h"

namespace lz::detail {
namespace {

/// By op: whether floats give floats of the same dtype.
constexpr bool kKeepsFloats[] = {
#define LZ_ELEMENTWISE(E, text, arity, rule, ...)                                                            \
    ir::ElementwiseRule::rule == ir::ElementwiseRule::Any ||                                                 \
        ir::ElementwiseRule::rule == ir::ElementwiseRule::Numeric ||                                         \
        ir::ElementwiseRule::rule == ir::ElementwiseRule::Float,
#include "ir/elementwise.def"
};

/// The type of the result where that is the type of an operand, the other one being of the same or a number
/// on its device; else null.
[[gnu::always_inline]] inline const ir::TensorType *common_type(const ir::TensorType &a,
                                                                const ir::TensorType &b) {
    if (a.dtype != b.dtype || a.device != b.device)
        return nullptr;
    if (b.shape.rank() == 0)
        return &a;
    if (a.shape.rank() == 0)
        return &b;
    if (a.shape.rank() != b.shape.rank())
        return nullptr;
    for (int axis = 0; axis < a.shape.rank(); ++axis) // sooner than a call for a few words
        if (a.shape[axis] != b.shape[axis])
            return nullptr;
    return &a;
}

/// The type of the result; null: the general way has to say what comes of it. `nodes`: the operands', and
/// `histories`: not zero if one of them has one.
template <size_t N>
[[gnu::always_inline]] inline const ir::TensorType *type_of_floats(const Recorder &recorder, ir::Op op,
                                                                   const Tensor *const (&operands)[N],
                                                                   Node *(&nodes)[N], uintptr_t &histories) {
    if (!ir::is_elementwise_row(op) || !kKeepsFloats[static_cast<size_t>(op)] || recorder.looks_at_each())
        [[unlikely]]
        return nullptr;
    for (size_t i = 0; i < N; ++i) {
        if (!operands[i]->defined()) [[unlikely]]
            return nullptr;
        histories |= history_bits(*operands[i]);
        nodes[i] = Access::node(*operands[i]);
        if (nodes[i]->may_fail) [[unlikely]]
            return nullptr;
    }
    const ir::TensorType *type = &nodes[0]->type;
    if constexpr (N == 2)
        type = common_type(*type, nodes[1]->type);
    return type && ir::is_float(type->dtype) ? type : nullptr;
}

template <size_t N>
[[gnu::always_inline]] inline Tensor record_of_floats(ir::Op op, const Tensor *const (&operands)[N],
                                                      Location loc) {
    Recorder &recorder = Recorder::current();
    Node *nodes[N];
    uintptr_t histories = 0;
    const ir::TensorType *const type = type_of_floats(recorder, op, operands, nodes, histories);
    if (!type) [[unlikely]]
        return record(op, std::span(operands), {}, {}, loc);
    Node *const n = make_node(op, N, 0, 0, loc);
    n->type = *type;
    for (size_t i = 0; i < N; ++i) {
        n->operand_data()[i] = nodes[i];
        if (nodes[i]->state.load(std::memory_order_acquire) == State::Ready && nodes[i]->storage)
            recorder.note_read(nodes[i]->storage->bytes);
    }
    if (histories && recorder.grad_mode()) [[unlikely]]
        use_with_history(n, operands);
    else
        for (Node *const node : nodes)
            add_use(node);
    recorder.append(n);
    Tensor result = Access::wrap(&n->cell);
    after_record(recorder, loc);
    return result;
}

/// A number of a dtype, as Constant or Literal.
[[gnu::always_inline]] inline Tensor record_word(ir::Op op, DType dtype, int64_t word, ir::Device device,
                                                 Location loc) {
    Recorder &recorder = Recorder::current();
    const bool is_literal = op == ir::Op::Literal;
    Node *const n = make_node(op, 0, is_literal ? 4 : 3, is_literal ? 0 : 1, loc);
    n->type = {to_ir(dtype), {}, device};
    int64_t *const words = n->structural_data();
    words[0] = static_cast<int64_t>(to_ir(dtype));
    words[1] = 0; // axes
    words[2] = ir::device_word(device);
    words[3] = word; // behind the structural ones, or the last of them
    Tensor result = publish(n, recorder);
    after_record(recorder, loc);
    return result;
}

} // namespace

Tensor record_elementwise(ir::Op op, const Tensor &x, Location loc) {
    return record_of_floats(op, {&x}, loc);
}

Tensor record_elementwise(ir::Op op, const Tensor &a, const Tensor &b, Location loc) {
    return record_of_floats(op, {&a, &b}, loc);
}

Tensor record_number(DType dtype, int64_t word, ir::Device device, Location loc) {
    return record_word(ir::Op::Constant, dtype, word, device, loc);
}

Tensor record_literal_number(DType dtype, int64_t word, ir::Device device, Location loc) {
    return record_word(ir::Op::Literal, dtype, word, device, loc);
}

} // namespace lz::detail
