#pragma once
/// Files of tests: a folder that goes away, and what the inputs hold.

#include <lazuli/io.h>
#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace lz::test {

/// A folder of the test's own.
class Folder {
public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "lazuli-io-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string operator/(const std::string &name) const { return path_ + "/" + name; }
    /// How many files are in it.
    size_t count() const {
        size_t n = 0;
        for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator(path_))
            ++n;
        return n;
    }

private:
    std::string path_;
};

inline std::string input(const std::string &name) {
    return std::string(LAZULI_TEST_DATA) + "/inputs/" + name;
}

inline std::string read_file(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    EXPECT_TRUE(in) << path;
    return out.str();
}
inline void write_file(const std::string &path, const std::string &bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

inline const std::vector<std::pair<std::string, DType>> &dtypes() {
    static const auto &all = *new std::vector<std::pair<std::string, DType>>{
        {"bool", DType::Bool}, {"u8", DType::U8},   {"i8", DType::I8},   {"i16", DType::I16},
        {"i32", DType::I32},   {"i64", DType::I64}, {"f16", DType::F16}, {"bf16", DType::BF16},
        {"f32", DType::F32},   {"f64", DType::F64}};
    return all;
}

/// Whether it holds what inputs/make_files.py puts into a tensor of its name.
inline void expect_counts(const Tensor &tensor, DType dtype, const Sizes &sizes, const std::string &name) {
    EXPECT_EQ(tensor.dtype(), dtype) << name;
    ASSERT_EQ(tensor.sizes(), sizes) << name;
    const std::vector<double> values = tensor.to(DType::F64).to_vector<double>();
    for (size_t i = 0; i < values.size(); ++i) {
        const double n = static_cast<double>(i);
        EXPECT_EQ(values[i], dtype == DType::Bool       ? static_cast<double>(i % 2)
                             : is_floating_point(dtype) ? n / 2
                                                        : n)
            << name << " " << i;
    }
}

/// Runs it and gives what IoError said; fails where nothing was thrown.
template <class F>
std::string io_error(F &&f) {
    try {
        f();
    } catch (const IoError &error) {
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return {};
}

} // namespace lz::test
