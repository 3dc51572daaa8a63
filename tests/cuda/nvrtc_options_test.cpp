// What NVRTC is asked for, by its version: `--minimal` is an option that 12.1 to 12.3 do not know and refuse,
// `--Ofast-compile` one of 12.9 and newer.
#include "codegen/cuda/compiler.h"
#include "ir/diagnostic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lz::test {
namespace {

std::pair<int, int> nvrtc_is;                ///< its version
std::vector<std::string> was_given;          ///< its options
constexpr char kPtx[] = ".version 8.0\n";    ///< what it makes of everything
constexpr std::pair<int, int> kKnows{12, 4}; ///< `--minimal`, from this version on
constexpr std::pair<int, int> kCompilesFast{12, 9};
constexpr char kFast[] = "--Ofast-compile=mid";

bool was_asked_for(const char *option) {
    return std::ranges::find(was_given, option) != was_given.end();
}

codegen::Nvrtc nvrtc_of_this_version() {
    codegen::Nvrtc n;
    n.version = [](int *major, int *minor) {
        *major = nvrtc_is.first;
        *minor = nvrtc_is.second;
        return 0;
    };
    n.num_archs = [](int *count) { return *count = 1, 0; };
    n.archs = [](int *list) { return *list = 80, 0; };
    n.create = [](codegen::Nvrtc::Program *program, const char *, const char *, int, const char *const *,
                  const char *const *) {
        *program = &was_given;
        return 0;
    };
    n.compile = [](codegen::Nvrtc::Program, int count, const char *const *options) {
        was_given.assign(options, options + count);
        const bool is_refused = (was_asked_for("--minimal") && nvrtc_is < kKnows) ||
                                (was_asked_for(kFast) && nvrtc_is < kCompilesFast);
        return is_refused ? 5 : 0; // NVRTC_ERROR_INVALID_OPTION
    };
    n.log_size = [](codegen::Nvrtc::Program, size_t *size) { return *size = 0, 0; };
    n.log = [](codegen::Nvrtc::Program, char *) { return 0; };
    n.ptx_size = n.cubin_size = [](codegen::Nvrtc::Program, size_t *size) { return *size = sizeof kPtx, 0; };
    n.ptx = n.cubin = [](codegen::Nvrtc::Program, char *to) { return std::memcpy(to, kPtx, sizeof kPtx), 0; };
    n.destroy = [](codegen::Nvrtc::Program *) { return 0; };
    n.error = [](int) { return "an error"; };
    return n;
}

TEST(NvrtcOptions, AreThoseThatItsVersionKnows) {
    for (const auto &version : {std::pair{12, 1}, {12, 3}, {12, 4}, {12, 9}, {13, 0}, {13, 5}}) {
        nvrtc_is = version;
        for (const bool fast : {false, true}) {
            const auto compiler =
                codegen::make_cuda_compiler(nvrtc_of_this_version(), 90, {.fast_compile = fast});
            const ir::CompiledKernel made =
                compiler->compile_source({"k", "extern \"C\" __global__ void k() {}", {"k"}});
            EXPECT_EQ(made.object.size(), sizeof kPtx);
            const auto has = [](const char *option) { return std::ranges::count(was_given, option) == 1; };
            EXPECT_EQ(has("--minimal"), version >= kKnows) << version.first << "." << version.second;
            EXPECT_EQ(has(kFast), fast && version >= kCompilesFast) << version.first << "." << version.second;
            EXPECT_TRUE(has("--gpu-architecture=compute_80"));
            EXPECT_TRUE(has("--fmad=false")); // a product and a sum are rounded one by one
        }
    }
}

/// Kernels that are kept are found by it again.
TEST(NvrtcOptions, FastCompilationAndMathAreInTheKeyOfKernels) {
    nvrtc_is = {13, 0};
    const auto key = [](bool fast_compile, bool fast_math) {
        return codegen::make_cuda_compiler(nvrtc_of_this_version(), 90,
                                           {.fast_math = fast_math, .fast_compile = fast_compile})
            ->key();
    };
    EXPECT_EQ(key(true, false), key(true, false));
    EXPECT_NE(key(true, false), key(false, false));
    EXPECT_NE(key(false, true), key(false, false));
    EXPECT_NE(key(true, true), key(true, false));
}

TEST(NvrtcOptions, FastMathContracts) {
    nvrtc_is = {13, 0};
    const auto compiler = codegen::make_cuda_compiler(nvrtc_of_this_version(), 90, {.fast_math = true});
    compiler->compile_source({"k", "extern \"C\" __global__ void k() {}", {"k"}});
    EXPECT_EQ(std::ranges::count(was_given, "--fmad=true"), 1);
    EXPECT_EQ(std::ranges::count(was_given, "--fmad=false"), 0);
    EXPECT_EQ(compiler->math_forms().accuracy, ir::Accuracy::Fast);
}

} // namespace
} // namespace lz::test
