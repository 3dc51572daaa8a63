#pragma once
/// The type rules of ops.def, one function a row, and what they share. Internal to `ir/infer*.cpp`.

#include "ir/diagnostic.h"
#include "ir/op.h"

namespace lz::ir {

/// Operands and results of one call of `infer_types`. Results do not alias operands.
struct InferCall {
    const AttrView &attrs;
    std::span<const TensorType *const> operands;
    std::span<TensorType> results;

    const TensorType &in(size_t i = 0) const { return *operands[i]; }
    TensorType &out(size_t i = 0) const { return results[i]; }
};

#define LZ_OP(E, ...) void infer_##E(const InferCall &call);
#include "ir/ops.def"

/// The device of a result (S05).
inline Device result_device(std::span<const TensorType *const> operands) {
    for (const TensorType *t : operands)
        if (t->shape.rank() != 0 || t->device.kind != DeviceKind::Cpu)
            return t->device;
    return operands[0]->device;
}

/// Throw Failure with the message `<op>: <what>`.
[[noreturn]] void fail_shape(Op op, const std::string &what);
[[noreturn]] void fail_dtype(Op op, const std::string &what);
[[noreturn]] void fail_index(Op op, const std::string &what);

/// `f32[2,3]`, without the device.
std::string shaped(const TensorType &type);

/// Fails unless the extents are at most kMaxRank non-negative numbers whose tensor has a size in bytes that
/// fits int64. Zero extents count as one, so that strides fit too.
void check_extents(Op op, DType dtype, std::span<const int64_t> extents);
/// The same as a Shape.
Shape checked_shape(Op op, DType dtype, std::span<const int64_t> extents);
/// Fails unless 0 <= axis < rank of `type`.
void check_axis(Op op, int64_t axis, const TensorType &type);
/// Fails unless the axes are in range and distinct; returns them as a bit set.
uint32_t check_axes(Op op, std::span<const int64_t> axes, const TensorType &type);
/// Fails unless the two operands have one dtype.
void check_same_dtype(Op op, const TensorType &a, const TensorType &b);

} // namespace lz::ir
