#include "files.h"

#include <lazuli/io/safetensors.h>

#include <gmock/gmock.h>

#include <csignal>
#include <cstring>
#include <sys/resource.h>

namespace {

using namespace lz::test;
using lz::DType;
using lz::StateDict;
using lz::Tensor;
using testing::HasSubstr;

/// Before anything uses the engine.
[[maybe_unused]] const bool virtual_gpus = setenv("LAZULI_VIRTUAL_GPUS", "2", 0) == 0;

/// A file with this head and so many bytes of elements.
std::string file_of(const std::string &head, size_t bytes) {
    const uint64_t length = head.size();
    std::string out(sizeof length, '\0');
    std::memcpy(out.data(), &length, sizeof length);
    return out + head + std::string(bytes, '\1');
}

TEST(Safetensors, ReadsWhatPythonWrote) {
    for (const bool memory_map : {true, false}) {
        const StateDict dict = lz::load(input("dtypes.safetensors"), {.memory_map = memory_map});
        EXPECT_EQ(dict.size(), dtypes().size() + 2);
        for (const auto &[name, dtype] : dtypes())
            expect_counts(dict.at(name), dtype, {2, 3}, name);
        EXPECT_EQ(dict.at("scalar.f32").dim(), 0);
        EXPECT_EQ(dict.at("scalar.f32").item<float>(), 0.5f);
        EXPECT_EQ(dict.at("none.f64").sizes(), (lz::Sizes{0, 4}));
    }
    const auto info = lz::io::safetensors_info(input("dtypes.safetensors"));
    EXPECT_EQ(info.tensors.size(), 12u);
    EXPECT_EQ(info.metadata.at("made by"), "safetensors");
    EXPECT_EQ(info.metadata.at("ü"), "\"quoted\"\n");
}

TEST(Safetensors, WhatIsSavedIsLoadedInItsOrder) {
    const Folder folder;
    StateDict dict;
    for (const auto &[name, dtype] : dtypes())
        dict.insert("layer \"" + name + "\"\n", lz::arange(6).view({2, 3}).remainder(2).to(dtype));
    dict.insert("none", lz::zeros({0, 3}));
    dict.insert("scalar", lz::tensor(1.5));
    lz::save(dict, folder / "x.safetensors", {.metadata = {{"a", "b\tü"}}});
    EXPECT_EQ(folder.count(), 1u);
    const StateDict loaded = lz::load(folder / "x.safetensors");
    EXPECT_EQ(loaded.keys(), dict.keys());
    for (const auto &[name, tensor] : dict) {
        EXPECT_EQ(loaded.at(name).dtype(), tensor.dtype());
        EXPECT_TRUE(lz::equal(loaded.at(name), tensor)) << name;
        // Each lies where its dtype may: what is loaded again is not copied.
        if (tensor.numel() > 0) {
            EXPECT_EQ(reinterpret_cast<uintptr_t>(loaded.at(name).data<void>()) % 2, 0u);
        }
    }
    EXPECT_EQ(lz::io::safetensors_info(folder / "x.safetensors").metadata.at("a"), "b\tü");
}

/// An index of several files begins so, too.
TEST(Safetensors, AHeaderOf123BytesBeginsWithABrace) {
    const Folder folder;
    std::string head = R"({"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})";
    head.resize(123, ' ');
    const std::string file = file_of(head, 3);
    ASSERT_EQ(file[0], '{');
    write_file(folder / "x.safetensors", file);
    EXPECT_EQ(lz::load(folder / "x.safetensors").at("x").to_vector<uint8_t>(),
              (std::vector<uint8_t>{1, 1, 1}));
    EXPECT_EQ(lz::io::safetensors_info(folder / "x.safetensors").tensors.size(), 1u);
    std::istringstream stream(file);
    EXPECT_EQ(lz::load(stream).size(), 1u);
}

TEST(Safetensors, OneTensor) {
    const Folder folder;
    lz::save(lz::arange(5), folder / "t.safetensors");
    EXPECT_EQ(lz::load_tensor(folder / "t.safetensors").to_vector<int64_t>(),
              (std::vector<int64_t>{0, 1, 2, 3, 4}));
    EXPECT_THAT(io_error([] { (void)lz::load_tensor(input("dtypes.safetensors")); }),
                HasSubstr("has 12 tensors"));
}

TEST(Safetensors, WhatIsWrittenToALoadedTensorDoesNotReachTheFile) {
    const Folder folder;
    lz::save(lz::ones({64}), folder / "t.safetensors");
    const std::string before = read_file(folder / "t.safetensors");
    Tensor t = lz::load_tensor(folder / "t.safetensors");
    t.mutable_data<float>()[3] = 7;
    t.add_(1);
    EXPECT_EQ(t.to_vector<float>()[3], 8);
    EXPECT_EQ(read_file(folder / "t.safetensors"), before);
    // And the file may be replaced by what was loaded from it.
    lz::save(t, folder / "t.safetensors");
    EXPECT_EQ(t.to_vector<float>()[0], 2);
    EXPECT_EQ(lz::load_tensor(folder / "t.safetensors").to_vector<float>()[3], 8);
}

TEST(Safetensors, Shards) {
    const Folder folder;
    const StateDict dict{
        {"a", lz::arange(10)}, {"b", lz::arange(20)}, {"c", lz::ones({3})}, {"d", lz::ones({0})}};
    lz::save(dict, folder / "m.safetensors", {.metadata = {{"k", "v"}}, .max_shard_bytes = 100});
    EXPECT_EQ(folder.count(), 4u); // a; b, which is larger than that; c and d; and the index
    const StateDict loaded = lz::load(folder / "m.safetensors.index.json");
    EXPECT_EQ(loaded.keys(), dict.keys());
    for (const auto &[name, tensor] : dict)
        EXPECT_TRUE(lz::equal(loaded.at(name), tensor)) << name;
    const auto info = lz::io::safetensors_info(folder / "m.safetensors.index.json");
    EXPECT_EQ(info.tensors.size(), 4u);
    EXPECT_EQ(info.metadata.at("k"), "v");
    const std::string index = read_file(folder / "m.safetensors.index.json");
    EXPECT_THAT(index, HasSubstr("\"total_size\":252"));
    const auto with = [&](const std::string &name, const std::string &text) {
        write_file(folder / name, text);
        return io_error([&] { (void)lz::load(folder / name); });
    };
    EXPECT_THAT(with("1.json", R"({"weight_map": {"z": "m-00001-of-00003.safetensors"}})"),
                HasSubstr("tensor \"z\" is not in \"m-00001-of-00003.safetensors\""));
    EXPECT_THAT(with("2.json", R"({"weight_map": {"z": "../etc.safetensors"}})"),
                HasSubstr("no name of a file beside the index"));
    EXPECT_THAT(with("3.json", R"({"weight_map": {"z": "missing.safetensors"}})"),
                HasSubstr("missing.safetensors\": No such file"));
    EXPECT_THAT(with("4.json", R"({"weights": {}})"), HasSubstr("the index has no \"weight_map\""));
}

TEST(Safetensors, WhateverFailsTheOldFileStays) {
    const Folder folder;
    const std::string path = folder / "t.safetensors";
    lz::save(lz::ones({4}), path);
    const std::string before = read_file(path);
    EXPECT_THROW(lz::save(StateDict{{"a", lz::ones({2})}, {"__metadata__", lz::ones({2})}}, path),
                 lz::IoError);
    EXPECT_THROW(lz::save(StateDict{{"a", lz::ones({2})}, {"b", Tensor()}}, path), lz::StateError);
    EXPECT_THROW(lz::save(StateDict{{"a", lz::ones({2})}, {"\xff", lz::ones({2})}}, path), lz::IoError);
    EXPECT_THAT(io_error([&] { lz::save(lz::ones({2}), folder / "none/t.safetensors"); }),
                HasSubstr("No such file or directory"));
    EXPECT_EQ(read_file(path), before);
    EXPECT_EQ(folder.count(), 1u);
}

TEST(Safetensors, AFullDiskLeavesTheOldFile) {
    const Folder folder;
    const std::string path = folder / "t.safetensors";
    lz::save(lz::ones({4}), path);
    const std::string before = read_file(path);
    // No file may become larger than a megabyte: writing fails in the middle.
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    const rlimit small{1 << 20, limit.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string text = io_error([&] { lz::save(lz::ones({1 << 20}), path); });
    setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, handler);
    EXPECT_THAT(text, HasSubstr("save: cannot write \"" + path + "\": File too large"));
    EXPECT_EQ(read_file(path), before);
    EXPECT_EQ(folder.count(), 1u);
}

TEST(Safetensors, AFileSavedOnAGpuLoadsOnTheCpuAndOnAnother) {
    if (!lz::cuda::is_available())
        GTEST_SKIP() << "there are no virtual GPUs";
    const Folder folder;
    lz::save(
        StateDict{{"a", lz::arange(6, {.device = "cuda:0"})}, {"b", lz::ones({2}, {.device = "cuda:1"})}},
        folder / "g.safetensors");
    const StateDict on_cpu = lz::load(folder / "g.safetensors");
    EXPECT_TRUE(on_cpu.at("a").device().is_cpu());
    const StateDict moved = lz::load(folder / "g.safetensors", {.device = "cuda:1"});
    EXPECT_EQ(moved.at("a").device(), lz::Device::cuda(1));
    EXPECT_EQ(moved.at("a").cpu().to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(moved.at("b").cpu().to_vector<float>(), (std::vector<float>{1, 1}));
    EXPECT_THROW((void)lz::load(folder / "g.safetensors", {.device = "cuda:7"}), lz::DeviceError);
}

TEST(Safetensors, DamagedFilesSayWhatIsWrong) {
    const Folder folder;
    const std::string path = folder / "bad.safetensors";
    const auto error_of = [&](const std::string &bytes) {
        write_file(path, bytes);
        const std::string text = io_error([&] { (void)lz::load(path); });
        EXPECT_THAT(text, HasSubstr("load: cannot read \"" + path + "\": "));
        EXPECT_THAT(text, HasSubstr("safetensors_test.cpp:"));
        return text;
    };
    EXPECT_THAT(error_of(""), HasSubstr("it has 0 bytes"));
    EXPECT_THAT(error_of("1234567"), HasSubstr("it has 7 bytes"));
    EXPECT_THAT(error_of(std::string(8, '\xff') + "{}"), HasSubstr("its header would have"));
    EXPECT_THAT(error_of("Dear reader, this is a letter."), HasSubstr("none of the formats that are known"));
    EXPECT_THAT(error_of(file_of("", 0)), HasSubstr("is no JSON"));
    EXPECT_THAT(error_of(file_of("[]", 0)), HasSubstr("is no JSON object"));
    EXPECT_THAT(error_of(file_of("{}", 3)), HasSubstr("its tensors have 0 bytes, and 3 follow"));
    EXPECT_THAT(error_of(file_of("{} x", 0)), HasSubstr("no JSON at byte 4"));
    const auto tensor = [](const std::string &dtype, const std::string &shape, const std::string &offsets) {
        return "{\"w\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets +
               "]}}";
    };
    EXPECT_THAT(error_of(file_of(tensor("F32", "2", "0,4"), 8)),
                HasSubstr("has 8 bytes, and 4 are set aside"));
    EXPECT_THAT(error_of(file_of(tensor("F32", "2", "0,8"), 4)), HasSubstr("bytes [0, 8] of the 4"));
    EXPECT_THAT(error_of(file_of(tensor("F32", "2", "8,0"), 8)), HasSubstr("bytes [8, 0] of the 8"));
    EXPECT_THAT(error_of(file_of(tensor("F32", "1", "4,8"), 8)), HasSubstr("leave a hole"));
    EXPECT_THAT(error_of(file_of(tensor("F8_E4M3", "2", "0,2"), 2)),
                HasSubstr("tensor \"w\" is of dtype \"F8_E4M3\", which Lazuli does not have"));
    EXPECT_THAT(error_of(file_of(tensor("F32", "-1", "0,4"), 4)), HasSubstr("no whole number"));
    EXPECT_THAT(error_of(file_of(tensor("F32", "0.5", "0,4"), 4)), HasSubstr("no whole number"));
    EXPECT_THAT(error_of(file_of(tensor("F32", "4611686018427387904,4", "0,4"), 4)),
                HasSubstr("more elements than a 64-bit number"));
    EXPECT_THAT(error_of(file_of(tensor("U8", "18446744073709551615", "0,4"), 4)),
                HasSubstr("has an axis of"));
    EXPECT_THAT(error_of(file_of(tensor("U8", "1,1,1,1,1,1,1,1,1", "0,1"), 1)), HasSubstr("has 9 axes"));
    EXPECT_THAT(error_of(file_of(tensor("F32", "1", "0,4,4"), 4)), HasSubstr("bytes [0, 4, 4]"));
    EXPECT_THAT(error_of(file_of(R"({"w":{"dtype":"F32","shape":[1]}})", 4)),
                HasSubstr("no \"data_offsets\""));
    EXPECT_THAT(error_of(file_of(R"({"w":3})", 0)), HasSubstr("has no dtype"));
    EXPECT_THAT(error_of(file_of(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("metadata \"a\" is no text"));
    EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                 R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                                 3)),
                HasSubstr("overlap"));
    EXPECT_THAT(error_of(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                 R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                                 1)),
                HasSubstr("names \"a\" twice"));
    EXPECT_THAT(error_of(file_of("{\"a\":" + std::string(100000, '[') + "}", 1)),
                HasSubstr("more than 8 levels"));
    write_file(path, std::string(file_of(tensor("BOOL", "1", "0,1"), 0)) + "\2");
    EXPECT_THAT(io_error([&] { (void)lz::load(path); }), HasSubstr("is of bools and has the byte 2"));
    EXPECT_THAT(io_error([&] { (void)lz::load(folder / "none.safetensors"); }), HasSubstr("No such file"));
    EXPECT_THAT(io_error([] { (void)lz::load("/"); }), HasSubstr("no regular file"));
}

TEST(Safetensors, UnalignedElementsAreCopied) {
    const Folder folder;
    // Two bools before an f32: allowed, though nobody writes it.
    std::string bytes = file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                                R"("b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
                                6);
    const float value = 2.5f;
    std::memcpy(bytes.data() + bytes.size() - 4, &value, 4);
    write_file(folder / "u.safetensors", bytes);
    EXPECT_EQ(lz::load(folder / "u.safetensors").at("b").item<float>(), 2.5f);
}

struct Pair {
    Tensor a = lz::zeros({2}), b = lz::zeros({3});
    StateDict state_dict() const { return {{"a", a}, {"b", b}}; }
    void load_state_dict(const StateDict &dict) {
        a = dict.at("a");
        b = dict.at("b");
    }
};

/// As nn's holders do.
struct HoldsPair {
    std::shared_ptr<Pair> pair = std::make_shared<Pair>();
    Pair *operator->() const { return pair.get(); }
    Pair &operator*() const { return *pair; }
};

TEST(Safetensors, WhatIsHeldIsSavedAndLoaded) {
    const Folder folder;
    HoldsPair one, other;
    one->a = lz::arange(2);
    lz::save(one, folder / "p.safetensors");
    lz::load(other, folder / "p.safetensors");
    EXPECT_EQ(other->a.to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
}

TEST(Safetensors, WhatHasAStateDictIsSavedByIt) {
    const Folder folder;
    Pair one, other;
    one.a = lz::arange(2);
    lz::save(one, folder / "p.safetensors");
    lz::load(other, folder / "p.safetensors");
    EXPECT_EQ(other.a.to_vector<int64_t>(), (std::vector<int64_t>{0, 1}));
}

} // namespace
