// Type promotion of PyTorch (S62): tensors with axes decide; 0-dim tensors and then numbers count only where
// their category (bool, integer, float) is higher.
#include "frontend/ops/compose.h"

#include <optional>

namespace lz::detail {
namespace {

using MaybeDType = std::optional<ir::DType>;

MaybeDType join(MaybeDType a, MaybeDType b) {
    return !a ? b : !b ? a : ir::promote(*a, *b);
}

/// The dtype of a higher level (tensors with axes over 0-dim ones, these over numbers) with that of a lower
/// one.
MaybeDType combine(MaybeDType higher, MaybeDType lower) {
    if (higher && ir::is_float(*higher))
        return higher;
    if (!higher || *higher == ir::DType::Bool || (lower && ir::is_float(*lower)))
        return join(higher, lower);
    return higher;
}

struct Levels {
    MaybeDType tensors, zero_dim, numbers;

    void add(const Operand &x, const char *function, Location loc) {
        if (x.is_tensor()) {
            const ir::TensorType &t = checked_type(x.tensor(), function, loc);
            MaybeDType &level = t.shape.rank() == 0 ? zero_dim : tensors;
            level = join(level, t.dtype);
            return;
        }
        switch (x.number().category()) {
        case Scalar::Category::Bool:
            numbers = join(numbers, ir::DType::Bool);
            break;
        case Scalar::Category::Integer:
            numbers = join(numbers, ir::DType::I64);
            break;
        case Scalar::Category::Float:
            numbers = join(numbers, default_dtype());
            break;
        }
    }
};

} // namespace

ir::DType result_type(std::initializer_list<const Operand *> operands, const char *function, Location loc) {
    Levels levels;
    for (const Operand *x : operands)
        levels.add(*x, function, loc);
    return *combine(levels.tensors, combine(levels.zero_dim, levels.numbers));
}

bool enters_wide(const Operand &x, ir::DType result) {
    if (!x.is_tensor())
        return ir::is_half(result);
    return ir::is_half(result) && type(x.tensor()).shape.rank() == 0 && type(x.tensor()).dtype != result;
}

Tensor entered(const Operand &x, ir::DType result, const Tensor &like, Location loc) {
    const ir::DType work = working_dtype(result);
    if (!x.is_tensor() || enters_wide(x, result))
        return as_tensor(x, work, like, loc);
    return cast(cast(x.tensor(), result, loc), work, loc);
}

} // namespace lz::detail
