#include "frontend/autograd/formulas.h"

#include "ir/interpreter/tensor.h"

#include <optional>

namespace lz::detail {
namespace {

/// A number that the frontend wrote, as the exponent of `pow(x, 2)` is: the one that its dtype makes of it.
std::optional<double> literal_value(const Value &x) {
    Node *n = Access::node(x.tensor());
    if (n->op == Op::Cast && n->pending())
        n = n->operand_data()[0];
    if (n->op != Op::Literal || n->num_structural == 0 || !ir::is_float(n->type.dtype))
        return std::nullopt;
    const ir::DType dtype = n->type.dtype; // before the cast, which may be to a wider one
    return ir::round_to(x.type().dtype,
                        ir::round_to(dtype, n->attrs().scalar_as_double(ir::attr::kMakerValue, dtype)));
}

/// y on the device of x. An operation may read an operand of a peer, but what is computed of that alone would
/// be the peer's work, which may not be able to read the rest.
Value beside(const Value &y, const Value &x) {
    const ir::TensorType &type = y.type();
    const ir::Device device = x.type().device;
    if (type.device == device || (type.device == ir::kCpu && type.shape.rank() == 0))
        return y;
    return {y.tensor().to(from_ir(device), y.loc()), y.loc()};
}

} // namespace

Value pow_of_base(const Value &g, const Value &x, const Value &y) {
    if (const auto power = literal_value(y)) {
        if (*power == 0)
            return g * 0;
        if (*power == 1)
            return g;
        return g * (*power == 2 ? 2 * x : *power * pow(x, *power - 1));
    }
    const Value power = beside(y, g);
    return where(power == 0, 0, g * (power * pow(x, power - 1)));
}

Value over_squares(const Value &a, const Value &x, const Value &y) {
    const Value squares = x * x + y * y;
    return where(squares == 0, 0, beside(a, squares) / where(squares == 0, 1, squares));
}

Value pow_of_exponent(const Value &g, const Value &x, const Value &y, const Value &out) {
    return where(x == 0 && y >= 0, 0, g * (out * log(x)));
}

} // namespace lz::detail
