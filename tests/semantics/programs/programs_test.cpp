// S100 to S103: compiled functions as files. The oracle is the function itself.
#include "support.h"
#include "tests/support/environment.h"
#include "tests/support/samples/resealed.h"

#include "ir/saved/saved_program.h"

#include <lazuli/nn.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <sstream>
#include <thread>

namespace {

using namespace lz;
using namespace lz::test;

std::vector<uint64_t> bits(const Tensor &t) {
    std::vector<uint64_t> out;
    for (const double value : t.to(f64).to_vector<double>())
        out.push_back(std::bit_cast<uint64_t>(value));
    return out;
}
void expect_same(const Tensor &a, const Tensor &b) {
    EXPECT_EQ(a.dtype(), b.dtype());
    EXPECT_EQ(a.sizes(), b.sizes());
    EXPECT_EQ(bits(a), bits(b)) << a << "\n" << b;
}

class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "lazuli-programs-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string operator/(const std::string &name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

std::string read_text(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
}
void write_text(const std::string &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    ::chmod(path.c_str(), 0644);
}

struct Pair {
    Tensor sum, product;
    auto members() { return std::tie(sum, product); }
};

/// A compiled function that has recorded calls of these shapes.
template <class F>
auto recorded(F f, const std::vector<Sizes> &shapes) {
    auto compiled = compile(std::move(f));
    for (int call = 0; call < 3; ++call) {
        std::vector<Tensor> given;
        for (const Sizes &shape : shapes)
            given.push_back(rand(shape));
        if constexpr (std::is_invocable_v<F &, const Tensor &>)
            compiled(given[0]);
        else
            compiled(given[0], given[1]);
    }
    return compiled;
}

TEST(Programs, S100_a_loaded_program_has_the_bits_of_the_function) {
    LZ_NEEDS_JIT();
    const Folder folder;
    manual_seed(3);
    const Tensor weights = randn({16, 8}), bias = randn({8});
    const auto f = [&](const Tensor &x, const Tensor &y) {
        return std::vector<Tensor>{softmax(matmul(x, weights) + bias, -1), gelu(y).sum(0),
                                   exp(y) / (1 + y * y), argmax(x, 1)};
    };
    save_program(folder / "f.lzp", recorded(f, {{5, 16}, {300, 70}}),
                 {.inputs = {"x", "y"}, .outputs = {"p", "s", "e", "best"}, .name = "four"});
    const Program p = load_program(folder / "f.lzp");
    EXPECT_EQ(p.name(), "four");
    ASSERT_EQ(p.signatures().size(), 1u);
    EXPECT_EQ(p.inputs()[1].name, "y");
    EXPECT_EQ(p.inputs()[1].shape, (std::vector<int64_t>{300, 70}));
    EXPECT_EQ(p.outputs()[3].name, "best");
    EXPECT_EQ(p.outputs()[3].dtype, i64);
    for (int i = 0; i < 3; ++i) {
        const Tensor x = randn({5, 16}), y = randn({300, 70});
        const std::vector<Tensor> expected = f(x, y), given = p({x, y});
        ASSERT_EQ(given.size(), expected.size());
        for (size_t k = 0; k < given.size(); ++k)
            expect_same(given[k], expected[k]);
    }
    // Pending inputs are computed first, one tensor may be two arguments, and memory of the user's is read.
    const auto square = recorded([](const Tensor &a, const Tensor &b) { return a * b + 1; }, {{3}, {3}});
    save_program(folder / "g.lzp", square);
    const Program q = load_program(folder / "g.lzp");
    const Tensor twice = ones({3}) * 2;
    EXPECT_EQ(floats(q({twice, twice})[0]), (std::vector<float>{5, 5, 5}));
    std::array<float, 3> mine = {1, 2, 3};
    const Tensor view = from_blob(mine.data(), {3});
    EXPECT_EQ(floats(q({view, twice})[0]), (std::vector<float>{3, 5, 7}));
}

TEST(Programs, S100_programs_of_gpus_have_the_bits_of_the_function) {
    LZ_NEEDS_JIT();
    LZ_NEEDS_GPUS(2);
    const Folder folder;
    const Tensor weights = randn({16, 8}, {.device = kGpu0});
    const auto f = [&](const Tensor &x, const Tensor &y) {
        const Tensor h = tanh(x + weights.sum());
        return std::vector<Tensor>{h.to(kGpu1) * 2, softmax(y, -1), h.cpu().sum(), x.argmax(1)};
    };
    const Tensor x = randn({5, 16}, {.device = kGpu0}), y = randn({30, 7}, {.device = kGpu1});
    const auto compiled = compile(f);
    for (int i = 0; i < 3; ++i)
        compiled(x, y);
    save_program(folder / "f.lzp", compiled, {.inputs = {"x", "y"}});
    const Program p = load_program(folder / "f.lzp");
    EXPECT_EQ(p.inputs()[1].device, "cuda:1");
    EXPECT_EQ(p.outputs()[2].device, "cpu");
    const std::vector<Tensor> expected = f(x, y), given = p({x, y});
    for (size_t k = 0; k < given.size(); ++k) {
        EXPECT_EQ(given[k].device(), expected[k].device());
        expect_same(given[k], expected[k]);
    }
    const Caught device = caught<DeviceError>([&] { p({x, y.to(kGpu0)}); });
    EXPECT_TRUE(device.has("`y` is f32[30,7] @cuda:0, and has to be f32[30,7] on cuda:1")) << device.what;
}

TEST(Programs, S100_structures_numbers_and_arguments_that_are_given_back) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const auto f = compile([](const Tensor &x, double scale) {
        return std::pair(Pair{x.sum() * scale, x * scale}, std::vector<Tensor>{x, Tensor()});
    });
    for (int i = 1; i < 5; ++i)
        f(rand({4}), 0.37 * i);
    save_program(folder / "f.lzp", f);
    const Program p = load_program(folder / "f.lzp");
    ASSERT_EQ(p.signatures()[0].numbers.size(), 1u);
    EXPECT_FALSE(p.signatures()[0].numbers[0].has_value());
    const Tensor x = arange(4).to(f32);
    const std::vector<Tensor> out = p({x}, {-2.5});
    ASSERT_EQ(out.size(), 4u);
    EXPECT_EQ(floats(out[0]), (std::vector<float>{-15}));
    EXPECT_EQ(floats(out[1]), (std::vector<float>{0, -2.5, -5, -7.5}));
    EXPECT_EQ(out[2].id(), x.id()) << "the argument itself";
    EXPECT_FALSE(out[3].defined());
    const Caught count = caught<StateError>([&] { p({x}); });
    EXPECT_TRUE(count.has("takes 1 numbers, and got 0")) << count.what;
    // A number that the function computes with on the host is part of the program.
    const auto g = compile([](const Tensor &a, double power) { return a * std::exp(power); });
    for (int i = 0; i < 6; ++i)
        g(rand({4}), i % 2 == 0 ? 1.0 : 2.0);
    save_program(folder / "g.lzp", g);
    const Program q = load_program(folder / "g.lzp");
    EXPECT_EQ(q.signatures().size(), 2u);
    for (const double power : {1.0, 2.0})
        expect_same(q({x}, {power})[0], x * std::exp(power));
    const Caught other = caught<StateError>([&] { q({x}, {3.0}); });
    EXPECT_TRUE(other.has("number 0 is 3")) << other.what;
}

TEST(Programs, S100_random_numbers_are_drawn_from_this_process) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const auto f = [](const Tensor &x) { return x + randn({7}) * 2 + rand({7}); };
    save_program(folder / "f.lzp", recorded(f, {{7}}));
    const Program p = load_program(folder / "f.lzp");
    const Tensor x = zeros({7});
    manual_seed(11);
    const Tensor first = f(x).clone(), second = f(x).clone();
    eval({first, second});
    manual_seed(11);
    expect_same(p({x})[0], first);
    expect_same(p({x})[0], second);
}

TEST(Programs, S100_several_signatures_are_one_file) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const auto f = compile([](const Tensor &x) { return x.sum() * 2; });
    for (int i = 0; i < 3; ++i) {
        f(rand({4}));
        f(rand({2, 3}));
        f(ones({4}, {.dtype = i32}));
    }
    save_program(folder / "f.lzp", f, {.name = "twice the sum"});
    const Program p = load_program(folder / "f.lzp");
    EXPECT_EQ(p.signatures().size(), 3u);
    EXPECT_EQ(p({ones({4})})[0].item<float>(), 8);
    EXPECT_EQ(p({ones({2, 3})})[0].item<float>(), 12);
    EXPECT_EQ(p({ones({4}, {.dtype = i32})})[0].item<int64_t>(), 8);
    const Caught shape = caught<ShapeError>([&] { p({ones({5})}); });
    EXPECT_TRUE(shape.has("has to be f32[4] on cpu, or what one of its 3 signatures takes")) << shape.what;
}

/// Which arguments are named and which are temporaries is no matter of a file.
TEST(Programs, S100_calls_with_named_arguments_and_with_temporaries_are_one_signature) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const auto f = compile([](const Tensor &x, const Tensor &y) { return x - y * 2; });
    const Tensor named = rand({4});
    Tensor other = rand({4});
    for (int i = 0; i < 3; ++i) {
        f(rand({4}), ones({4}));
        f(named, ones({4}));
        f(named, other);
    }
    save_program(folder / "f.lzp", f);
    const Program p = load_program(folder / "f.lzp");
    EXPECT_EQ(p.signatures().size(), 1u);
    expect_same(p({named, other})[0], f(named, other));
    const auto of_any = compile([](const Tensor &x, auto k) { return x * static_cast<double>(k) / 2; });
    for (int i = 0; i < 3; ++i) {
        of_any(named, 3);
        of_any(named, true);
    }
    EXPECT_THROW(save_program(folder / "g.lzp", of_any), StateError) << "a bool and an integer";
}

/// The network whose file the child below loads.
Tensor network(const Tensor &x) {
    manual_seed(5);
    const Tensor w1 = randn({6, 32}), w2 = randn({32, 3});
    return log_softmax(matmul(tanh(matmul(x, w1)), w2), -1);
}

TEST(Programs, S100_a_process_that_compiles_nothing_runs_it) {
    LZ_NEEDS_JIT();
    const Folder folder;
    manual_seed(5);
    const Tensor w1 = randn({6, 32}), w2 = randn({32, 3});
    const auto f =
        recorded([&](const Tensor &x) { return log_softmax(matmul(tanh(matmul(x, w1)), w2), -1); }, {{9, 6}});
    save_program(folder / "f.lzp", f);
    const std::string path = folder / "f.lzp";
    run_child("LAZULI_TEST_PROGRAM=" + path, "a_program_from_a_file");
}
TEST(Child, DISABLED_a_program_from_a_file) {
    const Program p = load_program(::getenv("LAZULI_TEST_PROGRAM"));
    std::vector<float> values(54);
    for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(i) / 54 - 0.5f;
    const Tensor x = from_blob(values.data(), {9, 6});
    reset_compile_stats();
    const Tensor y = p({x})[0];
    const CompileStats stats = compile_stats();
    EXPECT_EQ(stats.programs_compiled, 0);
    EXPECT_EQ(stats.kernels_compiled, 0);
    expect_same(y, network(x));
}

/// The file without its first level of code.
std::string of_the_last_level(const std::string &file) {
    const auto bytes = std::as_bytes(std::span(file));
    ir::SavedProgram program = ir::read_saved(bytes);
    for (ir::SavedPlan &plan : program.plans) {
        EXPECT_EQ(plan.variants.back().level, ir::IsaLevel::V3);
        plan.variants.erase(plan.variants.begin(), plan.variants.end() - 1);
    }
    const std::vector<std::byte> written = ir::write_saved(program);
    return {reinterpret_cast<const char *>(written.data()), written.size()};
}

TEST(Programs, S100_the_code_of_x86_64_v3_gives_the_same_bits) {
    LZ_NEEDS_JIT();
    if (!ir::runs_here(ir::IsaLevel::V3))
        GTEST_SKIP() << "This processor is below x86-64-v3.";
    const Folder folder;
    const auto f = [](const Tensor &x, const Tensor &y) {
        return std::vector<Tensor>{softmax(x, -1), matmul(x, y), cumsum(x, 0), sin(y).sum(), x.to(f16) * 2};
    };
    save_program(folder / "f.lzp", recorded(f, {{33, 70}, {70, 19}}));
    write_text(folder / "v3.lzp", of_the_last_level(read_text(folder / "f.lzp")));
    const Program p = load_program(folder / "v3.lzp");
    const Tensor x = randn({33, 70}), y = randn({70, 19});
    const std::vector<Tensor> expected = f(x, y), given = p({x, y});
    for (size_t k = 0; k < given.size(); ++k)
        expect_same(given[k], expected[k]);
    EXPECT_NE(p.explain().find("x86-64-v3"), std::string::npos) << p.explain();
    EXPECT_NE(p.explain().find("Graph main became"), std::string::npos) << p.explain();
}

TEST(Programs, S101_what_does_not_fit_is_refused_by_name) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const auto f = recorded([](const Tensor &x, const Tensor &y) { return x + y; }, {{2, 3}, {3}});
    save_program(folder / "f.lzp", f, {.inputs = {"image", "label"}, .name = "adder"});
    const Program p = load_program(folder / "f.lzp");
    const Tensor x = ones({2, 3}), y = ones({3});
    const Caught dtype = caught<DTypeError>([&] { p({x, y.to(f64)}); });
    EXPECT_TRUE(dtype.has("adder: its input `label` is f64[3] @cpu, and has to be f32[3] on cpu"))
        << dtype.what;
    const Caught shape = caught<ShapeError>([&] { p({ones({3, 3}), y}); });
    EXPECT_TRUE(shape.has("`image` is f32[3,3]")) << shape.what;
    EXPECT_TRUE(shape.has("programs_test.cpp:")) << shape.what;
    const Caught device = caught<DeviceError>([&] { p({x, y.to(kGpu0)}); });
    EXPECT_TRUE(device.has("`label` is f32[3] @cuda:0")) << device.what;
    const Caught count = caught<StateError>([&] { p({x}); });
    EXPECT_TRUE(count.has("it takes 2 tensors, and got 1")) << count.what;
    caught<StateError>([&] { p({x, Tensor()}); });
    const Caught gradient = caught<StateError>([&] { p({x, ones({3}).requires_grad_()}); });
    EXPECT_TRUE(gradient.has("requires a gradient")) << gradient.what;
    {
        const NoGradGuard guard;
        EXPECT_EQ(floats(p({x, ones({3}).requires_grad_()})[0]), std::vector<float>(6, 2));
    }
    caught<StateError>([] { Program()({}); });
}

TEST(Programs, S101_a_failure_names_the_line_of_the_function) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const int line = __LINE__ + 1;
    const auto f = compile([](const Tensor &x, const Tensor &at) { return x.index_select(0, at) * 2; });
    for (int i = 0; i < 3; ++i)
        f(rand({4, 2}), arange(3));
    save_program(folder / "f.lzp", f);
    const Program p = load_program(folder / "f.lzp");
    const Tensor x = ones({4, 2});
    const Caught index = caught<IndexError>([&] { p({x, arange(3) + 2}); });
    EXPECT_TRUE(index.has("programs_test.cpp:" + std::to_string(line))) << index.what;
    EXPECT_EQ(floats(p({x, arange(3)})[0]), std::vector<float>(6, 2)) << "it goes on";
}

TEST(Programs, S101_any_thread_may_call) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const Tensor w = randn({8, 8});
    save_program(folder / "f.lzp", recorded([&](const Tensor &x) { return tanh(matmul(x, w)); }, {{8, 8}}));
    const Program p = load_program(folder / "f.lzp");
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20; ++i) {
                const Tensor x = full({8, 8}, t + i * 0.25);
                expect_same(p({x})[0], tanh(matmul(x, w)));
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

TEST(Programs, S102_what_cannot_be_saved_says_why) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const std::string path = folder / "f.lzp";
    const auto refused = [&](const auto &compiled, const std::string &part) {
        const Caught error = caught<StateError>([&] { save_program(path, compiled); });
        EXPECT_TRUE(error.has(part)) << error.what;
        EXPECT_FALSE(std::filesystem::exists(path));
    };
    refused(compile([](const Tensor &x) { return x + 1; }), "two calls have to record the same");
    Tensor state = zeros({3});
    refused(recorded([&](const Tensor &x) { return state += x, state * 2; }, {{3}}),
            "changes a tensor that it captures");
    refused(recorded([&](const Tensor &x) { return const_cast<Tensor &>(x) += 1, x * 2; }, {{3}}),
            "changes an argument in place");
    Tensor leaf = ones({3}).requires_grad_();
    refused(recorded(
                [&](const Tensor &x) {
                    leaf.mutable_grad() = Tensor();
                    const Tensor loss = (leaf * x).sum();
                    loss.backward();
                    return loss;
                },
                {{3}}),
            "cannot be saved");
    register_call(
        "test.saved_call",
        [](std::span<const CallType> in) { return std::vector<CallType>{{f32, in[0].shape}}; },
        [](std::span<const CallInput> in, std::span<const CallOutput> out) {
            std::ranges::copy(in[0].values<float>(), out[0].values<float>().begin());
        });
    refused(recorded([](const Tensor &x) { return call("test.saved_call", {x})[0]; }, {{3}}),
            "calls test.saved_call, a function of this process");
    const auto flagged = compile([](const Tensor &x, bool twice) { return twice ? x * 2 : x * 3; });
    for (int i = 0; i < 6; ++i)
        flagged(rand({3}), i % 2 == 0);
    refused(flagged, "two ways that a file does not tell apart");
    const auto named = recorded([](const Tensor &x) { return x * 3; }, {{3}});
    const Caught names = caught<StateError>([&] { save_program(path, named, {.inputs = {"a", "b"}}); });
    EXPECT_TRUE(names.has("2 names are given for its inputs, and it has 1")) << names.what;
    caught<IoError>([&] { save_program(folder / "no/such/folder.lzp", named); });
}

TEST(Programs, S102_saving_replaces_the_file_or_leaves_it) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const std::string path = folder / "f.lzp";
    const auto two = recorded([](const Tensor &x) { return x * 2; }, {{3}});
    save_program(path, two);
    const Program before = load_program(path);
    caught<StateError>([&] { save_program(path, compile([](const Tensor &x) { return x; })); });
    EXPECT_EQ(floats(load_program(path)({ones({3})})[0]), std::vector<float>(3, 2));
    save_program(path, recorded([](const Tensor &x) { return x * 5; }, {{3}}));
    EXPECT_EQ(floats(load_program(path)({ones({3})})[0]), std::vector<float>(3, 5));
    EXPECT_EQ(floats(before({ones({3})})[0]), std::vector<float>(3, 2)) << "it needs the file no more";
    EXPECT_EQ(
        std::distance(std::filesystem::directory_iterator(std::filesystem::path(path).parent_path()), {}), 1);
}

TEST(Programs, S103_code_is_loaded_from_files_of_this_user_or_root_alone) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const std::string path = folder / "f.lzp";
    save_program(path, recorded([](const Tensor &x) { return x * 2; }, {{3}}));
    ::chmod(path.c_str(), 0664);
    const Caught group = caught<IoError>([&] { load_program(path); });
    EXPECT_TRUE(group.has("may be written by others") && group.has(path)) << group.what;
    EXPECT_EQ(floats(load_program(path, {.from_anybody = true})({ones({3})})[0]), std::vector<float>(3, 2));
    ::chmod(path.c_str(), 0644);
    load_program(path);
    if (::geteuid() != 0)
        GTEST_SKIP() << "Another owner is set by root alone.";
    ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
    const Caught owner = caught<IoError>([&] { load_program(path); });
    EXPECT_TRUE(owner.has("belongs to user 12345")) << owner.what;
    EXPECT_EQ(floats(load_program(path, {.from_anybody = true})({ones({3})})[0]), std::vector<float>(3, 2));
}

TEST(Programs, S101_signatures_that_were_forgotten_are_not_left_out_silently) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const auto f = compile([](const Tensor &x) { return x * 2; }, {.name = "twice", .signatures = 2});
    const auto call_with = [&](DType dtype) {
        for (int i = 0; i < 3; ++i)
            f(ones({2}, {.dtype = dtype}));
    };
    call_with(f32);
    call_with(f64);
    save_program(folder / "f.lzp", f);
    call_with(i32);
    const Caught error = caught<StateError>([&] { save_program(folder / "f.lzp", f); });
    EXPECT_TRUE(error.has("1 times, and 2 are kept") && error.has("CompiledOptions::signatures"))
        << error.what;
    f.clear();
    call_with(i32);
    save_program(folder / "f.lzp", f);
    EXPECT_EQ(load_program(folder / "f.lzp").signatures().size(), 1U);
}

TEST(Programs, S103_changed_contents_behind_a_right_checksum_are_refused_or_run) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const std::string path = folder / "f.lzp", changed = folder / "changed.lzp";
    const Tensor w = randn({16, 8}), b = randn({8});
    save_program(
        path,
        recorded([&](const Tensor &x) { return softmax(matmul(x, w) + b, -1) + x.sum() * 0.5; }, {{5, 16}}));
    const Resealed file(read_text(path));
    std::mt19937 random(20);
    int refused = 0, ran = 0;
    for (int round = 0; round < 400; ++round) {
        write_text(changed, file.changed(random));
        try {
            const Program program = load_program(changed);
            std::vector<Tensor> inputs;
            for (const ProgramTensor &input : program.inputs())
                inputs.push_back(ones(input.shape, {.dtype = input.dtype}));
            for (const Tensor &result : program(inputs))
                result.eval();
            ++ran;
        } catch (const Error &) { // typed: what else is thrown ends the test
            ++refused;
        }
    }
    EXPECT_GT(refused, 100);
    EXPECT_GT(ran, 20);
}

// The code of a product divides by how many blocks of rows there are.
TEST(Programs, S103_a_launch_of_other_work_items_than_its_arguments_say_is_refused) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const std::string path = folder / "f.lzp", changed = folder / "changed.lzp";
    const Tensor w = randn({16, 8});
    save_program(path, recorded([&](const Tensor &x) { return matmul(x, w); }, {{5, 16}}));
    const Resealed file(read_text(path));
    for (const char *args : {"args 0, 8, 16", "args 5, 0, 16"}) {
        const auto other = file.replaced("args 5, 8, 16", args);
        ASSERT_TRUE(other);
        write_text(changed, *other);
        const Caught error = caught<IoError>([&] { load_program(changed); });
        EXPECT_TRUE(error.has("other work items than its arguments say")) << error.what;
    }
}

// It writes to its worker's scratch where and as much as its last arguments say.
TEST(Programs, S103_a_launch_without_room_for_its_panels_is_refused) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const std::string path = folder / "f.lzp", changed = folder / "changed.lzp";
    const Tensor w = randn({16, 8});
    save_program(path, recorded([&](const Tensor &x) { return matmul(x, w); }, {{5, 16}}));
    const std::string text = read_text(path);
    const Resealed file(text);
    const size_t begin = text.find("args 5, 8, 16");
    ASSERT_NE(begin, std::string::npos);
    const std::string args = text.substr(begin, text.find('\n', begin) - begin);
    std::string other = args;
    for (int number = 0; number < 4; ++number) { // from the last one on
        const size_t comma = other.rfind(',');
        std::string now = args;
        now[other.size() - 1] ^= 1;
        write_text(changed, file.replaced(args, now).value());
        const Caught error = caught<IoError>([&] { load_program(changed); });
        EXPECT_TRUE(error.has("no room for what its arguments say")) << now << ": " << error.what;
        other.erase(comma);
    }
}

TEST(Programs, S103_code_of_other_kernels_and_writes_to_inputs_are_refused) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const std::string path = folder / "f.lzp";
    const Tensor w = randn({16, 8});
    save_program(path, recorded([&](const Tensor &x) { return softmax(matmul(x, w), -1); }, {{5, 16}}));
    const std::string text = read_text(path);
    const auto refused = [&](const char *part, auto change) {
        ir::SavedProgram file = ir::read_saved(std::as_bytes(std::span(text)));
        for (ir::SavedVariant &variant : file.plans.at(0).variants)
            change(variant);
        const std::vector<std::byte> bytes = ir::write_saved(file);
        write_text(path, {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
        const Caught error = caught<IoError>([&] { load_program(path); });
        EXPECT_TRUE(error.has(part)) << error.what;
    };
    refused("the code of a kernel is another one's", [](auto &v) { v.code.at(0) = v.code.at(1); });
    refused("a step writes to an input", [](auto &v) { // in place of what the product makes
        const size_t input = v.program.find("buffers b0, b1, ");
        ASSERT_NE(input, std::string::npos);
        v.program[input + sizeof "buffers b0, b1, b" - 1] = '0';
    });
}

TEST(Programs, S103_damaged_foreign_and_newer_files_are_errors) {
    LZ_NEEDS_JIT();
    const Folder folder;
    const std::string path = folder / "f.lzp", damaged = folder / "damaged.lzp";
    const Tensor w = randn({40});
    save_program(path, recorded([&](const Tensor &x) { return softmax(x * w, -1); }, {{40}}));
    const std::string file = read_text(path);
    const auto refused = [&](const std::string &bytes, const std::string &part) {
        write_text(damaged, bytes);
        const Caught error = caught<IoError>([&] { load_program(damaged); });
        EXPECT_TRUE(error.has(part) && error.has("damaged.lzp")) << error.what;
    };
    refused("", "is no program file");
    refused("lazuli 1\ngraph @main() {\n}\n", "is no program file");
    std::string newer = file;
    newer[8] = 77;
    refused(newer, "is a program file of version 77");
    refused(file + '\0', "is damaged");
    // What is no program file is not read: there would be no room for this one.
    write_text(damaged, "PK");
    std::filesystem::resize_file(damaged, uint64_t{1} << 43);
    EXPECT_TRUE(caught<IoError>([&] { load_program(damaged); }).has("is no program file"));
    write_text(damaged, file);
    std::filesystem::resize_file(damaged, uint64_t{1} << 43);
    EXPECT_TRUE(caught<IoError>([&] { load_program(damaged); }).has("bytes long"));
    // Every region: each byte of the frame, and one in so many of the rest.
    for (size_t at = 8; at < file.size(); at += at < 400 ? 1 : 1 + file.size() / 300) {
        std::string changed = file;
        changed[at] = static_cast<char>(changed[at] ^ 0x10);
        write_text(damaged, changed);
        caught<IoError>([&] { load_program(damaged); });
    }
    for (size_t size = 0; size < file.size(); size += 1 + file.size() / 200) {
        write_text(damaged, file.substr(0, size));
        caught<IoError>([&] { load_program(damaged); });
    }
    caught<IoError>([&] { load_program(folder / "there is none.lzp"); });
    caught<IoError>([&] { load_program(folder / "."); });
    EXPECT_EQ(load_program(path)({ones({40})})[0].numel(), 40);
}

} // namespace
