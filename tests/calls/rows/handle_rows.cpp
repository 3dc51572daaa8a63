// Calls that compute nothing new: aliases and moves, and everything by which a program looks at a value.
#include "rows.h"

#include <cmath>
#include <sstream>

#include "row_macros.h"

namespace lz::test::calls {

bool make_one(Maker &m, Statement &s) {
    const auto x = m.any();
    if (!x)
        return false;
    s.args = {Arg::of(*x)};
    return true;
}

bool make_one_to_one(Maker &m, Statement &s) {
    if (!make_one(m, s))
        return false;
    s.out = {m.target()};
    return true;
}

namespace {

bool make_two(Maker &m, Statement &s) {
    return make_one(m, s) && (s.args.push_back(Arg::of(*m.any())), true);
}

void nothing(Oracle &o, const Statement &s) {
    for (const Arg &arg : s.args)
        o.value(arg);
}

/// item<T>(): the one element, converted.
void observe_item(Call &c, const char *how, const std::function<bool(const Array &, Element)> &right) {
    const Array &x = c.world().oracle->value(c.statement().args[0]);
    if (x.trust == Trust::Exact && !right(x, x.at[0]))
        c.fail(std::string(how) + " is not " + to_string(x.dtype, x.at[0]));
}

} // namespace

void add_handle_rows(std::vector<Row> &rows) {
    rows.push_back({"OUT = T0", [](Call &c) { c.result(0) = c.tensor(0); },
                    [](Oracle &o, const Statement &s) {
                        o.value(s.args[0]);
                        o.alias(s.out[0], s.args[0].handle);
                    },
                    make_one_to_one, 40});
    rows.push_back({"OUT = std::move(T0)", [](Call &c) { c.result(0) = std::move(c.tensor(0)); },
                    [](Oracle &o, const Statement &s) {
                        o.value(s.args[0]);
                        o.alias(s.out[0], s.args[0].handle);
                    },
                    make_one_to_one, 20, true});
    rows.push_back({"T0 = Tensor()", [](Call &c) { c.tensor(0) = Tensor(); },
                    [](Oracle &o, const Statement &s) { o.drop(s.args[0].handle); }, make_one, 60});
    rows.push_back({"std::swap(T0, T1)", [](Call &c) { std::swap(c.tensor(0), c.tensor(1)); },
                    [](Oracle &o, const Statement &s) {
                        const Array a = o.value(s.args[0]), b = o.value(s.args[1]); // both hold something
                        o.swap(s.args[0].handle, s.args[1].handle);
                    },
                    make_two, 10});

    // Sync points.
    const auto observation = [&](std::string text, std::function<void(Call &)> run, int weight) {
        rows.push_back({std::move(text), std::move(run), nothing, make_one, weight});
    };
    observation("T0.eval()", [](Call &c) { c.tensor(0).eval(c.loc); }, 50);
    observation("show(T0)", [](Call &c) { c.observe(c.statement().args[0].handle, "to_vector"); }, 60);
    observation(
        "std::cout << T0 << '\\n'",
        [](Call &c) {
            if (c.tensor(0).str(c.loc).substr(0, 7) != "tensor(")
                c.fail("str() does not begin with tensor(");
        },
        10);
    observation("lz::dump(T0)", [](Call &c) { (void)lz::dump(c.tensor(0), c.loc); }, 2);
    observation("lz::explain(T0)", [](Call &c) { (void)lz::explain(c.tensor(0), c.loc); }, 2);
    observation("lz::verify_schedule(T0)", [](Call &c) { (void)lz::verify_schedule(c.tensor(0), c.loc); }, 2);
    rows.push_back({"lz::sync()", [](Call &c) { lz::sync(c.loc); }, nothing,
                    [](Maker &, Statement &) { return true; }, 30});
    rows.push_back({"lz::eval({T0, T1})", [](Call &c) { lz::eval({c.tensor(0), c.tensor(1)}, c.loc); },
                    nothing, make_two, 20});
    rows.push_back({"T0.item<double>()",
                    [](Call &c) {
                        const auto y = c.tensor(0).item<double>(c.loc);
                        observe_item(c, "item<double>()", [&](const Array &x, Element e) {
                            const double z = is_float(x.dtype) ? e.f : static_cast<double>(e.i);
                            return y == z || (std::isnan(y) && std::isnan(z));
                        });
                    },
                    [](Oracle &o, const Statement &s) {
                        if (count(o.value(s.args[0]).shape) != 1)
                            throw Mistake(ErrorType::State, "item of several");
                    },
                    [](Maker &m, Statement &s) {
                        const auto x = m.any([](const Array &v) { return v.at.size() == 1; });
                        s.args = {Arg::of(x.value_or(0))};
                        return x.has_value();
                    },
                    20});
    rows.push_back({"T0.item<bool>()",
                    [](Call &c) {
                        const bool y = c.tensor(0).item<bool>(c.loc);
                        observe_item(c, "item<bool>()", [&](const Array &x, Element e) {
                            return y == (is_float(x.dtype) ? e.f != 0 : e.i != 0);
                        });
                    },
                    [](Oracle &o, const Statement &s) {
                        if (count(o.value(s.args[0]).shape) != 1)
                            throw Mistake(ErrorType::State, "item of several");
                    },
                    make_one, 3});
}

// ---------------------------------------------------------------------------------------------- new tensors

namespace {

Array filled(DType t, const Extents &shape, const Scalar &x) {
    Array out = make(t, shape);
    for (Element &e : out.at)
        e = converted(x, t);
    return out;
}

} // namespace

/// What a new tensor of data holds; the statement's seed says which palette.
Array elements_of(const Statement &s) {
    Array out = make(s.dtype, s.sizes[0]);
    std::mt19937_64 random(s.seed);
    const uint64_t palette = random() % 10;
    static const double specials[] = {
        0.0,  -0.0,  INFINITY, -INFINITY, NAN, 1e-40, -1e-40,   1e30,   -1e30, 65504,    65520,
        6e-8, 1e308, 5e-324,   1,         -1,  0.1,   0x1p-126, 3.4e38, -0.5,  16777217, 2147483648.0};
    for (Element &e : out.at) {
        const uint64_t word = random();
        if (s.dtype == boolean) {
            e.i = static_cast<int64_t>(word & 1);
        } else if (!is_float(s.dtype)) {
            const auto any = static_cast<int64_t>(word);
            e.i = palette == 0   ? wrapped(s.dtype, any)
                  : palette == 1 ? static_cast<int64_t>(word % 2)
                  : palette < 6  ? static_cast<int64_t>(word % 17) - (s.dtype == u8 ? 0 : 8)
                                 : static_cast<int64_t>(word % 100) + 1;
        } else if (palette == 0 || (palette == 1 && word % 8 == 0)) {
            e.f = rounded(s.dtype, specials[(word >> 8) % std::size(specials)]);
        } else if (palette == 8) { // subnormals of bf16 and f32, and powers by which they are seen
            e.f = std::ldexp(static_cast<double>(word % 64), s.dtype == f16 ? -24 : -133);
        } else if (palette == 9) {
            e.f = std::ldexp(static_cast<double>(word % 4), s.dtype == f16 ? 10 : 100);
        } else if (palette < 5) { // multiples of 1/4: their sums are exact in any order
            e.f = static_cast<double>(static_cast<int64_t>(word % 65) - 32) / 4;
        } else if (palette == 5) {
            e.f = rounded(s.dtype, static_cast<double>(word >> 11) * 0x1p-53);
        } else {
            e.f = rounded(s.dtype, (static_cast<double>(word >> 11) * 0x1p-53 - 0.5) * 20);
        }
    }
    return out;
}

namespace {

Tensor tensor_of(const Statement &s, const Device &device, Location loc) {
    std::optional<DefaultMode> mode(std::in_place); // of the elements, not of the call
    const Array a = elements_of(s);
    const Sizes sizes{std::span<const int64_t>(s.sizes[0])};
    const auto typed = [&]<class T>(T) {
        std::vector<T> data;
        for (const Element e : a.at)
            data.push_back(is_float(s.dtype) ? static_cast<T>(e.f) : static_cast<T>(e.i));
        mode.reset();
        return lz::tensor(data, sizes, {.dtype = s.dtype, .device = device}, loc);
    };
    switch (s.dtype) {
    case DType::Bool:
        return typed(bool());
    case DType::I32:
        return typed(int32_t());
    case DType::I64:
        return typed(int64_t());
    case DType::F32:
        return typed(float());
    case DType::F64:
    case DType::F16:
    case DType::BF16:
        return typed(double());
    case DType::U8:
        return typed(uint8_t());
    case DType::I8:
        return typed(int8_t());
    case DType::I16:
        return typed(int16_t());
    }
    return {};
}

bool make_new(Maker &m, Statement &s) {
    s.dtype = m.dtype();
    s.sizes = {m.shape()};
    s.seed = m.word();
    s.device = m.gpus > 0 && !m.once_in(4) ? static_cast<int>(m.below(m.gpus)) : -1;
    s.out = {m.target()};
    return true;
}

void placed(Oracle &o, const Statement &s, Array made) {
    made.device = s.device;
    o.set(s.out[0], std::move(made));
}

} // namespace

void add_new_rows(std::vector<Row> &rows) {
    rows.push_back({"DATA", [](Call &c) { c.out(tensor_of(c.statement(), c.device(), c.loc)); },
                    [](Oracle &o, const Statement &s) { placed(o, s, elements_of(s)); }, make_new, 150});
#define loc c.loc
    rows.push_back(
        {LZ_CALL(lz::full(S0, N0, {.dtype = D0, .device = V0}, loc)),
         [](Oracle &o, const Statement &s) { placed(o, s, filled(s.dtype, s.sizes[0], s.numbers[0])); },
         [](Maker &m, Statement &s) {
             s.numbers = {m.small()};
             return make_new(m, s);
         },
         20});
    rows.push_back({LZ_CALL(lz::zeros(S0, {.dtype = D0, .device = V0}, loc)),
                    [](Oracle &o, const Statement &s) { placed(o, s, make(s.dtype, s.sizes[0])); }, make_new,
                    10});
    rows.push_back({LZ_CALL(lz::ones(S0, {.dtype = D0, .device = V0}, loc)),
                    [](Oracle &o, const Statement &s) { placed(o, s, filled(s.dtype, s.sizes[0], 1)); },
                    make_new, 10});
    rows.push_back({LZ_CALL(lz::full_like(T0, N0, {}, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array &x = o.value(s.args[0]);
                        Array made = filled(x.dtype, x.shape, s.numbers[0]);
                        made.device = x.device;
                        o.set(s.out[0], std::move(made));
                    },
                    [](Maker &m, Statement &s) {
                        s.numbers = {m.small()};
                        return make_one_to_one(m, s);
                    },
                    10});
    rows.push_back({LZ_CALL(T0.fill_(P1, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array &x = o.value(s.args[0]);
                        Array made = filled(x.dtype, x.shape, s.args[1].number);
                        made.device = x.device;
                        o.change(s.args[0].handle, std::move(made));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_one(m, s))
                            return false;
                        s.args.push_back({-1, m.small()});
                        return true;
                    },
                    20});
    rows.push_back({LZ_CALL(T0.zero_(loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array &x = o.value(s.args[0]);
                        Array made = make(x.dtype, x.shape);
                        made.device = x.device;
                        o.change(s.args[0].handle, std::move(made));
                    },
                    make_one, 10});
    const auto copied = [](Oracle &o, const Statement &s) { o.set(s.out[0], o.value(s.args[0])); };
    rows.push_back({LZ_CALL(lz::clone(T0, loc)), copied, make_one_to_one, 15});
    rows.push_back({LZ_CALL(M0.clone(loc)), copied, make_one_to_one, 5, true});
    rows.push_back({LZ_CALL(lz::to(T0, D0, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array &x = o.value(s.args[0]);
                        if (x.dtype == s.dtype)
                            o.alias(s.out[0], s.args[0].handle);
                        else
                            o.set(s.out[0], converted(x, s.dtype));
                    },
                    [](Maker &m, Statement &s) {
                        s.dtype = m.dtype();
                        return make_one_to_one(m, s);
                    },
                    60});
#undef loc
}

} // namespace lz::test::calls
