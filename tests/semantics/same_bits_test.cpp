// S29: the same program gives the same bits however it is cut, fused and threaded.
#include "frontend/engine/engine.h"
#include "support.h"
#include "tests/support/environment.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <xxhash.h>

namespace {

using lz::Tensor;
using lz::test::run_child;
using Cut = std::function<void()>;

struct Case {
    const char *name;
    std::function<std::vector<Tensor>(const Cut &)> program;
};

Tensor input(std::initializer_list<int64_t> shape, uint64_t seed, lz::DType dtype = lz::f32) {
    lz::manual_seed(seed);
    return (lz::randn(lz::Sizes(shape)) * 2).to(dtype);
}

const std::vector<Case> &corpus() {
    static const std::vector<Case> cases = {
        {"chain",
         [](const Cut &cut) {
             const Tensor a = input({1003}, 1), b = input({1003}, 2);
             const Tensor t = lz::tanh(a * b + a);
             cut();
             return std::vector{t * 0.5 + b, lz::exp(t) - t};
         }},
        {"half",
         [](const Cut &cut) {
             const Tensor a = input({517}, 1, lz::bf16), b = input({517}, 2, lz::f16).to(lz::bf16);
             const Tensor t = a * b + a;
             cut();
             return std::vector{lz::sigmoid(t) * b, (t * t).sum()};
         }},
        {"softmax",
         [](const Cut &cut) {
             const Tensor x = input({37, 1000}, 3);
             const Tensor y = x * 1.5 + 0.25;
             cut();
             return std::vector{lz::softmax(y, -1), lz::log_softmax(y, -1).sum(0)};
         }},
        {"layer_norm",
         [](const Cut &cut) {
             const Tensor x = input({19, 333}, 4), w = input({333}, 5), b = input({333}, 6);
             const Tensor y = lz::layer_norm(x, {333}, w, b);
             cut();
             return std::vector{lz::gelu(y), y.mean(1), y.var(0)};
         }},
        {"long_sums",
         [](const Cut &cut) {
             const Tensor x = input({3, 70001}, 7);
             const Tensor y = lz::sin(x);
             cut();
             return std::vector{y.sum(), y.sum(1), y.sum(0).sum(), lz::logsumexp(y, 1)};
         }},
        {"outer_sums",
         [](const Cut &cut) {
             const Tensor x = input({2111, 45}, 8);
             const Tensor y = x * x - 1;
             cut();
             return std::vector{y.sum(0), y.prod(0), y.max(0).values, lz::argmax(y, 0)};
         }},
        {"extremes_of_zeros", // a fused body is folded in other parts
         [](const Cut &cut) {
             std::vector<Tensor> extremes;
             for (uint64_t seed = 0; seed < 6; ++seed) {
                 lz::manual_seed(seed);
                 const Tensor r = lz::rand({26388});
                 Tensor x = lz::where(r < 0.3, 1.0, lz::where(r < 0.6, 0.0, -0.0)).to(lz::f32);
                 x.eval();
                 for (int i = 0; i < 8; ++i)
                     x = x * 1.5;
                 cut();
                 extremes.insert(extremes.end(), {x.amin(), (-x).amax(), x.reshape({4, 6597}).t().amin(0)});
             }
             return extremes;
         }},
        {"transposed",
         [](const Cut &cut) {
             const Tensor x = input({130, 70}, 9);
             const Tensor y = x.t() * 2;
             cut();
             return std::vector{y + input({70, 130}, 10), y.sum(1), y.sum(0)};
         }},
        {"product",
         [](const Cut &cut) {
             const Tensor x = input({65, 129}, 11), w = input({129, 33}, 12), b = input({33}, 13);
             const Tensor y = lz::matmul(x, w);
             cut();
             return std::vector{lz::gelu(y + b), lz::matmul(w.t(), x.t())};
         }},
        {"vector_products",
         [](const Cut &cut) {
             const Tensor x = input({1300, 700}, 15), v = input({1300}, 16), u = input({700}, 17);
             const Tensor y = x.t() * 2, h = y.to(lz::bf16), w = y.slice(1, 0, 1000, 3);
             cut();
             return std::vector{lz::matmul(y, v),
                                lz::matmul(u, y) + 1,
                                lz::matmul(h, v.to(lz::bf16)),
                                lz::matmul(u.to(lz::bf16), h),
                                lz::matmul(w.flip({1}), v.slice(0, 0, 334)),
                                lz::matmul(v, lz::sin(v))};
         }},
        {"random",
         [](const Cut &cut) {
             lz::manual_seed(99);
             const Tensor a = lz::rand({501}), b = lz::randn({501});
             cut();
             return std::vector{a + b, lz::where(a > 0.5, b, -b)};
         }},
        {"views",
         [](const Cut &cut) {
             const Tensor x = input({24, 10}, 14);
             const Tensor y = lz::cat({x.slice(0, 0, 5), x.flip({0}), x.roll({3}, {0})}, 0);
             cut();
             return std::vector{y.reshape({53 * 2, 5}).t() + 1, lz::pad(y, {1, 2}, 0.5).sum(1)};
         }},
        {"stencils",
         [](const Cut &cut) {
             const Tensor x = input({37, 3, 150}, 18);
             const lz::Slice in(1, -1), low(0, -2), high(2, lz::None), all;
             const Tensor u = x * 1.5;
             Tensor v = x.clone();
             cut();
             v.at({in, all, in}) =
                 0.25 * (v.at({low, all, in}) + v.at({high, all, in}) + v.at({in, all, low}));
             return std::vector{
                 u.roll({1}, {0}) + u.roll({-1}, {2}) * u.roll({1, 2}, {1, 2}),
                 lz::pad(lz::exp(u.at({in, all, in})) + u.at({low, all, high}), {1, 1, 0, 0, 1, 1}, 2), v};
         }},
    };
    return cases;
}

std::vector<std::vector<std::byte>> bits(const Case &c, const Cut &cut) {
    const std::vector<Tensor> results = c.program(cut);
    std::vector<std::vector<std::byte>> bytes;
    for (const Tensor &t : results) {
        const auto *data = t.data<std::byte>();
        bytes.emplace_back(data, data + t.numel() * lz::size_of(t.dtype()));
    }
    return bytes;
}

/// Modes for a scope.
class WithModes {
public:
    explicit WithModes(const std::function<void(lz::ir::Modes &)> &change)
        : before_(lz::engine::Engine::get().target().modes) {
        lz::ir::Modes modes = before_;
        change(modes);
        lz::engine::Engine::get().set_modes(modes);
    }
    ~WithModes() { lz::engine::Engine::get().set_modes(before_); }

private:
    lz::ir::Modes before_;
};

class SameBits : public testing::TestWithParam<size_t> {
protected:
    const Case &program() const { return corpus()[GetParam()]; }
    std::vector<std::vector<std::byte>> whole() const {
        return bits(program(), [] {});
    }
};

TEST_P(SameBits, S29_cut_in_two) {
    EXPECT_EQ(bits(program(), [] { lz::sync(); }), whole());
}

TEST_P(SameBits, S29_unfused) {
    const auto fused = whole();
    const WithModes unfused([](lz::ir::Modes &modes) { modes.fuse = false; });
    EXPECT_EQ(whole(), fused);
}

TEST_P(SameBits, S29_on_one_thread_and_many) {
    const int before = lz::num_threads();
    lz::set_num_threads(1);
    const auto alone = whole();
    lz::set_num_threads(4);
    EXPECT_EQ(whole(), alone);
    lz::set_num_threads(before);
}

/// Whether `simplify` sees the exponent or not.
TEST(Semantics, S29_a_number_to_the_power_of_1_is_the_number) {
    for (const lz::DType dtype : {lz::f16, lz::bf16, lz::f32, lz::f64}) {
        const Tensor x = input({20000}, 21, dtype), ones = lz::ones({20000}, {.dtype = dtype});
        lz::sync();
        EXPECT_TRUE(lz::equal(lz::pow(x, 1.0), x)) << lz::name(dtype);
        EXPECT_TRUE(lz::equal(lz::pow(x, ones), x)) << lz::name(dtype);
    }
}

INSTANTIATE_TEST_SUITE_P(Semantics, SameBits, testing::Range(size_t{0}, corpus().size()),
                         [](const auto &param) { return std::string(corpus()[param.param].name); });

// --- whoever made the code: LLVM, or for small kernels the interpreter as long as LLVM has not

/// Programs whose kernels are all small.
const std::vector<Case> &small_programs() {
    static const std::vector<Case> cases = {
        {"rows",
         [](const Cut &) {
             const Tensor x = input({5, 100}, 1), y = input({7, 3}, 2, lz::f64);
             return std::vector{lz::softmax(x, -1), lz::argmax(x, 1), lz::logsumexp(y, 1),
                                x.max(1).values,    lz::argmin(y, 0), y.prod(1)};
         }},
        {"sums",
         [](const Cut &) {
             const Tensor x = input({1500}, 3), h = input({3, 257}, 4, lz::f16),
                          b = input({9, 31}, 5, lz::bf16);
             return std::vector{x.sum(), (x * x).mean(), h.sum(1), h.sum(0), b.sum(), b.max(0).values};
         }},
        {"sums_over_axes_apart", // of more elements than a chunk of the outer loop has
         [](const Cut &) {
             std::vector<Tensor> sums;
             for (const int64_t n : {128, 129, 130, 257}) {
                 const Tensor x = input({n, 4, 6}, 11), y = input({n, 4, 6}, 12, lz::f64);
                 sums.insert(sums.end(), {x.sum({0, 2}), x.var({0, 2}), lz::logsumexp(x, {0, 2}),
                                          (x * x).mean({0, 2}), y.sum({0, 2}), y.prod(0)});
             }
             return sums;
         }},
        {"integers",
         [](const Cut &) {
             const Tensor i = lz::arange(-50, 50), j = (i * 37 + 11).to(lz::i32), k = i.to(lz::i8) * 5;
             return std::vector{i * i - 3,
                                j % 7,
                                lz::floor_divide(j, 3),
                                k,
                                k.sum(),
                                (i > 3).to(lz::u8),
                                lz::bitwise_xor(j, j * 3),
                                (k < 0).sum()};
         }},
        {"random_numbers",
         [](const Cut &) {
             lz::manual_seed(7);
             const Tensor u = lz::rand({3, 33}), n = lz::randn({65}, {.dtype = lz::f64});
             return std::vector{u, n, lz::randint(0, 1000, {50}), lz::bernoulli(u)};
         }},
        {"functions",
         [](const Cut &) {
             const Tensor x = input({301}, 6) * 30, y = input({77}, 7, lz::f64) * 100;
             return std::vector{lz::sin(x),  lz::pow(lz::abs(x), 1.7), lz::erf(x), lz::log1p(lz::abs(y)),
                                lz::tanh(y), lz::atan2(x, x + 1),      lz::exp(y)};
         }},
        {"gathered",
         [](const Cut &) {
             const Tensor x = input({11, 13}, 8), i = lz::arange(0, 20) * 7 % 11;
             return std::vector{lz::index_select(x, 0, i), lz::where(x > 0, x, x.flip({1})),
                                lz::pad(x.t(), {1, 2}, 3.5), x.slice(1, 1, 12, 3) + 1};
         }},
    };
    return cases;
}

/// What a process computes, one number a program.
TEST(Child, DISABLED_PrintsHashesOfBits) {
    for (const std::vector<Case> *cases : {&small_programs(), &corpus()})
        for (const Case &c : *cases) {
            const auto hash = [&] {
                XXH64_hash_t all = 0;
                for (const std::vector<std::byte> &bytes : bits(c, [] {}))
                    all = XXH3_64bits_withSeed(bytes.data(), bytes.size(), all);
                return all;
            };
            const XXH64_hash_t first = hash(), second = hash(), third = hash();
            EXPECT_EQ(first, second) << c.name;
            EXPECT_EQ(first, third) << c.name;
            std::printf("bits of %s: %016llx\n", c.name, static_cast<unsigned long long>(first));
        }
}

/// One structure, small and then large: the kernels of the first size are those of the others.
TEST(Child, DISABLED_Grows) {
    for (const int64_t n : {10, 20, 40, 80, 1000, 200'000, 30, 3'000'000}) {
        const Tensor x = lz::full({n}, 0.5);
        const Tensor y = x * 2 + 1, rows = lz::ones({n, 3}) + y.reshape({n, 1});
        EXPECT_EQ(y.sum().item<double>(), 2.0 * static_cast<double>(n));
        EXPECT_EQ(rows.max().item<double>(), 3);
    }
}
TEST(Semantics, S27_other_sizes_may_be_too_large_for_what_interprets_small_ones) {
    for (const char *variables : {"LAZULI_QUICK=always", "LAZULI_QUICK=1", "LAZULI_QUICK=1 LAZULI_THREADS=1"})
        run_child(variables, "Grows");
}

/// The lines that begin so.
std::string lines_of(const std::string &output, const std::string &begin) {
    std::string lines;
    for (size_t at = output.find(begin); at != std::string::npos; at = output.find(begin, at + 1))
        lines += output.substr(at, output.find('\n', at) + 1 - at);
    return lines;
}

TEST(Semantics, S29_what_is_interpreted_has_the_bits_of_what_is_compiled) {
    LZ_NEEDS_JIT();
    // Products are summed in the order of the ISA.
    const auto others = [](const std::string &output) {
        std::vector<std::string> lines;
        std::istringstream in(lines_of(output, "bits of "));
        for (std::string line; std::getline(in, line);)
            if (line.find("product") == std::string::npos)
                lines.push_back(line);
        return lines;
    };
    const auto compiled = others(run_child("LAZULI_QUICK=0", "PrintsHashesOfBits"));
    EXPECT_EQ(compiled.size(), corpus().size() + small_programs().size() - 2);
    EXPECT_EQ(others(run_child("LAZULI_CODEGEN=interpret", "PrintsHashesOfBits")), compiled);
}

TEST(Semantics, S29_bits_do_not_depend_on_who_was_first_to_make_the_code) {
    LZ_NEEDS_JIT();
    const std::string compiled = lines_of(run_child("LAZULI_QUICK=0", "PrintsHashesOfBits"), "bits of ");
    EXPECT_GT(compiled.size(), 300U);
    const std::string log = run_child("LAZULI_QUICK=always LAZULI_LOG=compile", "PrintsHashesOfBits");
    EXPECT_NE(log.find(" (1 beside) compiled"), std::string::npos) << "nothing was interpreted:\n" << log;
    EXPECT_EQ(lines_of(log, "bits of "), compiled) << "interpreted";
    for (int turn = 0; turn < 2; ++turn)
        EXPECT_EQ(lines_of(run_child("LAZULI_QUICK=1", "PrintsHashesOfBits"), "bits of "), compiled)
            << "by both";
}

} // namespace
