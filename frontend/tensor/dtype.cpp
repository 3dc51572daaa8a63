#include "lazuli/core/dtype.h"

#include "frontend/record/convert.h"
#include "ir/types/dtype.h"

#include <ostream>

namespace lz {

#define LZ_DTYPE(E, text, storage, bytes, kind, compute, acc)                                                \
    static_assert(static_cast<int>(DType::E) == static_cast<int>(ir::DType::E));
#include "ir/types/dtypes.def"

std::string_view name(DType dtype) {
    return ir::name(detail::to_ir(dtype));
}
int size_of(DType dtype) {
    return ir::size_of(detail::to_ir(dtype));
}
DType promote_types(DType a, DType b) {
    return detail::from_ir(ir::promote(detail::to_ir(a), detail::to_ir(b)));
}
std::ostream &operator<<(std::ostream &out, DType dtype) {
    return out << name(dtype);
}

Half::Half(float value) : bits(ir::float_to_half(value)) {}
Half::operator float() const {
    return ir::half_to_float(bits);
}
BFloat::BFloat(float value) : bits(ir::float_to_bfloat(value)) {}
BFloat::operator float() const {
    return ir::bfloat_to_float(bits);
}

} // namespace lz
