// What NVRTC is asked for, by its version: `--minimal` is an option that 12.1 to 12.3 do not know and refuse.
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
constexpr std::pair<int, int> kKnows{12, 4}; ///< the option, from this version on

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
        const bool is_given = std::ranges::find(was_given, "--minimal") != was_given.end();
        return is_given && nvrtc_is < kKnows ? 5 : 0; // NVRTC_ERROR_INVALID_OPTION
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
        const auto compiler = codegen::make_cuda_compiler(nvrtc_of_this_version(), 90);
        const ir::CompiledKernel made =
            compiler->compile_source({"k", "extern \"C\" __global__ void k() {}", {"k"}});
        EXPECT_EQ(made.object.size(), sizeof kPtx);
        const auto has = [](const char *option) { return std::ranges::count(was_given, option) == 1; };
        EXPECT_EQ(has("--minimal"), version >= kKnows) << version.first << "." << version.second;
        EXPECT_TRUE(has("--gpu-architecture=compute_80"));
        EXPECT_TRUE(has("--fmad=false")); // a product and a sum are rounded one by one
    }
}

} // namespace
} // namespace lz::test
