// Random functions: the words of a counter-based generator (philox.h), and what the library makes of them
// (S63). Uniform numbers and integers are known to the bit, normal ones within a bound.
#include "philox.h"
#include "sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "row_macros.h"

namespace lz::test::calls {

namespace {

/// Known answers of the Random123 distribution.
TEST(Calls, PhiloxGivesThePublishedWords) {
    using Words = std::array<uint32_t, 4>;
    constexpr uint32_t all = 0xffffffff;
    EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox({all, all, all, all}, {all, all}),
              (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

DType compute_dtype(DType t) {
    return t == f64 ? f64 : f32;
}

/// In [0, 1): 24 bits of a word, or 27 and 26 of two.
std::vector<double> uniform(Oracle &o, int64_t n, DType work) {
    const std::vector<uint32_t> first = o.draw(n), second = work == f64 ? o.draw(n) : std::vector<uint32_t>();
    std::vector<double> out;
    for (size_t k = 0; k < first.size(); ++k)
        out.push_back(work == f64 ? (static_cast<double>(first[k] >> 5) * 0x1p26 + (second[k] >> 6)) * 0x1p-53
                                  : (first[k] >> 8) * 0x1p-24);
    return out;
}

/// A half type takes its upper bits, so that it does not round up to 1.
double cut(DType t, double u) {
    const double scale = t == f16 ? 0x1p11 : 0x1p8;
    return t == f16 || t == bf16 ? std::floor(u * scale) / scale : u;
}

/// Of the shape and device of `like`, all of it drawn.
Array drawn_uniform(Oracle &o, const Array &like, double from = 0, double to = 1) {
    Array out = make(like.dtype, like.shape);
    out.device = like.device;
    const DType work = compute_dtype(like.dtype);
    const std::vector<double> u = uniform(o, count(like.shape), work);
    const double scale = rounded(work, to - from), shift = rounded(work, from);
    for (size_t k = 0; k < u.size(); ++k)
        out.at[k].f = from == 0 && to - from == 1
                          ? cut(like.dtype, u[k])
                          : rounded(like.dtype, rounded(work, rounded(work, u[k] * scale) + shift));
    return out;
}

/// Box-Muller, the cosine half.
Array drawn_normal(Oracle &o, const Array &like, double mean = 0, double deviation = 1) {
    const DType work = compute_dtype(like.dtype);
    const double eps = work == f64 ? 0x1p-52 : 0x1p-23;
    const std::vector<double> u = uniform(o, count(like.shape), work),
                              v = uniform(o, count(like.shape), work);
    Array exact = like;
    exact.trust = Trust::Exact; // whatever it was
    Results out(like.dtype, like.shape, exact);
    const double scale = rounded(work, deviation), shift = rounded(work, mean);
    for (size_t k = 0; k < u.size(); ++k) {
        const long double r = std::sqrt(-2 * std::log(1 - static_cast<long double>(u[k])));
        const long double y = r * std::cos(2 * std::numbers::pi_v<long double> * v[k]) * scale + shift;
        // The angle is off by an ULP of 2 pi, and each step by a few of its own.
        out.put(k, y, eps * static_cast<double>(24 * r * scale + 2 * std::fabs(y) + std::fabs(shift)));
    }
    return out.done();
}

Array drawn_bits(Oracle &o, const Array &like, const std::function<double(size_t)> &probability) {
    Array out = make(like.dtype, like.shape);
    out.device = like.device;
    const DType work = compute_dtype(like.dtype);
    const std::vector<double> u = uniform(o, count(like.shape), work);
    for (size_t k = 0; k < u.size(); ++k)
        out.at[k] = converted(boolean, like.dtype, {.i = u[k] < rounded(work, probability(k))});
    return out;
}

Array placed(const Statement &s) {
    Array out = make(s.dtype, s.sizes[0]);
    out.device = s.device;
    return out;
}

void check_float(const Array &x) {
    if (!is_float(x.dtype))
        throw Mistake(ErrorType::DType, "floats only");
}

bool make_drawn(Maker &m, Statement &s) {
    s.dtype = m.once_in(40) ? m.dtype() : m.pick(std::vector<DType>{f32, f32, f64, f16, bf16});
    s.sizes = {m.shape()};
    s.device = m.gpus > 0 && !m.once_in(4) ? static_cast<int>(m.below(m.gpus)) : -1;
    s.out = {m.target()};
    return true;
}

bool make_changed(Maker &m, Statement &s) {
    const bool careless = m.once_in(20);
    const auto x = m.any([&](const Array &v) { return careless || is_float(v.dtype); });
    if (x)
        s.args = {Arg::of(*x)};
    return x.has_value();
}

} // namespace

Array drawn_integers(Oracle &o, int64_t low, uint64_t range, const Extents &shape, DType dtype) {
    Array out = make(dtype, shape);
    const std::vector<uint32_t> words = o.draw(count(shape)),
                                high = range > (uint64_t{1} << 31) ? o.draw(count(shape)) : words;
    for (size_t k = 0; k < words.size(); ++k) {
        const uint64_t below = range > (uint64_t{1} << 31)
                                   ? ((uint64_t{high[k] & 0x7fffffff} << 32) | words[k]) % range
                                   : (words[k] * range) >> 32;
        out.at[k] = converted(i64, dtype, {.i = low + static_cast<int64_t>(below)});
    }
    return out;
}

void add_random_rows(std::vector<Row> &rows) {
#define loc c.loc
    rows.push_back({"lz::manual_seed(I0)",
                    [](Call &c) { lz::manual_seed(static_cast<uint64_t>(c.integer(0))); },
                    [](Oracle &o, const Statement &s) {
                        o.random_seed = static_cast<uint64_t>(s.ints[0]);
                        o.random_offset = 0;
                    },
                    [](Maker &m, Statement &s) {
                        s.ints = {m.once_in(2) ? m.below(9) : static_cast<int64_t>(m.word() >> 1)};
                        return true;
                    },
                    6});
    rows.back().vary = [](Maker &m, Statement &s) { s.ints[0] = m.below(1 << 30); };
    const auto fresh = [&](std::string text, std::function<void(Call &)> run, bool normal) {
        rows.push_back({std::move(text), std::move(run),
                        [normal](Oracle &o, const Statement &s) {
                            const Array like = placed(s);
                            check_float(like);
                            o.set(s.out[0], normal ? drawn_normal(o, like) : drawn_uniform(o, like));
                        },
                        make_drawn, 25});
    };
    fresh(LZ_CALL(lz::rand(S0, {.dtype = D0, .device = V0}, loc)), false);
    fresh(LZ_CALL(lz::randn(S0, {.dtype = D0, .device = V0}, loc)), true);
    const auto alike = [&](std::string text, std::function<void(Call &)> run, bool normal) {
        rows.push_back({std::move(text), std::move(run),
                        [normal](Oracle &o, const Statement &s) {
                            const Array like = o.value(s.args[0]);
                            check_float(like);
                            o.set(s.out[0], normal ? drawn_normal(o, like) : drawn_uniform(o, like));
                        },
                        [](Maker &m, Statement &s) {
                            s.out = {m.target()};
                            return make_changed(m, s);
                        },
                        8});
    };
    alike(LZ_CALL(lz::rand_like(T0, {}, loc)), false);
    alike(LZ_CALL(lz::randn_like(T0, {}, loc)), true);
    rows.push_back({LZ_CALL(lz::randint(I0, I1, S0, {.dtype = D0, .device = V0}, loc)),
                    [](Oracle &o, const Statement &s) {
                        if (s.ints[0] >= s.ints[1])
                            throw Mistake(ErrorType::Index, "no integers");
                        Array made = drawn_integers(
                            o, s.ints[0], static_cast<uint64_t>(s.ints[1]) - static_cast<uint64_t>(s.ints[0]),
                            s.sizes[0], s.dtype);
                        made.device = s.device;
                        o.set(s.out[0], std::move(made));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_drawn(m, s))
                            return false;
                        s.dtype = m.pick(std::vector<DType>{i64, i64, i64, i32, f32, f64, u8, i8, f16});
                        const int64_t low = s.dtype == u8 ? m.below(3) : m.between(-3, 3);
                        s.ints = {low, low + m.between(m.once_in(30) ? 0 : 1, 20)};
                        if (s.dtype == i64 && m.once_in(4)) // from more than 31 bits
                            s.ints[1] = low + (int64_t{1} << m.between(31, 62)) + m.below(3);
                        if (s.dtype == i32 && m.once_in(4))
                            s.ints = {INT32_MIN, INT32_MAX};
                        return true;
                    },
                    30});
    rows.back().vary = [](Maker &m, Statement &s) {
        if (s.ints[1] - s.ints[0] < 100 && s.ints[1] > s.ints[0])
            s.ints[1] += m.between(1, 9);
    };
    rows.push_back({LZ_CALL(lz::randperm(I0, {.device = V0}, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array keys = drawn_integers(o, 0, uint64_t{1} << 62, {s.ints[0]}, i64);
                        Array made = sorted(keys, 0, false, {}).second;
                        made.device = s.device;
                        o.set(s.out[0], std::move(made));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_drawn(m, s))
                            return false;
                        s.ints = {m.once_in(3) ? m.between(0, 9) : m.extent()};
                        return true;
                    },
                    20});
    rows.push_back({LZ_CALL(lz::bernoulli(T0, loc)),
                    [](Oracle &o, const Statement &s) {
                        const Array p = o.value(s.args[0]);
                        check_float(p);
                        Array made = drawn_bits(o, p, [&](size_t k) { return p.at[k].f; });
                        made.trust = through(p.trust, p.trust);
                        o.set(s.out[0], std::move(made));
                    },
                    [](Maker &m, Statement &s) {
                        s.out = {m.target()};
                        return make_changed(m, s);
                    },
                    15});
    const auto number = [](size_t k) { return [k](const Statement &s) { return s.numbers[k].to_double(); }; };
    const auto p = number(0), q = number(1);
    const auto make_probability = [](Maker &m, Statement &s) {
        s.numbers = {m.pick(std::vector<double>{0.0, 0.1, 0.25, 0.5, 0.9, 1.0})};
        if (m.once_in(40))
            s.numbers = {1.5};
        return make_one(m, s);
    };
    const auto likely = [p](Oracle &o, const Statement &s) {
        const Array x = o.value(s.args[0]);
        if (!(p(s) >= 0 && p(s) <= 1))
            throw Mistake(ErrorType::Index, "no probability");
        return drawn_bits(o, x, [&](size_t) { return p(s); });
    };
    const auto less_likely = [](Maker &m, Statement &s) {
        if (s.numbers[0].to_double() > 0 && s.numbers[0].to_double() < 1)
            s.numbers[0] = static_cast<double>(m.between(1, 9)) / 16;
    };
    rows.push_back({"lz::bernoulli(T0, N0)",
                    [p](Call &c) { c.out(lz::bernoulli(c.tensor(0), p(c.statement()), loc)); },
                    [likely](Oracle &o, const Statement &s) { o.set(s.out[0], likely(o, s)); },
                    [make_probability](Maker &m, Statement &s) {
                        s.out = {m.target()};
                        return make_probability(m, s);
                    },
                    10});
    rows.back().vary = less_likely;
    rows.push_back({"T0.bernoulli_(N0)", [p](Call &c) { c.tensor(0).bernoulli_(p(c.statement()), loc); },
                    [likely](Oracle &o, const Statement &s) { o.change(s.args[0].handle, likely(o, s)); },
                    make_probability, 8});
    rows.back().vary = less_likely;
    rows.push_back({"T0.uniform_(N0, N1)",
                    [p, q](Call &c) { c.tensor(0).uniform_(p(c.statement()), q(c.statement()), loc); },
                    [p, q](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]);
                        check_float(x);
                        o.change(s.args[0].handle, drawn_uniform(o, x, p(s), q(s)));
                    },
                    [](Maker &m, Statement &s) {
                        s.numbers = {0.0, 1.0};
                        if (m.once_in(2))
                            s.numbers = {m.pick(std::vector<double>{-2.0, 0.1, 0.5}),
                                         m.pick(std::vector<double>{3.0, 8.0})};
                        return make_changed(m, s);
                    },
                    12});
    rows.push_back({"T0.normal_(N0, N1)",
                    [p, q](Call &c) { c.tensor(0).normal_(p(c.statement()), q(c.statement()), loc); },
                    [p, q](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]);
                        check_float(x);
                        o.change(s.args[0].handle, drawn_normal(o, x, p(s), q(s)));
                    },
                    [](Maker &m, Statement &s) {
                        s.numbers = {0.0, 1.0};
                        if (m.once_in(2))
                            s.numbers = {m.pick(std::vector<double>{-2.0, 0.1}),
                                         m.pick(std::vector<double>{0.0, 3.0})};
                        return make_changed(m, s);
                    },
                    12});
#undef loc
}

} // namespace lz::test::calls
