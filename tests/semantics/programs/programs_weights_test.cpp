// S100 to S103 of programs whose weights stay in safetensors files. The oracle is the function itself.
#include "support.h"
#include "tests/support/environment.h"
#include "tests/support/run_file.h"
#include "tests/support/samples/resealed.h"

#include "ir/saved/saved_program.h"

#include <lazuli/io/safetensors.h>
#include <lazuli/nn.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace lz;
using namespace lz::test;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

void write_file(const std::string &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    ::chmod(path.c_str(), 0644);
}

ir::SavedProgram saved_in(const std::string &bytes) {
    return ir::read_saved(std::as_bytes(std::span(bytes)));
}
uint32_t version_of(const std::string &bytes) {
    uint32_t version = 0;
    std::memcpy(&version, &bytes[8], sizeof version);
    return version;
}
/// What lz-opt prints of a file.
std::string described(const std::string &path) {
    const std::string bytes = read_bytes(path);
    return ir::describe(saved_in(bytes));
}

/// A safetensors file as others may write it: this header, without padding, and these elements.
std::string safetensors(const std::string &head, const std::string &elements) {
    const uint64_t length = head.size();
    std::string file(sizeof length, '\0');
    std::memcpy(file.data(), &length, sizeof length);
    return file + head + elements;
}

/// A network, its weights in net.safetensors, and a function of it that has recorded a shape.
class ProgramsOfNetwork {
public:
    explicit ProgramsOfNetwork(uint64_t seed = 3) {
        manual_seed(seed);
        net_ =
            nn::Sequential(nn::Linear(8, 64), nn::Tanh(), nn::Linear(64, 64), nn::ReLU(), nn::Linear(64, 3));
        save(net_, weights_);
    }
    auto function() const {
        return [this](const Tensor &x) { return softmax(net_(x), -1); };
    }
    auto compiled() const {
        const NoGradGuard guard;
        auto f = compile(function());
        for (int call = 0; call < 3; ++call)
            f(rand({5, 8}));
        return f;
    }
    std::string saved(SaveProgramOptions options = {}) const {
        if (options.weights.empty())
            options.weights = weights_;
        options.name = "net";
        save_program(program_, compiled(), options);
        return program_;
    }
    /// Both libraries give the bits of the function.
    void expect_same(const std::string &program, const LoadProgramOptions &options = {}) const {
        const NoGradGuard guard;
        const Tensor x = randn({5, 8});
        const std::string expected = elements_of({function()(x)});
        EXPECT_EQ(elements_of(load_program(program, options)({x})), expected);
        std::string words = options.weights.empty() ? "" : "--weights='" + options.weights + "'";
        words += options.check_weights ? "" : " --unchecked";
        words += options.map_weights ? "" : " --unmapped";
        const RanFile ran = run_file(program, {x}, words);
        EXPECT_EQ(ran.error, "");
        EXPECT_EQ(ran.elements, expected);
    }
    /// Both libraries refuse the file, and say the same.
    void expect_refused(const std::string &program, const std::string &part) const {
        const Caught error = caught<IoError>([&] { load_program(program); });
        EXPECT_THAT(error.what, AllOf(HasSubstr("load_program: \"" + program), HasSubstr(part)));
        EXPECT_THAT(run_file(program, {ones({5, 8})}).error,
                    AllOf(testing::StartsWith("IoError: "), HasSubstr(part)));
    }

    const TestFolder folder_;
    const std::string weights_ = folder_ / "net.safetensors", program_ = folder_ / "net.lzp";
    nn::Sequential net_{nullptr};
};

TEST(Programs, S100_weights_stay_in_their_safetensors_file) {
    LZ_NEEDS_JIT();
    const ProgramsOfNetwork net;
    const std::string before = read_bytes(net.weights_);
    net.saved();
    EXPECT_EQ(read_bytes(net.weights_), before);
    for (const bool check : {true, false})
        for (const bool map : {true, false})
            net.expect_same(net.program_, {.check_weights = check, .map_weights = map});
    const std::string text = described(net.program_);
    for (const auto &[name, tensor] : net.net_->state_dict())
        EXPECT_THAT(text, HasSubstr(", " + std::to_string(tensor.numel() * 4) + " bytes: \"" + name +
                                    "\" of \"net.safetensors\", XXH3-128 "));
    // Those that are written into the file make it larger by as much as they have.
    save_program(net.folder_ / "whole.lzp", net.compiled());
    EXPECT_GT(fs::file_size(net.folder_ / "whole.lzp"), fs::file_size(net.program_) + 64 * 64 * 4);
    EXPECT_THAT(described(net.folder_ / "whole.lzp"), testing::Not(HasSubstr("safetensors")));
    // Several share the weights.
    const NoGradGuard guard;
    const auto logits = [&](const Tensor &x) { return net.net_(x) * 2; };
    auto f = compile(logits);
    const Tensor x = rand({2, 8});
    for (int call = 0; call < 3; ++call)
        f(x);
    save_program(net.folder_ / "logits.lzp", f, {.weights = net.weights_});
    EXPECT_EQ(elements_of(load_program(net.folder_ / "logits.lzp")({x})), elements_of({logits(x)}));
    net.expect_same(net.program_);
}

TEST(Programs, S100_equal_tensors_are_each_found_under_a_name_of_their_own) {
    LZ_NEEDS_JIT();
    const TestFolder folder;
    const Tensor a = zeros({40}), b = zeros({40}), c = zeros({40}), d = zeros({40}, {.dtype = i32}),
                 e = zeros({8, 5});
    save({{{"a", a.clone()}, {"b", b.clone()}, {"d", d.clone()}, {"e", e.clone()}}},
         folder / "w.safetensors");
    const auto f = [&](const Tensor &x) { return (x + a) * (x - b) + c * d + e.sum(); };
    auto compiled = compile(f);
    for (int call = 0; call < 3; ++call)
        compiled(rand({40}));
    save_program(folder / "f.lzp", compiled, {.weights = folder / "w.safetensors"});
    const std::string bytes = read_bytes(folder / "f.lzp");
    std::vector<std::string> names;
    for (const ir::SavedConstant &constant : saved_in(bytes).constants)
        names.push_back(constant.from.tensor);
    EXPECT_THAT(names, testing::IsSupersetOf({"a", "b", "d", "e"}));
    EXPECT_EQ(names.size(), 5u) << "three that are equal are two of the file";
    const Tensor x = randn({40});
    EXPECT_EQ(elements_of(load_program(folder / "f.lzp")({x})), elements_of({f(x)}));
}

TEST(Programs, S100_captured_tensors_that_the_file_has_not_are_in_the_program) {
    LZ_NEEDS_JIT();
    const TestFolder folder;
    const std::string weights = folder / "w.safetensors";
    const Tensor w = randn({30, 8}), other = randn({30, 8}), half = randn({8}).to(bf16);
    const Tensor mask = tensor({true, false, true, true, false, true, true, false});
    save({{{"w", w}, {"half", half}, {"mask", mask}, {"not used", ones({30, 8})}, {"empty", zeros({0, 8})}}},
         weights);
    const auto f = [&](const Tensor &x) {
        return where(mask, matmul(x, w) + half.to(f32), matmul(x, other));
    };
    auto compiled = compile(f);
    for (int call = 0; call < 3; ++call)
        compiled(rand({4, 30}));
    save_program(folder / "f.lzp", compiled, {.weights = weights});
    const std::string bytes = read_bytes(folder / "f.lzp");
    const ir::SavedProgram saved = saved_in(bytes);
    EXPECT_EQ(saved.weights, (std::vector<std::string>{"w.safetensors"}));
    EXPECT_EQ(std::ranges::count(saved.constants, ir::kNothing,
                                 [](const ir::SavedConstant &c) { return c.from.file; }),
              1);
    const Tensor x = randn({4, 30});
    for (const bool check : {true, false}) {
        EXPECT_EQ(elements_of(load_program(folder / "f.lzp", {.check_weights = check})({x})),
                  elements_of({f(x)}));
        EXPECT_EQ(run_file(folder / "f.lzp", {x}, check ? "" : "--unchecked").elements, elements_of({f(x)}));
    }
    // Another element of the mask than 0 and 1 would be no bool, whoever looks at it.
    std::string changed = read_bytes(weights);
    const size_t at = changed.find(std::string("\1\0\1\1\0\1\1\0", 8), 64);
    ASSERT_NE(at, std::string::npos);
    changed[at] = 2;
    write_file(weights, changed);
    const Caught error = caught<IoError>([&] { load_program(folder / "f.lzp", {.check_weights = false}); });
    EXPECT_TRUE(error.has("tensor \"mask\"") &&
                error.has("is of bools and has a byte that is neither 0 nor 1"))
        << error.what;
}

TEST(Programs, S100_weights_of_gpus_are_copied_there) {
    LZ_NEEDS_JIT();
    LZ_NEEDS_GPUS(2);
    const TestFolder folder;
    const Tensor a = randn({16, 8}, {.device = kGpu0}), b = randn({8}, {.device = kGpu1}), c = a.cpu();
    save({{{"a", a}, {"b", b}}}, folder / "w.safetensors");
    const auto f = [&](const Tensor &x) {
        return std::vector<Tensor>{matmul(x, a).to(kGpu1) + b, matmul(x.cpu(), c).exp()};
    };
    auto compiled = compile(f);
    const Tensor x = randn({5, 16}, {.device = kGpu0});
    for (int call = 0; call < 3; ++call)
        compiled(x);
    save_program(folder / "f.lzp", compiled, {.weights = folder / "w.safetensors"});
    EXPECT_THAT(described(folder / "f.lzp"), AllOf(HasSubstr("f32[16,8] @cuda:0, 512 bytes: \"a\" of"),
                                                   HasSubstr("f32[16,8] @cpu, 512 bytes: \"a\" of"),
                                                   HasSubstr("f32[8] @cuda:1, 32 bytes: \"b\" of")));
    const std::string expected = elements_of(f(x));
    for (const bool map : {true, false}) {
        EXPECT_EQ(elements_of(load_program(folder / "f.lzp", {.map_weights = map})({x})), expected);
        EXPECT_EQ(run_file(folder / "f.lzp", {x}, map ? "" : "--unmapped").elements, expected);
    }
}

TEST(Programs, S100_the_file_is_found_beside_the_program_or_where_the_caller_says) {
    LZ_NEEDS_JIT();
    const ProgramsOfNetwork net;
    const auto path = [&](const std::string &name) { return net.folder_ / name; };
    for (const char *folder : {"a", "a/programs", "a/weights", "b", "c"})
        fs::create_directories(path(folder));
    // In another folder, to which the program's has a way; both move together.
    fs::rename(net.weights_, path("a/weights/net.safetensors"));
    save_program(path("a/programs/net.lzp"), net.compiled(), {.weights = path("a/weights/net.safetensors")});
    EXPECT_THAT(described(path("a/programs/net.lzp")), HasSubstr("of \"../weights/net.safetensors\""));
    net.expect_same(path("a/programs/net.lzp"));
    fs::rename(path("a"), path("moved"));
    net.expect_same(path("moved/programs/net.lzp"));
    // Apart from each other.
    fs::copy_file(path("moved/programs/net.lzp"), path("b/net.lzp"));
    net.expect_refused(path("b/net.lzp"), "which could not be opened: No such file or directory "
                                          "(LoadProgramOptions::weights says where it is, if elsewhere)");
    net.expect_same(path("b/net.lzp"), {.weights = path("moved/weights")});
    net.expect_same(path("b/net.lzp"), {.weights = path("moved/weights/net.safetensors")});
    fs::copy_file(path("moved/weights/net.safetensors"), path("c/another name"));
    net.expect_same(path("b/net.lzp"), {.weights = path("c/another name")});
    caught<IoError>([&] { load_program(path("b/net.lzp"), {.weights = path("c")}); });
    caught<IoError>([&] { load_program(path("b/net.lzp"), {.weights = path("there is none")}); });
    // By links: to the program, or to both from a folder in which they have these names.
    fs::create_directories(path("links/programs"));
    fs::create_directories(path("links/weights"));
    fs::create_symlink(path("moved/programs/net.lzp"), path("links/net.lzp"));
    net.expect_same(path("links/net.lzp"));
    fs::rename(path("moved/programs/net.lzp"), path("links/blob1"));
    fs::rename(path("moved/weights/net.safetensors"), path("links/blob2"));
    fs::create_symlink(path("links/blob1"), path("links/programs/net.lzp"));
    fs::create_symlink(path("links/blob2"), path("links/weights/net.safetensors"));
    net.expect_same(path("links/programs/net.lzp"));
}

TEST(Programs, S100_weights_of_several_files_are_found_by_their_index) {
    LZ_NEEDS_JIT();
    const ProgramsOfNetwork net;
    fs::create_directory(net.folder_ / "shards");
    save(net.net_, net.folder_ / "shards/net.safetensors", {.max_shard_bytes = 9000});
    net.saved({.weights = net.folder_ / "shards/net.safetensors.index.json"});
    const std::string text = described(net.program_);
    EXPECT_THAT(
        text, AllOf(HasSubstr("of \"shards/net-00001-of-0000"), HasSubstr("of \"shards/net-00002-of-0000")));
    net.expect_same(net.program_);
    // The index is not needed; nor is it where the files are, once they are elsewhere.
    fs::remove(net.folder_ / "shards/net.safetensors.index.json");
    fs::rename(net.folder_ / "shards", net.folder_ / "moved");
    net.expect_same(net.program_, {.weights = net.folder_ / "moved"});
    const Caught one = caught<IoError>([&] { load_program(net.program_, {.weights = net.weights_}); });
    EXPECT_THAT(one.what, AllOf(HasSubstr("refers to "),
                                HasSubstr("safetensors files, and LoadProgramOptions::"
                                          "weights, "),
                                HasSubstr("is one file: name the folder that they are in")));
}

/// Which is what is looked at by several threads; what they find is said as one would.
TEST(Programs, S100_weights_of_many_megabytes) {
    LZ_NEEDS_JIT();
    const TestFolder folder;
    const std::string weights = folder / "w.safetensors";
    StateDict all;
    for (int i = 0; i < 6; ++i)
        all.insert("w" + std::to_string(i), full({1024, 2048}, i + 1));
    save(all, weights);
    const auto f = [&](const Tensor &x) {
        Tensor sum = x;
        for (const auto &[name, w] : all)
            sum = sum + w.index_select(0, arange(2)).sum();
        return sum;
    };
    auto compiled = compile(f);
    const Tensor x = ones({3});
    for (int call = 0; call < 3; ++call)
        compiled(x);
    save_program(folder / "f.lzp", compiled, {.weights = weights});
    EXPECT_LT(fs::file_size(folder / "f.lzp"), 1U << 20);
    for (const bool map : {true, false}) {
        const Program program = load_program(folder / "f.lzp", {.map_weights = map});
        EXPECT_EQ(elements_of(program({x})), elements_of({f(x)}));
    }
    const std::string bytes = read_bytes(folder / "f.lzp");
    const ir::SavedProgram saved = saved_in(bytes);
    StateDict others = all;
    for (const size_t c : {size_t{1}, size_t{2}, size_t{4}})
        others.at(saved.constants.at(c).from.tensor) = zeros({1024, 2048});
    save(others, weights);
    for (int turn = 0; turn < 3; ++turn) {
        const Caught error = caught<IoError>([&] { load_program(folder / "f.lzp"); });
        EXPECT_TRUE(error.has("tensor \"" + saved.constants[1].from.tensor + "\" of")) << error.what;
    }
}

/// Nothing but the tensors counts: not their order, what is beside them, or where they lie.
TEST(Programs, S100_a_file_that_was_written_again_is_the_same_weights) {
    LZ_NEEDS_JIT();
    const TestFolder folder;
    const std::string weights = folder / "w.safetensors";
    const Tensor w = randn({6, 5}), b = randn({5});
    save({{{"w", w}, {"b", b}}}, weights);
    const auto f = [&](const Tensor &x) { return matmul(x, w) + b; };
    auto compiled = compile(f);
    const Tensor x = randn({3, 6});
    for (int call = 0; call < 3; ++call)
        compiled(x);
    save_program(folder / "f.lzp", compiled, {.weights = weights});
    const auto expect_same = [&] {
        for (const bool map : {true, false}) {
            EXPECT_EQ(elements_of(load_program(folder / "f.lzp", {.map_weights = map})({x})),
                      elements_of({f(x)}));
            EXPECT_EQ(run_file(folder / "f.lzp", {x}, map ? "" : "--unmapped").elements, elements_of({f(x)}));
        }
    };
    const Program before = load_program(folder / "f.lzp");
    save({{{"b", b}, {"another", ones({7, 7}, {.dtype = f64})}, {"w", w}}}, weights,
         {.metadata = {{"epoch", "7"}}});
    expect_same();
    // Elements at addresses that are not aligned, and tensors of a type that there is not here.
    std::string head = R"({"b":{"dtype":"F32","shape":[5],"data_offsets":[3,23]},)"
                       R"("8 bits":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[0,3]},)"
                       R"("w":{"dtype":"F32","shape":[6,5],"data_offsets":[23,143]}})";
    for (int padding = 0; padding < 4; ++padding, head += ' ') {
        write_file(weights, safetensors(head, "abc" + elements_of({b, w})));
        expect_same();
        fs::remove(folder / "again.lzp");
        save_program(folder / "again.lzp", compiled, {.weights = weights});
        EXPECT_EQ(elements_of(load_program(folder / "again.lzp")({x})), elements_of({f(x)}));
    }
    // It may be written by anybody: it is data, and has to be what it was.
    ::chmod(weights.c_str(), 0666);
    expect_same();
    // Programs that are loaded keep their pages when the file goes or another takes its place.
    const Program mapped = load_program(folder / "f.lzp"),
                  copied = load_program(folder / "f.lzp", {.map_weights = false});
    save(ones({3}), weights);
    fs::remove(weights);
    for (const Program &program : {before, mapped, copied})
        EXPECT_EQ(elements_of(program({x})), elements_of({f(x)}));
}

TEST(Programs, S102_weights_that_cannot_be_referred_to_say_why) {
    LZ_NEEDS_JIT();
    const ProgramsOfNetwork net;
    const auto compiled = net.compiled();
    net.saved();
    const std::string before = read_bytes(net.program_);
    const auto refused = [&]<class E>(const std::string &weights, const std::string &part) {
        const Caught error = caught<E>([&] { save_program(net.program_, compiled, {.weights = weights}); });
        EXPECT_THAT(error.what, AllOf(HasSubstr("save_program: "), HasSubstr(part)));
        EXPECT_EQ(read_bytes(net.program_), before);
    };
    const std::string other = net.folder_ / "other.safetensors";
    refused.operator()<IoError>(other,
                                "cannot refer to \"" + other + "\", which could not be opened: No such file");
    refused.operator()<IoError>(net.folder_ / ".", "which is no regular file");
    write_file(other, "PK\3\4 and so on");
    refused.operator()<IoError>(other, "which is no safetensors file");
    write_file(other, "short");
    refused.operator()<IoError>(other, "too few for a safetensors file");
    write_file(other, R"({"weight_map": {"a": "no.safetensors"}})");
    refused.operator()<IoError>(other, "no.safetensors\", which could not be opened");
    write_file(other, R"({"weight_map": {"a": "../no.safetensors"}})");
    refused.operator()<IoError>(other, "no name of a file beside the index");
    save({{{"a", ones({3})}}}, other);
    refused.operator()<StateError>(other, "none of the 6 tensors that ");
    const Caught over =
        caught<StateError>([&] { save_program(net.weights_, compiled, {.weights = net.weights_}); });
    EXPECT_TRUE(over.has("would be written over the weights that it is to refer to")) << over.what;
    net.expect_same(net.program_);
    // A function without captured tensors refers to nothing.
    auto alone = compile([](const Tensor &x) { return x * 2; });
    for (int call = 0; call < 3; ++call)
        alone(ones({3}));
    save_program(net.folder_ / "alone.lzp", alone, {.weights = net.weights_});
    EXPECT_EQ(floats(load_program(net.folder_ / "alone.lzp")({ones({3})})[0]), std::vector<float>(3, 2));
}

TEST(Programs, S103_weights_that_are_others_than_they_were_are_errors) {
    LZ_NEEDS_JIT();
    const ProgramsOfNetwork net;
    net.saved();
    const std::string file = read_bytes(net.weights_);
    const auto refused = [&](const std::string &part) { net.expect_refused(net.program_, part); };
    const auto dict = [&] {
        StateDict all;
        for (const auto &[name, tensor] : net.net_->state_dict())
            all.insert(name, tensor.detach().clone());
        return all;
    };
    const std::string first = "refers to tensor \"0.weight\" of \"" + net.weights_ + "\", ";
    StateDict trained = dict();
    trained.at("0.weight") += 1;
    save(trained, net.weights_);
    refused(first + "and its elements are not those that the program was saved with");
    const Tensor x = ones({5, 8});
    { // who does not look computes with them
        const Program unchecked = load_program(net.program_, {.check_weights = false});
        const NoGradGuard guard;
        ProgramsOfNetwork same;
        same.net_->load_state_dict(trained);
        EXPECT_EQ(elements_of(unchecked({x})), elements_of({same.function()(x)}));
        EXPECT_EQ(run_file(net.program_, {x}, "--unchecked").elements, elements_of(unchecked({x})));
    }
    StateDict others = dict();
    others.at("0.weight") = others.at("0.weight").to(f16);
    save(others, net.weights_);
    refused(first + "which is f16[64,8], and was f32[64,8] when the program was saved");
    others.at("0.weight") = dict().at("0.weight").reshape({8, 64}).clone();
    save(others, net.weights_);
    refused(first + "which is f32[8,64], and was f32[64,8] when the program was saved");
    StateDict fewer;
    for (const auto &[name, tensor] : dict())
        if (name != "0.weight")
            fewer.insert(name, tensor);
    save(fewer, net.weights_);
    refused(first + "which has none of that name");
    for (const size_t size : {size_t{0}, size_t{5}, size_t{40}, file.size() - 1}) {
        write_file(net.weights_, file.substr(0, size));
        refused("refers to \"" + net.weights_ + "\", which ");
    }
    refused("cut short");
    write_file(net.weights_, "PK\3\4 and so on");
    refused("which is no safetensors file");
    fs::remove(net.weights_);
    refused("which could not be opened: No such file or directory");
    fs::create_directory(net.weights_);
    refused("which is no regular file");
    fs::remove(net.weights_);
    ASSERT_EQ(::mkfifo(net.weights_.c_str(), 0644), 0);
    refused("which is no regular file");
    fs::remove(net.weights_);
    write_file(net.weights_, file);
    net.expect_same(net.program_);
}

TEST(Programs, S103_changed_bytes_of_the_program_or_its_weights_are_errors) {
    LZ_NEEDS_JIT();
    const ProgramsOfNetwork net;
    net.saved();
    const NoGradGuard guard;
    const Tensor x = ones({5, 8});
    const std::string expected = elements_of({net.function()(x)});
    const std::string weights = read_bytes(net.weights_), program = read_bytes(net.program_);
    const size_t head = 8 + [&] {
        uint64_t length = 0;
        std::memcpy(&length, weights.data(), sizeof length);
        return length;
    }();
    std::mt19937 random(7);
    const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
    /// Whether it is refused: every other file gives the bits that it gave.
    const auto is_refused = [&](const LoadProgramOptions &options) {
        try {
            const std::string given = elements_of(load_program(net.program_, options)({x}));
            EXPECT_EQ(given, expected);
        } catch (const IoError &) {
            return true;
        }
        return false;
    };
    int refused = 0, accepted = 0;
    for (int round = 0; round < 600; ++round) {
        std::string changed = weights;
        const bool in_head = round % 2 == 0;
        const size_t at = in_head ? below(head) : head + below(weights.size() - head);
        switch (round / 2 % 3) {
        case 0:
            changed[at] = static_cast<char>(changed[at] ^ (1 << below(8)));
            break;
        case 1:
            changed[at] = "0123456789{}[]\",: \\\0\xff"[below(21)];
            break;
        default:
            changed.erase(at, 1 + below(8));
        }
        write_file(net.weights_, changed);
        ++(is_refused({.map_weights = round % 5 != 0}) ? refused : accepted);
        if (!in_head && changed != weights) {
            EXPECT_TRUE(is_refused({})) << "byte " << at;
        }
        try { // without the hash the elements may be any, and all else has to be right
            load_program(net.program_, {.check_weights = false})({x})[0].eval();
        } catch (const IoError &) {
        }
    }
    EXPECT_GT(refused, 400);
    EXPECT_GT(accepted, 0) << "spaces, and text that is the same";
    write_file(net.weights_, weights);
    for (size_t at = 8; at < program.size(); at += at < 600 ? 1 : 1 + program.size() / 200) {
        std::string changed = program;
        changed[at] = static_cast<char>(changed[at] ^ 0x10);
        write_file(net.program_, changed);
        EXPECT_TRUE(is_refused({})) << "byte " << at;
    }
}

TEST(Programs, S103_changed_references_behind_a_right_checksum_are_refused_or_run) {
    LZ_NEEDS_JIT();
    const ProgramsOfNetwork net;
    net.saved();
    const Resealed file(read_bytes(net.program_));
    std::mt19937 random(21);
    int refused = 0, ran = 0;
    for (int round = 0; round < 600; ++round) {
        write_file(net.program_, file.changed(random));
        try {
            const Program program = load_program(net.program_, {.check_weights = round % 2 == 0});
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

/// Old libraries read what has no references, and this one what they wrote (tests/ir/fuzz_seeds_test.cpp has
/// files of theirs).
TEST(Programs, S103_only_files_with_references_are_of_the_newer_version) {
    LZ_NEEDS_JIT();
    const ProgramsOfNetwork net;
    net.saved();
    save_program(net.folder_ / "whole.lzp", net.compiled());
    EXPECT_EQ(version_of(read_bytes(net.folder_ / "whole.lzp")), 8u);
    std::string file = read_bytes(net.program_);
    EXPECT_EQ(version_of(file), 8u);
    file[8] = 9;
    write_file(net.program_, file);
    net.expect_refused(net.program_,
                       "is a program file of version 9, and this library reads version 8: a newer library "
                       "can load it");
    file[8] = 6;
    write_file(net.program_, file);
    net.expect_refused(net.program_, "save the program again");
}

} // namespace
