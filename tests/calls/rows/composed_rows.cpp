// Functions of three operands that are made of others and round once: everything meets first (S62, S66).
#include "rows.h"

#include <algorithm>

#include "row_macros.h"

namespace lz::test::calls {

namespace {

DType compute_dtype(DType t) {
    return t == f16 || t == bf16 ? f32 : t;
}

/// The operand in the dtype where all meet, and then in that of the computation; a number, and a 0-dim tensor
/// of another dtype beside a half, only in the latter.
Array entered(const Oracle &o, const Arg &arg, DType t) {
    if (arg.handle >= 0) {
        const Array &x = o.value(arg);
        return converted(x.shape.empty() && x.dtype != t && compute_dtype(t) != t ? x : converted(x, t),
                         compute_dtype(t));
    }
    Array out = make(compute_dtype(t), {});
    out.at[0] = converted(arg.number, compute_dtype(t));
    return out;
}

Array apply(const char *name, const Array &x, const Array &y) {
    Oracle two(2);
    two.set(0, x);
    two.set(1, y);
    Array out = computed(two, name, {Arg::of(0), Arg::of(1)});
    out.device = x.device < 0 && x.shape.empty() ? y.device : x.device;
    return out;
}

/// a + alpha * b, or -.
Array with_alpha(const Oracle &o, const Statement &s, const char *name) {
    const Scalar &alpha = s.numbers[0];
    const DType t = result_type(o, s.args);
    if (t == boolean && std::string_view(name) == "sub")
        throw Mistake(ErrorType::DType, "two bools");
    const bool is_bool = alpha.category() == Scalar::Category::Bool;
    if ((is_bool && t != boolean) || (alpha.is_float() && !is_float(t)))
        throw Mistake(ErrorType::DType, "alpha of another category");
    const Array scaled = apply("mul", entered(o, {-1, alpha}, t), entered(o, s.args[1], t));
    return converted(apply(name, entered(o, s.args[0], t), scaled), t);
}

/// x + value * a op b.
Array with_product(const Oracle &o, const Statement &s, const char *name) {
    const DType t = result_type(o, s.args);
    const Array part = apply(name, apply("mul", entered(o, {-1, s.numbers[0]}, t), entered(o, s.args[1], t)),
                             entered(o, s.args[2], t));
    return converted(apply("add", entered(o, s.args[0], t), part), t);
}

bool make_operands(Maker &m, Statement &s, size_t count, bool floats) {
    const auto fits = [&](const Array &v) { return v.dtype != boolean && (!floats || is_float(v.dtype)); };
    const auto x = m.any([&](const Array &v) { return fits(v) && v.trust == Trust::Exact; });
    if (!x)
        return false;
    s.args = {Arg::of(*x)};
    Array shape = m.oracle.value(*x);
    while (s.args.size() < count) {
        const auto y =
            m.any([&](const Array &v) { return fits(v) && meets(shape, v) && fits_beside(shape, v); });
        if (!y)
            return false;
        s.args.push_back(Arg::of(*y));
        shape.shape = broadcast(shape.shape, m.oracle.value(*y).shape);
    }
    const DType t = result_type(m.oracle, s.args);
    s.numbers = {is_float(t) && m.once_in(2)
                     ? Scalar(m.pick(std::vector<double>{0.001, 2.5, -0.5, 1e-8, 65536.0}))
                     : Scalar(m.between(-3, 5))};
    return true;
}

} // namespace

void add_composed_rows(std::vector<Row> &rows) {
#define loc c.loc
    const auto row = [&](std::string text, std::function<void(Call &)> run,
                         Array (*rule)(const Oracle &, const Statement &, const char *), const char *name,
                         size_t count, bool in_place) {
        rows.push_back({std::move(text), std::move(run),
                        [=](Oracle &o, const Statement &s) {
                            Array value = rule(o, s, name);
                            if (in_place)
                                assign(o, s.args[0].handle, value);
                            else
                                o.set(s.out[0], std::move(value));
                        },
                        [=](Maker &m, Statement &s) {
                            if (!make_operands(m, s, count, std::string_view(name) == "div"))
                                return false;
                            if (!in_place)
                                s.out = {m.target()};
                            return true;
                        },
                        10});
    };
    row(LZ_CALL(lz::add(P0, P1, N0, loc)), with_alpha, "add", 2, false);
    row(LZ_CALL(lz::sub(P0, P1, N0, loc)), with_alpha, "sub", 2, false);
    row(LZ_CALL(T0.add(P1, N0, loc)), with_alpha, "add", 2, false);
    row(LZ_CALL(T0.add_(P1, N0, loc)), with_alpha, "add", 2, true);
    row(LZ_CALL(T0.sub_(P1, N0, loc)), with_alpha, "sub", 2, true);
    row(LZ_CALL(lz::addcmul(T0, T1, T2, N0, loc)), with_product, "mul", 3, false);
    row(LZ_CALL(lz::addcdiv(T0, T1, T2, N0, loc)), with_product, "div", 3, false);
    row(LZ_CALL(T0.addcmul_(T1, T2, N0, loc)), with_product, "mul", 3, true);
    row(LZ_CALL(T0.addcdiv_(T1, T2, N0, loc)), with_product, "div", 3, true);
#undef loc
}

} // namespace lz::test::calls
