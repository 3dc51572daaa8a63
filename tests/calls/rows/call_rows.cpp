// Functions of the user's own, errors that only running reveals, threads, and the caller's floating-point
// mode.
#include "probes.h"
#include "rows.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "row_macros.h"

namespace lz::test::calls {

namespace {

std::mutex marks_mutex;
std::set<int64_t> marks;

/// As many results as the name says: row-major elements of the operand, each less than the next by one.
std::string many(int64_t results) {
    return "calls.split" + std::to_string(results);
}
const std::vector<int64_t> kMany = {1, 2, 3, 128, 129, 130, 200, 256, 300};

void register_many(int64_t results) {
    register_call(
        many(results),
        [results](std::span<const CallType> in) {
            return std::vector<CallType>(static_cast<size_t>(results), in[0]);
        },
        [](std::span<const CallInput> in, std::span<const CallOutput> out) {
            const auto x = in[0].values<float>();
            for (size_t k = 0; k < out.size(); ++k) {
                const auto y = out[k].values<float>();
                for (size_t i = 0; i < x.size(); ++i)
                    y[i] = x[i] + static_cast<float>(k);
            }
        });
}

} // namespace

void register_calls() {
    static std::once_flag once;
    std::call_once(once, [] {
        for (const int64_t results : kMany)
            register_many(results);
        const auto same = [](std::span<const CallType> in) { return std::vector{in[0]}; };
        register_call("calls.mark", same, [](std::span<const CallInput> in, std::span<const CallOutput> out) {
            std::this_thread::sleep_for(std::chrono::microseconds(300)); // so that what does not wait is seen
            const int64_t mark = in[0].values<int64_t>()[0];
            out[0].values<int64_t>()[0] = mark;
            const std::lock_guard lock(marks_mutex);
            marks.insert(mark);
        });
        register_call("calls.throws", same, [](std::span<const CallInput>, std::span<const CallOutput>) {
            throw std::runtime_error("as asked");
        });
    });
}

int64_t new_mark() {
    static std::atomic<int64_t> last = 0;
    return ++last;
}

bool marked(int64_t mark) {
    const std::lock_guard lock(marks_mutex);
    return marks.contains(mark);
}

namespace {

bool make_whole_pair(Maker &m, Statement &s, bool in_place) {
    const auto whole = [](const Array &v) { return !is_float(v.dtype) && v.dtype != boolean; };
    const auto x = m.any(whole);
    if (!x)
        return false;
    const auto y = m.any([&](const Array &v) { return whole(v) && fits_beside(m.oracle.value(*x), v); });
    if (!y)
        return false;
    s.args = {Arg::of(*x), Arg::of(*y)};
    if (!in_place)
        s.out = {m.target()};
    return true;
}

void nothing(Oracle &, const Statement &) {}

/// FTZ and DAZ, or nothing where the machine has no such thing.
void flush_subnormals() {
#if defined(__SSE__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

} // namespace

void add_call_rows(std::vector<Row> &rows) {
    // Late errors are thrown by the eval that stands beside them; a value that was not to be had leaves the
    // handle as it was (S26).
    const auto late = [&](std::string text, const char *name,
                          Tensor (*function)(Operand, Operand, Location)) {
        rows.push_back({std::move(text),
                        [function](Call &c) {
                            const Tensor made = function(c.operand(0), c.operand(1), c.loc);
                            (void)made.str(c.loc); // an eval does not wait for a GPU
                            c.result(0) = made;
                        },
                        [name](Oracle &o, const Statement &s) { o.set(s.out[0], computed(o, name, s.args)); },
                        [](Maker &m, Statement &s) { return make_whole_pair(m, s, false); }, 8, false, false,
                        true});
    };
    late("OUT = computed(lz::floor_divide(T0, T1))", "floor_divide", lz::floor_divide);
    late("OUT = computed(lz::remainder(T0, T1))", "remainder", lz::remainder);
    late("OUT = computed(lz::fmod(T0, T1))", "fmod", lz::fmod);
    // Divisions under the mask of what joins or pads them: their checks count inside of it alone.
    rows.push_back({"OUT = computed(lz::pad(lz::floor_divide(T0, T1), {I0, I1}, 7))",
                    [](Call &c) {
                        const Tensor made = lz::pad(lz::floor_divide(c.operand(0), c.operand(1), c.loc),
                                                    {c.integer(0), c.integer(1)}, 7, c.loc);
                        (void)made.str(c.loc);
                        c.result(0) = made;
                    },
                    [](Oracle &o, const Statement &s) {
                        Array out = computed(o, "floor_divide", s.args);
                        const int64_t n = out.shape.back(), before = s.ints[0], after = s.ints[1];
                        std::vector<Element> padded;
                        for (int64_t row = 0; row < count(out.shape) / std::max<int64_t>(n, 1); ++row)
                            for (int64_t k = -before; k < n + after; ++k)
                                padded.push_back(k < 0 || k >= n ? converted(Scalar(7), out.dtype)
                                                                 : out.at[static_cast<size_t>(row * n + k)]);
                        out.shape.back() += before + after;
                        out.at = std::move(padded);
                        o.set(s.out[0], std::move(out));
                    },
                    [](Maker &m, Statement &s) {
                        if (!make_whole_pair(m, s, false))
                            return false;
                        s.ints = {m.below(3), m.between(1, 3)};
                        const Extents shape =
                            broadcast(m.oracle.value(s.args[0]).shape, m.oracle.value(s.args[1]).shape);
                        return !shape.empty() && count(shape) > 0;
                    },
                    10, false, false, true});
    rows.push_back(
        {"OUT = computed(lz::stack({lz::remainder(T0, T1), lz::floor_divide(T0, T1)}, 0))",
         [](Call &c) {
             const Tensor made = lz::stack({lz::remainder(c.operand(0), c.operand(1), c.loc),
                                            lz::floor_divide(c.operand(0), c.operand(1), c.loc)},
                                           0, c.loc);
             (void)made.str(c.loc);
             c.result(0) = made;
         },
         [](Oracle &o, const Statement &s) {
             Array out = computed(o, "remainder", s.args);
             const Array second = computed(o, "floor_divide", s.args);
             out.shape.insert(out.shape.begin(), 2);
             out.at.insert(out.at.end(), second.at.begin(), second.at.end());
             o.set(s.out[0], std::move(out));
         },
         [](Maker &m, Statement &s) {
             return make_whole_pair(m, s, false) &&
                    broadcast(m.oracle.value(s.args[0]).shape, m.oracle.value(s.args[1]).shape).size() < 8;
         },
         10, false, false, true});
    rows.push_back(
        {"OUT = computed(lz::one_hot(T0, I0))",
         [](Call &c) {
             const Tensor made = lz::one_hot(c.tensor(0), c.integer(0), c.loc);
             (void)made.str(c.loc);
             c.result(0) = made;
         },
         [](Oracle &o, const Statement &s) {
             const Array &at = o.value(s.args[0]);
             Extents shape = at.shape;
             shape.push_back(s.ints[0]);
             Array out = make(i64, shape);
             out.device = at.device;
             for (size_t k = 0; k < at.at.size(); ++k) {
                 if (at.at[k].i < 0 || at.at[k].i >= s.ints[0])
                     throw Mistake(ErrorType::Index, "no such class", true);
                 out.at[k * static_cast<size_t>(s.ints[0]) + static_cast<size_t>(at.at[k].i)].i = 1;
             }
             o.set(s.out[0], std::move(out));
         },
         [](Maker &m, Statement &s) {
             const auto at = m.any([](const Array &v) {
                 return v.dtype == i64 && v.trust == Trust::Exact && v.shape.size() < 8 && v.at.size() < 200;
             });
             if (!at)
                 return false;
             s.args = {Arg::of(*at)};
             s.ints = {m.between(1, 9)};
             s.out = {m.target()};
             return true;
         },
         10, false, false, true});
    rows.push_back(
        {"computed(T0.floor_divide_(T1))",
         [](Call &c) { (void)c.tensor(0).floor_divide_(c.operand(1), c.loc).str(c.loc); },
         [](Oracle &o, const Statement &s) {
             if (broadcast(o.value(s.args[0]).shape, o.value(s.args[1]).shape) != o.value(s.args[0]).shape)
                 throw Mistake(ErrorType::Shape, "an in-place form keeps its shape");
             assign(o, s.args[0].handle, computed(o, "floor_divide", s.args));
         },
         [](Maker &m, Statement &s) { return make_whole_pair(m, s, true); }, 12, false, false, true});
    rows.push_back({"OUT = computed(lz::index_select(T0, 0, T1))",
                    [](Call &c) {
                        const Tensor made = lz::index_select(c.tensor(0), 0, c.tensor(1), c.loc);
                        (void)made.str(c.loc);
                        c.result(0) = made;
                    },
                    [](Oracle &o, const Statement &s) {
                        const Array &x = o.value(s.args[0]), &at = o.value(s.args[1]);
                        Extents shape = x.shape;
                        shape[0] = static_cast<int64_t>(at.at.size());
                        std::vector<int64_t> from;
                        for (int64_t k = 0; k < count(shape); ++k) {
                            Extents source = coordinates(shape, k);
                            source[0] = at.at[static_cast<size_t>(source[0])].i;
                            if (source[0] < 0 || source[0] >= x.shape[0])
                                throw Mistake(ErrorType::Index, "out of the axis", true);
                            from.push_back(position(x.shape, source));
                        }
                        o.set(s.out[0], taken(x, shape, from));
                    },
                    [](Maker &m, Statement &s) {
                        const auto x =
                            m.any([](const Array &v) { return !v.shape.empty() && !v.at.empty(); });
                        if (!x)
                            return false;
                        const auto at = m.any([&](const Array &v) {
                            return (v.dtype == i64 || v.dtype == i32) && v.shape.size() == 1 &&
                                   v.trust == Trust::Exact && meets(m.oracle.value(*x), v);
                        });
                        if (!at)
                            return false;
                        s.args = {Arg::of(*x), Arg::of(*at)};
                        s.out = {m.target()};
                        return true;
                    },
                    12, false, false, true});
    rows.push_back({"computed(lz::call(\"calls.throws\", {T0})[0])",
                    [](Call &c) { (void)lz::call("calls.throws", {c.tensor(0)}, c.loc)[0].str(c.loc); },
                    [](Oracle &o, const Statement &s) {
                        o.value(s.args[0]);
                        throw Mistake(ErrorType::State, "it throws", true);
                    },
                    [](Maker &m, Statement &s) { // of nothing it is not called
                        const auto x = m.any([](const Array &v) { return !v.at.empty(); });
                        if (x)
                            s.args = {Arg::of(*x)};
                        return x.has_value();
                    },
                    4, false, false, true});
    // Several results, of which some are looked at.
    rows.push_back({"lz::call(\"calls.split\" + std::to_string(I0), {T0})",
                    [](Call &c) {
                        std::vector<Tensor> all = lz::call(many(c.integer(0)), {c.tensor(0)}, c.loc);
                        c.result(0) = all[static_cast<size_t>(c.integer(1))];
                        if (c.statement().out.size() > 1)
                            c.result(1) = all[static_cast<size_t>(c.integer(2))];
                    },
                    [](Oracle &o, const Statement &s) {
                        const Array x = o.value(s.args[0]);
                        for (size_t k = 0; k < s.out.size(); ++k) {
                            if (k == 1 && s.ints[1] == s.ints[2]) { // one result under two names
                                o.alias(s.out[1], s.out[0]);
                                break;
                            }
                            Array y = x;
                            y.trust = through(x.trust, x.trust);
                            for (Element &e : y.at)
                                e.f = rounded(f32, e.f + static_cast<double>(s.ints[k + 1]));
                            o.set(s.out[k], y);
                        }
                    },
                    [](Maker &m, Statement &s) {
                        const auto x =
                            m.any([](const Array &v) { return v.dtype == f32 && v.at.size() < 100; });
                        if (!x)
                            return false;
                        s.args = {Arg::of(*x)};
                        const int64_t results = m.once_in(6) ? m.pick(kMany) : 1 + m.below(3);
                        s.ints = {results, m.below(results), m.below(results)};
                        s.out = {m.target()};
                        if (const int other = m.target(); other != s.out[0])
                            s.out.push_back(other);
                        return true;
                    },
                    15, false, true});
    // Several threads look at one state at once, pending or not.
    rows.push_back(
        {"from_threads([&] { show(T0); }, [&] { show(T1); }, [&] { show(T0); })",
         [](Call &c) {
             std::vector<std::thread> threads;
             std::mutex mutex;
             std::string problem;
             for (const size_t k : {0u, 1u, 0u})
                 threads.emplace_back([&, k] {
                     std::string found;
                     try {
                         const Array &expected = c.world().oracle->value(c.statement().args[k]);
                         found = difference(expected, array_of(c.tensor(k), c.loc));
                     } catch (const std::exception &error) {
                         found = error.what();
                     }
                     const std::lock_guard lock(mutex);
                     if (!found.empty())
                         problem = found;
                 });
             for (std::thread &thread : threads)
                 thread.join();
             if (!problem.empty())
                 c.fail("on another thread: " + problem);
         },
         [](Oracle &o, const Statement &s) {
             for (const Arg &arg : s.args)
                 o.value(arg);
         },
         [](Maker &m, Statement &s) { return make_one(m, s) && (s.args.push_back(Arg::of(*m.any())), true); },
         25});
    // The caller's floating-point mode is nobody's business but its own.
    const auto mode = [&](std::string text, std::function<void(Call &)> run) {
        rows.push_back({std::move(text), std::move(run), nothing, [](Maker &, Statement &) { return true; },
                        3, false, false, false, false});
    };
    mode("std::fesetround(FE_UPWARD)", [](Call &) { std::fesetround(FE_UPWARD); });
    mode("std::fesetround(FE_TOWARDZERO)", [](Call &) { std::fesetround(FE_TOWARDZERO); });
    mode("flush_subnormals()", [](Call &) { flush_subnormals(); });
    mode("lz::set_num_threads(1)", [](Call &) { lz::set_num_threads(1); });
    mode("lz::set_num_threads(3)", [](Call &) { lz::set_num_threads(3); });
}

} // namespace lz::test::calls
