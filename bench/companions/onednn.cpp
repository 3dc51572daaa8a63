// oneDNN beside Lazuli, in a process of its own: newer ones come with a newer TBB than the system's, which
// ours would run on in the same process. Answers
//
//   version              of the library
//   f32 M K N            a product of row-major matrices
//   bf16 N               of square ones, to bf16
//   i8 N                 likewise, to i32
//   linear_gelu M K N    f32: a product with a transposed weight, a bias and gelu
//
// with the seconds of one run, in a burst as ours are (burst.h), or `unimplemented`; results of f32 are
// checked first. Its argument is a number of threads.
#include "bench/support/burst.h"
#include "bench/support/companion.h"

#include <dnnl.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

using dnnl::memory;
using Type = memory::data_type;
using lz::bench::burst;

/// What is timed; `finish` where it is only enqueued.
struct Work {
    std::function<void()> run, finish = {};
};

/// Numbers between -1 and 1 in steps, which are no multiples of each other's.
std::vector<float> numbers(int64_t count, int64_t step) {
    std::vector<float> x(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i)
        x[static_cast<size_t>(i)] = static_cast<float>(i * step % 257 - 128) / 128;
    return x;
}

void check(bool right) {
    if (!right)
        throw std::runtime_error("oneDNN's result is wrong");
}

/// Whether an element is a sum over k, within what any order of it in f32 gives.
bool near(double expected, double value, int64_t k) {
    return std::abs(expected - value) <= static_cast<double>(k) * static_cast<double>(k) * 0x1p-24 + 1e-6;
}

/// Of dnnl_sgemm, which needs no engine.
class Sgemm {
public:
    Sgemm(int64_t m, int64_t k, int64_t n)
        : m_(m), k_(k), n_(n), a_(numbers(m * k, 7)), b_(numbers(k * n, 11)),
          out_(static_cast<size_t>(m * n)) {}
    void run() { dnnl_sgemm('N', 'N', m_, n_, k_, 1, a_.data(), k_, b_.data(), n_, 0, out_.data(), n_); }
    void check_it() {
        run();
        for (int64_t s = 0; s < 16; ++s) {
            const int64_t i = s * 7919 % m_, j = s * 104729 % n_;
            double sum = 0;
            for (int64_t p = 0; p < k_; ++p)
                sum += static_cast<double>(a_[static_cast<size_t>(i * k_ + p)]) *
                       static_cast<double>(b_[static_cast<size_t>(p * n_ + j)]);
            check(near(sum, static_cast<double>(out_[static_cast<size_t>(i * n_ + j)]), k_));
        }
    }

private:
    int64_t m_, k_, n_;
    std::vector<float> a_, b_, out_;
};

Work f32(int64_t m, int64_t k, int64_t n) {
    const auto product = std::make_shared<Sgemm>(m, k, n);
    product->check_it();
    return {[product] { product->run(); }};
}

struct Cpu {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
};
Cpu &cpu() {
    static Cpu cpu;
    return cpu;
}

dnnl::matmul::primitive_desc describe(const memory::desc &a, const memory::desc &b, const memory::desc &out) {
#if DNNL_VERSION_MAJOR < 3
    return {dnnl::matmul::desc(a, b, out), cpu().engine};
#else
    return {cpu().engine, a, b, out};
#endif
}

/// Products of square matrices of numbers that are alike, which are as fast as any others.
Work square(int64_t size, Type operands, Type result) {
    const memory::desc in({size, size}, operands, memory::format_tag::ab),
        sums({size, size}, result, memory::format_tag::ab);
    const memory x(in, cpu().engine), y(in, cpu().engine), out(sums, cpu().engine);
    for (const memory &operand : {x, y})
        std::fill_n(static_cast<uint8_t *>(operand.get_data_handle()), in.get_size(), uint8_t{0x3a});
    const dnnl::matmul multiply(describe(in, in, sums));
    // Newer ones' streams are queues, whose wait takes microseconds: one wait a burst.
    return {[=] {
                multiply.execute(cpu().stream,
                                 {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, y}, {DNNL_ARG_DST, out}});
            },
            [] { cpu().stream.wait(); }};
}

/// x, weight and bias of a layer in f32, with gelu behind it.
struct Linear {
    Linear(int64_t m, int64_t k, int64_t n)
        : m(m), k(k), n(n), x(numbers(m * k, 7)), weight(numbers(n * k, 11)), bias(numbers(n, 13)),
          out(static_cast<size_t>(m * n)) {
        const auto matrix = [](int64_t rows, int64_t columns, memory::format_tag order) {
            return memory::desc({rows, columns}, Type::f32, order);
        };
        using Order = memory::format_tag;
        const memory::desc in = matrix(m, k, Order::ab), by = matrix(k, n, Order::ba),
                           with = matrix(1, n, Order::ab), to = matrix(m, n, Order::ab);
        dnnl::post_ops after;
        dnnl::primitive_attr attributes;
#if DNNL_VERSION_MAJOR < 3
        after.append_eltwise(1, dnnl::algorithm::eltwise_gelu_erf, 0, 0);
        attributes.set_post_ops(after);
        multiply = dnnl::matmul(
            dnnl::matmul::primitive_desc(dnnl::matmul::desc(in, by, with, to), attributes, cpu().engine));
#else
        after.append_eltwise(dnnl::algorithm::eltwise_gelu_erf, 0, 0);
        attributes.set_post_ops(after);
        multiply = dnnl::matmul(dnnl::matmul::primitive_desc(cpu().engine, in, by, with, to, attributes));
#endif
        arguments = {{DNNL_ARG_SRC, memory(in, cpu().engine, x.data())},
                     {DNNL_ARG_WEIGHTS, memory(by, cpu().engine, weight.data())},
                     {DNNL_ARG_BIAS, memory(with, cpu().engine, bias.data())},
                     {DNNL_ARG_DST, memory(to, cpu().engine, out.data())}};
    }
    void run() { multiply.execute(cpu().stream, arguments); }
    void check_it() {
        run();
        cpu().stream.wait();
        for (int64_t s = 0; s < 16; ++s) {
            const int64_t i = s * 7919 % m, j = s * 104729 % n;
            auto sum = static_cast<double>(bias[static_cast<size_t>(j)]);
            for (int64_t p = 0; p < k; ++p)
                sum += static_cast<double>(x[static_cast<size_t>(i * k + p)]) *
                       static_cast<double>(weight[static_cast<size_t>(j * k + p)]);
            check(near(0.5 * sum * (1 + std::erf(sum * std::sqrt(0.5))),
                       static_cast<double>(out[static_cast<size_t>(i * n + j)]), k));
        }
    }

    int64_t m, k, n;
    std::vector<float> x, weight, bias, out;
    dnnl::matmul multiply;
    std::unordered_map<int, memory> arguments;
};

Work linear_gelu(int64_t m, int64_t k, int64_t n) {
    const auto linear = std::make_shared<Linear>(m, k, n);
    linear->check_it();
    return {[linear] { linear->run(); }, [] { cpu().stream.wait(); }};
}

/// As many threads as ours: TBB and OpenMP take as many as there are processors for the process.
void use_threads(int count) {
    cpu_set_t allowed, some;
    CPU_ZERO(&some);
    sched_getaffinity(0, sizeof allowed, &allowed);
    for (int at = 0, used = 0; at < CPU_SETSIZE && used < count; ++at)
        if (CPU_ISSET(at, &allowed)) {
            CPU_SET(at, &some);
            ++used;
        }
    sched_setaffinity(0, sizeof some, &some);
}

/// oneDNN of Python's registry has SYCL's CPU device as its CPU, which comes as a library beside it.
void find_device() {
    Dl_info info{};
    if (::dladdr(reinterpret_cast<void *>(&dnnl_version), &info) == 0)
        return;
    const std::filesystem::path device =
        std::filesystem::absolute(info.dli_fname).parent_path() / "libintelocl.so";
    if (std::filesystem::exists(device))
        ::setenv("OCL_ICD_FILENAMES", device.c_str(), 0);
}

Work make(const std::vector<std::string> &words) {
    const auto size = [&](size_t at) { return int64_t{std::stol(words.at(at))}; };
    const std::string &what = words.at(0);
    if (what == "f32")
        return f32(size(1), size(2), size(3));
    if (what == "bf16")
        return square(size(1), Type::bf16, Type::bf16);
    if (what == "i8")
        return square(size(1), Type::s8, Type::s32);
    if (what == "linear_gelu")
        return linear_gelu(size(1), size(2), size(3));
    throw std::runtime_error("there is no " + what);
}

std::string answer(const std::vector<std::string> &words) try {
    if (words.at(0) == "version") {
        const dnnl_version_t *const v = dnnl_version();
        return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
    }
    static std::vector<std::string> last; // it is asked for the same several times
    static Work work;
    if (last != words) {
        work = make(words);
        last = words;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.9e", burst(work.run, work.finish));
    return text;
} catch (const dnnl::error &error) {
    if (error.status != dnnl_unimplemented)
        throw;
    return "unimplemented";
}

} // namespace

int main(int argc, char **argv) {
    if (argc == 2)
        use_threads(std::atoi(argv[1]));
    find_device();
    return lz::bench::serve(answer);
}
