// S29 with one order of products: equal bits on every kind of device.
#include "support.h"

#include <bit>
#include <cmath>
#include <random>
#include <utility>

namespace lz::test {
namespace {

/// Products have one order until the end of the scope.
class Reproducible {
public:
    Reproducible() { set_reproducible(true); }
    ~Reproducible() { set_reproducible(before_); }
    Reproducible(const Reproducible &) = delete;
    Reproducible &operator=(const Reproducible &) = delete;

private:
    const bool before_ = is_reproducible();
};

std::vector<float> random_numbers(int64_t count, uint32_t seed) {
    std::mt19937 engine(seed);
    std::vector<float> values(static_cast<size_t>(count));
    for (float &v : values)
        v = std::uniform_real_distribution<float>(-2, 2)(engine);
    return values;
}

Tensor matrix(const std::vector<float> &values, const Sizes &sizes, const Device &device) {
    return tensor(values).reshape(sizes).to(device);
}

std::vector<uint32_t> bits(const Tensor &t) {
    std::vector<uint32_t> out;
    for (const float v : floats(t.cpu()))
        out.push_back(std::bit_cast<uint32_t>(v));
    return out;
}

/// The order as it is promised, by plain loops.
std::vector<uint32_t> in_order(const std::vector<float> &a, const std::vector<float> &b, int64_t m, int64_t n,
                               int64_t k) {
    std::vector<uint32_t> out;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            float sum = 0;
            for (int64_t p = 0; p < k; ++p)
                sum = std::fma(a[static_cast<size_t>(i * k + p)], b[static_cast<size_t>(p * n + j)], sum);
            out.push_back(std::bit_cast<uint32_t>(sum));
        }
    return out;
}

TEST(Semantics, S29_reproducible_products_are_fused_multiply_adds_in_ascending_order_everywhere) {
    const Reproducible scope;
    struct Shape {
        int64_t m, n, k;
    };
    for (const auto &[m, n, k] : {Shape{1, 1, 1}, Shape{1, 7, 300}, Shape{5, 1, 700}, Shape{1, 1, 1500},
                                  Shape{17, 33, 129}, Shape{64, 40, 1100}}) {
        const auto a = random_numbers(m * k, 1), b = random_numbers(k * n, 2);
        const auto expected = in_order(a, b, m, n, k);
        for (const Device &place : {Device::cpu(), kGpu0}) {
            const Tensor x = matrix(a, {m, k}, place), y = matrix(b, {k, n}, place);
            EXPECT_EQ(bits(matmul(x, y)), expected) << m << ' ' << n << ' ' << k << " on " << place.str();
            // However the operands lie: stored transposed, and read so.
            const Tensor turned = y.permute({1, 0}) + 0;
            turned.eval();
            EXPECT_EQ(bits(matmul(x, turned.permute({1, 0}))), expected) << "turned on " << place.str();
        }
        const int threads = num_threads();
        for (const int many : {1, 3}) {
            set_num_threads(many);
            EXPECT_EQ(bits(matmul(matrix(a, {m, k}, Device::cpu()), matrix(b, {k, n}, Device::cpu()))),
                      expected);
        }
        set_num_threads(threads);
    }
}

/// Epilogues, batches that one side shares, sums over two axes, other dtypes.
TEST(Semantics, S29_reproducible_programs_have_equal_bits_on_every_kind_of_device) {
    const Reproducible scope;
    const auto program = [](const Device &place) {
        const Tensor a = matrix(random_numbers(3 * 12 * 50, 3), {3, 12, 50}, place),
                     b = matrix(random_numbers(50 * 21, 4), {50, 21}, place),
                     c = matrix(random_numbers(3 * 12 * 50 * 2, 5), {3, 12, 50, 2}, place),
                     v = matrix(random_numbers(50, 6), {50}, place);
        std::vector<std::vector<uint32_t>> out;
        out.push_back(bits(relu(matmul(a, b) + 1)));
        out.push_back(bits(gelu(matmul(a[0], b))));
        out.push_back(bits(softmax(matmul(a, a.permute({0, 2, 1})), -1)));
        out.push_back(bits(einsum("bik,bikj->bj", {a, c})));
        out.push_back(bits(matmul(a, v)));
        out.push_back(bits(matmul(a.to(bf16), b.to(bf16))));
        out.push_back(bits(matmul(a.to(f16), v.to(f16))));
        out.push_back(bits(matmul(a.to(f64), b.to(f64))));
        return out;
    };
    const auto cpu = program(Device::cpu()), gpu = program(kGpu0);
    for (size_t i = 0; i < cpu.size(); ++i)
        EXPECT_EQ(cpu[i], gpu[i]) << "part " << i;
}

/// A part of the target: Programs of one mode are not the other's, and are found again.
TEST(Semantics, S29_what_is_reproducible_is_another_program) {
    const bool before = is_reproducible();
    const Tensor a = rand({40, 60}), v = rand({60});
    eval({a, v});
    const auto product = [&](bool reproducible) {
        set_reproducible(reproducible);
        EXPECT_EQ(is_reproducible(), reproducible);
        return bits(matmul(a, v));
    };
    const auto ordered = product(true), other = product(false);
    const int64_t compiled = compile_stats().programs_compiled;
    EXPECT_EQ(product(true), ordered);
    EXPECT_EQ(product(false), other);
    EXPECT_EQ(compile_stats().programs_compiled, compiled);
    EXPECT_EQ(ordered, in_order(a.to_vector<float>(), v.to_vector<float>(), 40, 1, 60));
    set_reproducible(before);
}

} // namespace
} // namespace lz::test
