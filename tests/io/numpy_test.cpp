#include "files.h"

#include <gmock/gmock.h>

#include <cstring>
#include <fmt/format.h>

namespace {

using namespace lz::test;
using lz::DType;
using lz::StateDict;
using lz::Tensor;
using testing::HasSubstr;

std::string npy(const std::string &head, size_t bytes, int version = 1) {
    std::string out = "\x93NUMPY";
    out += static_cast<char>(version);
    out += '\0';
    const auto length = static_cast<uint32_t>(head.size());
    out.append(reinterpret_cast<const char *>(&length), version == 1 ? 2 : 4);
    return out + head + std::string(bytes, '\1');
}
std::string head(const std::string &descr, const std::string &shape) {
    return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }\n";
}

TEST(Numpy, ReadsArraysThatNumpyWrote) {
    for (const auto &[name, dtype] : dtypes()) {
        if (dtype != DType::BF16)
            expect_counts(lz::load_tensor(input("numpy/" + name + ".npy")), dtype, {2, 3}, name);
    }
    expect_counts(lz::load_tensor(input("numpy/fortran.npy")), DType::F32, {2, 3}, "fortran");
    expect_counts(lz::load_tensor(input("numpy/big_endian.npy")), DType::I32, {2, 3}, "big_endian");
    const Tensor scalar = lz::load_tensor(input("numpy/scalar.npy"));
    EXPECT_EQ(scalar.dim(), 0);
    EXPECT_EQ(scalar.item<double>(), 2.5);
}

TEST(Numpy, ReadsArchivesThatNumpyWrote) {
    for (const bool memory_map : {true, false}) {
        for (const char *archive : {"numpy/stored.npz", "numpy/deflated.npz"}) {
            const StateDict dict = lz::load(input(archive), {.memory_map = memory_map});
            EXPECT_EQ(dict.size(), dtypes().size() + 1);
            for (const auto &[name, dtype] : dtypes()) {
                if (dtype != DType::BF16)
                    expect_counts(dict.at(name), dtype, {2, 3}, name);
            }
            EXPECT_EQ(dict.at("none.f64").sizes(), (lz::Sizes{0, 4}));
            EXPECT_EQ(dict.at("scalar.f32").item<float>(), 0.5f);
        }
    }
}

TEST(Numpy, WhatIsSavedIsLoaded) {
    const Folder folder;
    StateDict dict;
    for (const auto &[name, dtype] : dtypes())
        if (dtype != DType::BF16)
            dict.insert(name + "/x", lz::arange(6).view({2, 3}).remainder(2).to(dtype));
    dict.insert("scalar", lz::tensor(1.5));
    dict.insert("none", lz::zeros({0, 3}));
    dict.insert("one axis", lz::arange(100000));
    for (const bool compress : {false, true}) {
        lz::save(dict, folder / "x.npz", {.compress = compress});
        const StateDict loaded = lz::load(folder / "x.npz");
        EXPECT_EQ(loaded.keys(), dict.keys());
        for (const auto &[name, tensor] : dict)
            EXPECT_TRUE(lz::equal(loaded.at(name), tensor)) << name;
    }
    EXPECT_LT(std::filesystem::file_size(folder / "x.npz"), 300000u);
    lz::save(dict.at("i16/x"), folder / "x.npy");
    EXPECT_TRUE(lz::equal(lz::load_tensor(folder / "x.npy"), dict.at("i16/x")));
    EXPECT_EQ(folder.count(), 2u);
}

// numpy wrote these very files; the bytes of a header are its, too.
TEST(Numpy, WritesTheBytesThatNumpyWrites) {
    const Folder folder;
    for (const auto &[name, dtype] : dtypes()) {
        if (dtype == DType::BF16)
            continue;
        lz::save(lz::load_tensor(input("numpy/" + name + ".npy")), folder / "x.npy");
        const std::string ours = read_file(folder / "x.npy"),
                          numpys = read_file(input("numpy/" + name + ".npy"));
        EXPECT_EQ(ours, numpys) << name;
    }
}

TEST(Numpy, WhatNumpyDoesNotHaveIsRefused) {
    const Folder folder;
    EXPECT_THAT(io_error([&] { lz::save(lz::ones({2}).to(DType::BF16), folder / "x.npy"); }),
                HasSubstr("tensor \"tensor\" is of bf16, which numpy does not have"));
    EXPECT_THAT(
        io_error([&] { lz::save(StateDict{{"a", lz::ones({2})}, {"b", lz::ones({2})}}, folder / "x.npy"); }),
        HasSubstr("one array, not 2"));
    EXPECT_EQ(folder.count(), 0u);
    EXPECT_THAT(io_error([] { (void)lz::load(input("numpy/structured.npy")); }),
                HasSubstr("structures of the type \"[('a', '<f4'), ('b', '<i4')]\""));
    EXPECT_THAT(io_error([] { (void)lz::load(input("numpy/complex.npy")); }), HasSubstr("dtype \"<c8\""));
}

TEST(Numpy, DamagedArraysSayWhatIsWrong) {
    const Folder folder;
    const std::string path = folder / "bad.npy";
    const auto error_of = [&](const std::string &bytes) {
        write_file(path, bytes);
        return io_error([&] { (void)lz::load(path); });
    };
    EXPECT_THAT(error_of("\x93NUMPY"), HasSubstr("no .npy file"));
    EXPECT_THAT(error_of(npy(head("<f4", "2,"), 8, 9)), HasSubstr("version 9"));
    EXPECT_THAT(error_of(npy(head("<f4", "2,"), 7)), HasSubstr("has 8 bytes, and 7 are there"));
    EXPECT_THAT(error_of(npy(head("<f4", "2,"), 9)), HasSubstr("has 8 bytes, and 9 are there"));
    EXPECT_THAT(error_of(npy(head("<f4", "2,"), 8).substr(0, 20)), HasSubstr("its header would have"));
    EXPECT_THAT(error_of(npy(head("<f4", "-2,"), 8)), HasSubstr("no extent"));
    EXPECT_THAT(error_of(npy(head("<f4", "99999999999999999999,"), 8)), HasSubstr("no extent"));
    EXPECT_THAT(error_of(npy(head("<f8", "4611686018427387904,4"), 8)), HasSubstr("64-bit number"));
    EXPECT_THAT(error_of(npy(head("<f4", "1,1,1,1,1,1,1,1,1"), 4)), HasSubstr("9 axes"));
    EXPECT_THAT(error_of(npy(head("<u4", "2,"), 8)), HasSubstr("dtype \"<u4\""));
    EXPECT_THAT(error_of(npy(head("|O", "2,"), 8)), HasSubstr("dtype \"|O\""));
    EXPECT_THAT(error_of(npy("{'descr': '<f4'}", 0)), HasSubstr("not made of"));
    EXPECT_THAT(error_of(npy("{'descr': '<f4', 'descr': '<f4'}", 0)), HasSubstr("names \"descr\" twice"));
    EXPECT_THAT(error_of(npy("__import__('os')", 0)), HasSubstr("has no '{'"));
    EXPECT_THAT(error_of(npy(head("|b1", "2,"), 1) + "\3"), HasSubstr("of bools and has the byte 3"));
}

TEST(Numpy, DamagedArchivesSayWhatIsWrong) {
    const Folder folder;
    const std::string path = folder / "bad.npz", good = read_file(input("numpy/deflated.npz")),
                      stored = read_file(input("numpy/stored.npz"));
    const auto error_of = [&](const std::string &bytes) {
        write_file(path, bytes);
        return io_error([&] { (void)lz::load(path); });
    };
    for (const size_t size : {size_t{5}, good.size() / 2, good.size() - 1})
        EXPECT_THAT(error_of(good.substr(0, size)), HasSubstr("no directory"));
    const auto changed = [](std::string bytes, size_t at, auto value) {
        std::memcpy(bytes.data() + at, &value, sizeof value);
        return bytes;
    };
    const size_t central = good.find("PK\1\2"), end = good.find("PK\5\6");
    EXPECT_THAT(error_of(changed(good, central + 24, uint32_t{100'000'000})),
                HasSubstr("cannot become 100000000 bytes"));
    EXPECT_THAT(error_of(changed(good, central + 24, uint32_t{4000})),
                HasSubstr("does not unpack to 4000 bytes"));
    EXPECT_THAT(error_of(changed(good, central + 24, uint32_t{100})),
                HasSubstr("does not unpack to 100 bytes"));
    EXPECT_THAT(error_of(changed(good, central + 10, uint16_t{12})), HasSubstr("packed by method 12"));
    EXPECT_THAT(error_of(changed(good, central + 8, uint16_t{1})), HasSubstr("is encrypted"));
    EXPECT_THAT(error_of(changed(good, central + 16, uint32_t{1})), HasSubstr("its checksum differs"));
    EXPECT_THAT(error_of(changed(good, central + 42, uint32_t{7})), HasSubstr("does not begin at byte 7"));
    EXPECT_THAT(error_of(changed(good, central + 28, uint16_t{0xffff})), HasSubstr("is cut short"));
    EXPECT_THAT(error_of(changed(good, end + 16, uint32_t{0xfffffff0})), HasSubstr("its directory would be"));
    EXPECT_THAT(error_of(changed(good, end + 10, uint16_t{60000})), HasSubstr("cannot have 60000 entries"));
    EXPECT_THAT(error_of(changed(stored, stored.find("\x93NUMPY") + 130, uint8_t{9})), HasSubstr("bad.npz"));
    // Two entries of the directory that share their bytes: how archives unpack to far more than they are.
    const size_t second = good.find("PK\1\2", central + 1);
    std::string shared = changed(good, second + 42, uint32_t{0});
    EXPECT_THAT(error_of(shared), HasSubstr("another name where it begins"));
    // A limit of one's own.
    EXPECT_THAT(io_error([] { (void)lz::load(input("numpy/deflated.npz"), {.max_unpacked_bytes = 1000}); }),
                HasSubstr("more than the 1000 that may be taken"));
}

} // namespace
