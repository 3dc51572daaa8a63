// S66: f16 and bf16 are computed in f32, which a number beside them enters as it is; the result rounds once.
// The expectations are C++'s float arithmetic, rounded by lz::Half and lz::BFloat.
#include "tests/support/tensor_values.h"

namespace {

using namespace lz::test;
using lz::Operand, lz::Tensor;

const std::vector<double> kValues = {0.5, 1000, -3, 0.25, 0, -1e-3, 65504, INFINITY, NAN};
const double kNumbers[] = {65536.0, 1e-8, 0.1, -3.3, 1.0 / 3, 100001.0, 2.0};

float rounded(float value, lz::DType dtype) {
    return dtype == lz::f16 ? float(lz::Half(value)) : float(lz::BFloat(value));
}

using Function = Tensor (*)(Operand, Operand);
using Oracle = float (*)(float, float);
struct Case {
    const char *name;
    Function function;
    Oracle oracle;
};
const Case kCases[] = {
    {"+", [](Operand a, Operand b) { return a + b; }, [](float a, float b) { return a + b; }},
    {"-", [](Operand a, Operand b) { return a - b; }, [](float a, float b) { return a - b; }},
    {"*", [](Operand a, Operand b) { return a * b; }, [](float a, float b) { return a * b; }},
    {"/", [](Operand a, Operand b) { return a / b; }, [](float a, float b) { return a / b; }},
    {"fmod", [](Operand a, Operand b) { return lz::fmod(a, b); },
     [](float a, float b) { return std::fmod(a, b); }},
};

TEST(Semantics, S66_a_number_beside_a_half_tensor_enters_in_f32_and_the_result_rounds_once) {
    for (const lz::DType dtype : {lz::f16, lz::bf16}) {
        const Tensor x = lz::tensor<double>(kValues).to(dtype).eval();
        const Values exact = values(x);
        for (const Case &c : kCases)
            for (const double number : kNumbers) {
                SCOPED_TRACE(testing::Message() << lz::name(dtype) << ' ' << c.name << ' ' << number);
                Values right, left;
                for (const double v : exact) {
                    right.push_back(rounded(c.oracle(float(v), float(number)), dtype));
                    left.push_back(rounded(c.oracle(float(number), float(v)), dtype));
                }
                const Extents sizes = x.sizes();
                expect_tensor(c.function(x, number), sizes, dtype, right);
                expect_tensor(c.function(number, x), sizes, dtype, left);
                // A 0-dim tensor of another dtype is such a number.
                expect_tensor(c.function(x, lz::tensor(number, {.dtype = lz::f32})), sizes, dtype, right);
                expect_tensor(c.function(lz::tensor(number, {.dtype = lz::f64}), x), sizes, dtype, left);
            }
    }
    const Tensor half = lz::tensor({0.5}, {.dtype = lz::f16});
    EXPECT_EQ((half * 65536.0).item<double>(), 32768); // was inf
    EXPECT_EQ((half * lz::tensor(100000)).item<double>(), 49984);
    Tensor kilo = lz::tensor({1000.0}, {.dtype = lz::f16});
    kilo *= 1e-8;
    EXPECT_EQ(kilo.item<double>(), 1.0013580322265625e-05); // was 0
}

// As in PyTorch: a comparison, and what picks or stores, sees the number that the tensor's dtype has.
TEST(Semantics, S66_a_half_tensor_compares_with_the_number_that_its_dtype_has) {
    const Tensor x = lz::full({1}, 0.1, {.dtype = lz::f16});
    EXPECT_TRUE((x == 0.1).item<bool>());
    EXPECT_FALSE((x < 0.1).item<bool>());
    EXPECT_EQ(lz::maximum(x, 1e-8).item<double>(), x.item<double>());
    EXPECT_EQ(x.clamp(0.3).item<double>(), double(float(lz::Half(0.3f))));
    EXPECT_EQ(lz::where(x > 0, 70000.0, x).item<double>(), INFINITY);
}

TEST(Semantics, S66_compositions_of_half_tensors_round_once) {
    const Tensor x = lz::tensor({0.5, 1000.0, -3.0}, {.dtype = lz::f16});
    const std::vector<float> v = {0.5f, 1000.0f, -3.0f};
    const auto each = [&](auto f) {
        Values out;
        for (const float a : v)
            out.push_back(rounded(f(a), lz::f16));
        return out;
    };
    expect_tensor(lz::add(x, x, 1e-3), {3}, lz::f16, each([](float a) { return a + 1e-3f * a; }));
    expect_tensor(lz::sub(x, x, 1e-8), {3}, lz::f16, each([](float a) { return a - 1e-8f * a; }));
    expect_tensor(lz::addcmul(x, x, x, 1e-3), {3}, lz::f16, each([](float a) { return a + 1e-3f * a * a; }));
    expect_tensor(lz::addcdiv(x, x, x * 3, 1e5), {3}, lz::f16,
                  each([](float a) { return a + 1e5f * a / (3 * a); }));
    expect_tensor(lz::lerp(x, x * 3, 1.0 / 3), {3}, lz::f16,
                  each([](float a) { return a + float(1.0 / 3) * (3 * a - a); }));
    // 300^2 is not in f16; the mean of it and zeros is.
    const Tensor errors = lz::tensor({300.0, 0.0, 0.0, 0.0}, {.dtype = lz::f16});
    EXPECT_EQ(lz::mse_loss(errors, lz::zeros_like(errors)).item<double>(), 22496); // 22500 rounded; was inf
}

TEST(Semantics, S62_operands_meet_before_anything_is_multiplied) {
    const Tensor bytes = lz::full({2}, 200, {.dtype = lz::u8});
    expect_tensor(lz::add(lz::zeros({2}), bytes, 2), {2}, lz::f32, {400, 400}); // was 144
    expect_tensor(lz::sub(lz::zeros({2}, {.dtype = lz::i32}), bytes, 2), {2}, lz::i32, {-400, -400});
    Tensor v = lz::zeros({2});
    const Tensor g = lz::full({2}, 300, {.dtype = lz::f16});
    v.addcmul_(g, g, 0.001); // was inf
    expect_values(v, {90, 90}, 1e-5);
    v.addcdiv_(bytes, g, 1e-6); // u8 * 1e-6 was 0
    expect_values(v, {90, 90}, 1e-5);
    Tensor i = lz::zeros({2}, {.dtype = lz::i32});
    i.add_(bytes, 2);
    expect_tensor(i, {2}, lz::i32, {400, 400});
    i.addcmul_(bytes, bytes, 2);
    expect_tensor(i, {2}, lz::i32, {80400, 80400});
    expect_tensor(
        lz::clamp(bytes, lz::tensor({-5}, {.dtype = lz::i32}), lz::tensor({300}, {.dtype = lz::i32})), {2},
        lz::i32, {200, 200});
    expect_error<lz::DTypeError>([&] { lz::add(i, i, 0.5); }, {"add", "alpha", "i32"});
    expect_error<lz::DTypeError>([&] { lz::add(i, i, true); }, {"add", "alpha", "bool"});
    expect_error<lz::DTypeError>([&] { lz::addcdiv(v, i, i); }, {"addcdiv", "integers"});
    expect_error<lz::DTypeError>([&] { lz::lerp(v, v, lz::ones({2}, {.dtype = lz::f64})); },
                                 {"lerp", "f64[2]"});
}

TEST(Semantics, S27_other_numbers_beside_half_tensors_never_recompile) {
    lz::sync(); // what other tests have left pending would be part of the first program
    const Tensor x = lz::full({1000}, 3, {.dtype = lz::f16}).eval();
    const auto run = [&](double number) { return ((x * number + number) / number).sum().item<double>(); };
    run(0.5);
    const auto before = lz::compile_stats();
    for (int i = 1; i < 20; ++i)
        run(0.1 * i);
    const auto after = lz::compile_stats();
    EXPECT_EQ(after.kernels_compiled, before.kernels_compiled);
    EXPECT_EQ(after.programs_compiled, before.programs_compiled);
}

TEST(Semantics, S29_half_tensors_with_numbers_have_the_same_bits_fused_and_one_by_one) {
    const Tensor x = (lz::arange(4097) * 0.37 - 700).to(lz::f16).eval();
    const auto chain = [&](bool cut) {
        Tensor y = x;
        for (const double number : kNumbers) {
            y = (y * number - 0.1) / number;
            if (cut)
                y.eval();
            y = lz::add(y, y, 0.3).clamp(-1e4, 1e4);
            if (cut)
                y.eval();
        }
        return y;
    };
    const int64_t launches = lz::compile_stats().kernel_launches;
    const Tensor fused = chain(false).eval();
    EXPECT_EQ(lz::compile_stats().kernel_launches, launches + 1);
    const auto bits = [](const Tensor &t) {
        std::vector<uint16_t> out;
        for (const lz::Half h : t.to_vector<lz::Half>())
            out.push_back(h.bits);
        return out;
    };
    EXPECT_EQ(bits(fused), bits(chain(true)));
}

} // namespace
