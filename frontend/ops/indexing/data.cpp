// What `data()` gives: a tensor's value without a history, and in-place forms that change the tensor without
// one. What backward has saved keeps its value, as under a NoGradGuard.
#include "lazuli/ops/indexing.h"

#include "frontend/ops/compose.h"
#include "lazuli/autograd.h"

namespace lz {

TensorData Tensor::data(Location loc) const {
    return {*this, detail::in<"data">(loc)};
}

TensorData::TensorData(const Tensor &base, Location loc) : Tensor(base.detach(loc)), base_(base) {}

template <class F>
const TensorData &TensorData::changed(F &&change, Location loc) const {
    const NoGradGuard no_grad;
    change(base_);
    static_cast<Tensor &>(const_cast<TensorData &>(*this)) = base_.detach(loc); // NOLINT: never a constant
    return *this;
}

const TensorData &TensorData::operator=(const Operand &value) const {
    return value.is_tensor() ? copy_(value.tensor(), value.loc()) : fill_(value, value.loc());
}
const TensorData &TensorData::operator=(const TensorData &value) const {
    return copy_(value, Location());
}

// A copy of an operand does not know of a temporary, which the caller's own operand does.
#define LZ_FORM(name, parameters, ...)                                                                       \
    const TensorData &TensorData::name parameters const {                                                    \
        return changed([&](Tensor &x) { x.name(__VA_ARGS__); }, loc);                                        \
    }
#define LZ_UNARY(name, ...) LZ_FORM(name##_, (Location loc), loc)
#define LZ_UNARY_COMPOSED(name) LZ_UNARY(name)
#define LZ_BINARY(name, ...) LZ_FORM(name##_, (const Operand &other, Location loc), other, loc)
#include "lazuli/ops/functions.def"
LZ_FORM(add_, (const Operand &other, const Scalar &alpha, Location loc), other, alpha, loc)
LZ_FORM(sub_, (const Operand &other, const Scalar &alpha, Location loc), other, alpha, loc)
LZ_FORM(addcmul_, (const Tensor &a, const Tensor &b, const Scalar &value, Location loc), a, b, value, loc)
LZ_FORM(addcdiv_, (const Tensor &a, const Tensor &b, const Scalar &value, Location loc), a, b, value, loc)
LZ_FORM(lerp_, (const Tensor &end, const Operand &weight, Location loc), end, weight, loc)
LZ_FORM(clamp_, (const std::optional<Scalar> &lower, const std::optional<Scalar> &upper, Location loc), lower,
        upper, loc)
LZ_FORM(clamp_, (const Tensor &lower, const Tensor &upper, Location loc), lower, upper, loc)
LZ_FORM(clamp_min_, (const Operand &lower, Location loc), lower, loc)
LZ_FORM(clamp_max_, (const Operand &upper, Location loc), upper, loc)
LZ_FORM(masked_fill_, (const Tensor &mask, const Operand &value, Location loc), mask, value, loc)
LZ_FORM(scatter_, (int64_t axis, const Tensor &index, const Operand &source, Location loc), axis, index,
        source, loc)
LZ_FORM(scatter_add_, (int64_t axis, const Tensor &index, const Tensor &source, Location loc), axis, index,
        source, loc)
LZ_FORM(index_add_, (int64_t axis, const Tensor &index, const Tensor &source, Location loc), axis, index,
        source, loc)
LZ_FORM(index_fill_, (int64_t axis, const Tensor &index, const Operand &value, Location loc), axis, index,
        value, loc)
LZ_FORM(index_copy_, (int64_t axis, const Tensor &index, const Tensor &source, Location loc), axis, index,
        source, loc)
LZ_FORM(fill_diagonal_, (const Scalar &value, bool wrap, Location loc), value, wrap, loc)
LZ_FORM(index_put_, (std::initializer_list<Index> index, const Operand &value, bool accumulate, Location loc),
        index, value, accumulate, loc)
LZ_FORM(copy_, (const Tensor &source, Location loc), source, loc)
LZ_FORM(copy_, (const Tensor &source, const CopyOptions &options, Location loc), source, options, loc)
LZ_FORM(fill_, (const Operand &value, Location loc), value, loc)
LZ_FORM(zero_, (Location loc), loc)
LZ_FORM(uniform_, (double from, double to, Location loc), from, to, loc)
LZ_FORM(uniform_, (double from, double to, Generator &generator, Location loc), from, to, generator, loc)
LZ_FORM(normal_, (double mean, double std, Location loc), mean, std, loc)
LZ_FORM(normal_, (double mean, double std, Generator &generator, Location loc), mean, std, generator, loc)
LZ_FORM(bernoulli_, (double p, Location loc), p, loc)
LZ_FORM(exponential_, (double lambda, Location loc), lambda, loc)
LZ_FORM(random_, (Location loc), loc)
LZ_FORM(random_, (int64_t high, Location loc), high, loc)
LZ_FORM(random_, (int64_t low, std::optional<int64_t> high, Location loc), low, high, loc)
#undef LZ_FORM

#define LZ_COMPOUND(symbol, name)                                                                            \
    const TensorData &TensorData::operator symbol(const Operand &value) const {                              \
        return name(value, value.loc());                                                                     \
    }
LZ_COMPOUND(+=, add_)
LZ_COMPOUND(-=, sub_)
LZ_COMPOUND(*=, mul_)
LZ_COMPOUND(/=, div_)
#undef LZ_COMPOUND

} // namespace lz
