#include "tests/support/cuda/ptx/arithmetic.h"

#include "tests/support/cuda/ptx/warp.h"

#include <concepts>

namespace lz::ptx {
namespace {

template <class T, Compare Op>
bool compare(T a, T b) {
    const bool unordered = a != a || b != b;
    switch (Op) {
    case Compare::Eq:
        return a == b;
    case Compare::Ne:
        return !unordered && a != b;
    case Compare::Lt:
        return a < b;
    case Compare::Le:
        return a <= b;
    case Compare::Gt:
        return a > b;
    case Compare::Ge:
        return a >= b;
    case Compare::Equ:
        return unordered || a == b;
    case Compare::Neu:
        return a != b;
    case Compare::Ltu:
        return unordered || a < b;
    case Compare::Leu:
        return unordered || a <= b;
    case Compare::Gtu:
        return unordered || a > b;
    case Compare::Geu:
        return unordered || a >= b;
    case Compare::Num:
        return !unordered;
    case Compare::Nan:
        return unordered;
    }
    return false;
}
template <class T, Compare Op>
void set_predicate(Machine &, Warp &w, const Instr &x, uint32_t mask) {
    const T *const a = w.lanes<T>(x.src[0]);
    const T *const b = w.lanes<T>(x.src[1]);
    uint32_t r = 0;
    for_lanes(mask, [&](uint32_t i) { r |= uint32_t{compare<T, Op>(a[i], b[i])} << i; });
    uint32_t other = ~r;
    if (x.num_src == 3) {
        const uint32_t c = w.predicate(x.src[2]);
        const auto join = [&](uint32_t p) {
            switch (static_cast<Join>(x.sub)) {
            case Join::And:
                return p & c;
            case Join::Or:
                return p | c;
            default:
                return p ^ c;
            }
        };
        r = join(r);
        other = join(other);
    }
    w.set_predicate(x.dst[0], r, mask);
    if (x.num_dst == 2)
        w.set_predicate(x.dst[1], other, mask);
}
template <class T>
Handler comparison(Compare op) {
    switch (op) {
    case Compare::Eq:
        return set_predicate<T, Compare::Eq>;
    case Compare::Ne:
        return set_predicate<T, Compare::Ne>;
    case Compare::Lt:
        return set_predicate<T, Compare::Lt>;
    case Compare::Le:
        return set_predicate<T, Compare::Le>;
    case Compare::Gt:
        return set_predicate<T, Compare::Gt>;
    case Compare::Ge:
        return set_predicate<T, Compare::Ge>;
    default:
        break;
    }
    if constexpr (std::floating_point<T>) {
        switch (op) {
        case Compare::Equ:
            return set_predicate<T, Compare::Equ>;
        case Compare::Neu:
            return set_predicate<T, Compare::Neu>;
        case Compare::Ltu:
            return set_predicate<T, Compare::Ltu>;
        case Compare::Leu:
            return set_predicate<T, Compare::Leu>;
        case Compare::Gtu:
            return set_predicate<T, Compare::Gtu>;
        case Compare::Geu:
            return set_predicate<T, Compare::Geu>;
        case Compare::Num:
            return set_predicate<T, Compare::Num>;
        case Compare::Nan:
            return set_predicate<T, Compare::Nan>;
        default:
            break;
        }
    }
    return nullptr;
}

} // namespace

Handler find_compare(Compare op, Type type) {
    switch (type) {
    case Type::B16:
    case Type::U16:
        return comparison<uint16_t>(op);
    case Type::B32:
    case Type::U32:
        return comparison<uint32_t>(op);
    case Type::B64:
    case Type::U64:
        return comparison<uint64_t>(op);
    case Type::S16:
        return comparison<int16_t>(op);
    case Type::S32:
        return comparison<int32_t>(op);
    case Type::S64:
        return comparison<int64_t>(op);
    case Type::F32:
        return comparison<float>(op);
    case Type::F64:
        return comparison<double>(op);
    default:
        return nullptr;
    }
}

} // namespace lz::ptx
