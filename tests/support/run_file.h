#pragma once
/// A program file in another process, which has liblazuli-run.so and nothing else (tests/project/run_file).

#include "tests/support/caught.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <vector>

namespace lz::test {

/// A folder that goes with this.
class TestFolder {
public:
    TestFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "lazuli-run-XXXXXX").string();
        path_ = ::mkdtemp(name.data());
    }
    TestFolder(const TestFolder &) = delete;
    TestFolder &operator=(const TestFolder &) = delete;
    ~TestFolder() { std::filesystem::remove_all(path_); }
    std::string operator/(const std::string &name) const { return path_ + "/" + name; }

private:
    std::string path_;
};

inline std::string read_bytes(const std::string &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

/// The elements of tensors, one behind the other.
inline std::string elements_of(const std::vector<Tensor> &tensors) {
    std::string bytes;
    for (const Tensor &tensor : tensors) {
        const Tensor here = tensor.cpu();
        bytes.append(static_cast<const char *>(here.data<void>()),
                     static_cast<size_t>(here.numel() * size_of(here.dtype())));
    }
    return bytes;
}

/// What such a process gave.
struct RanFile {
    std::string elements; ///< of all results
    std::string error;    ///< `DeviceError: ...`; empty: none
};

/// That of the build, or, in a bundle, what tests/gpu/run.sh says.
inline std::string run_file_program() {
    const char *const program = std::getenv("LAZULI_TEST_RUN_FILE");
    return program ? program : LAZULI_RUN_FILE;
}

/// `arguments` as run_file takes them behind the files; `environment`: more `VARIABLE=value`.
inline RanFile run_file(const std::string &file, const std::vector<Tensor> &inputs,
                        const std::string &arguments = "", const std::string &environment = "") {
    const TestFolder folder;
    std::ofstream(folder / "in", std::ios::binary) << elements_of(inputs);
    const std::string command = "env " + environment + " LAZULI_NVRTC=/nonexistent/libnvrtc.so " +
                                run_file_program() + " " + file + " " + (folder / "in") + " " +
                                (folder / "out") + " " + arguments + " 2>&1";
    FILE *const pipe = ::popen(command.c_str(), "r");
    std::string printed;
    std::array<char, 4096> block;
    while (const size_t got = std::fread(block.data(), 1, block.size(), pipe))
        printed.append(block.data(), got);
    const int status = ::pclose(pipe);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
        return {"", printed};
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << "\n" << status << printed;
    return {read_bytes(folder / "out"), ""};
}

/// What every file says of its functions: `f` with these inputs, compiled and saved, gives what `f` gives,
/// from the same seed of random numbers.
template <class F>
void expect_same_from_file(const std::string &file, const F &f, const std::vector<Tensor> &inputs) {
    auto compiled = compile(f);
    for (int call = 0; call < 3; ++call)
        compiled(inputs);
    save_program(file, compiled);
    manual_seed(41);
    const std::string expected = elements_of(f(inputs));
    const RanFile ran = run_file(file, inputs, "--seed=41");
    EXPECT_EQ(ran.error, "");
    EXPECT_TRUE(ran.elements == expected) << ran.elements.size() << " bytes, and not " << expected.size();
    const Program program = load_program(file);
    reset_compile_stats();
    manual_seed(41);
    const std::vector<Tensor> given = program(inputs);
    EXPECT_EQ(compile_stats().programs_compiled, 0);
    EXPECT_EQ(compile_stats().kernels_compiled, 0);
    EXPECT_TRUE(elements_of(given) == expected);
}

/// A file of a function with indices that are tested on `device`: one out of range is an error that names its
/// line, in another process and here, and leaves the next call right.
inline void expect_index_error_from_file(const std::string &file, Device device) {
    int line = 0;
    const auto f = [&](const std::vector<Tensor> &in) {
        line = __LINE__ + 1;
        const Tensor picked = in[0].index_select(0, in[1]);
        return std::vector{picked * 2, in[0] + 1};
    };
    const Tensor x = randn({6, 3}, {.device = device}), right = arange(4).to(device), wrong = right + 3;
    expect_same_from_file(file, f, {x, right});
    const std::string place = "run_file.h:" + std::to_string(line);
    const std::string error = run_file(file, {x, wrong}).error;
    EXPECT_TRUE(error.starts_with("IndexError: ") && error.find(place) != std::string::npos) << error;
    const Program program = load_program(file);
    const Caught here = caught<IndexError>([&] { program({x, wrong}); });
    EXPECT_TRUE(here.has(place)) << here.what;
    EXPECT_EQ(elements_of(program({x, right})), elements_of(f({x, right})));
}

} // namespace lz::test
