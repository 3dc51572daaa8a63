/// Machine code of a corpus of kernels for the architectures that users have: nothing spills, with any NVRTC.
/// With the one that wrote the golden file, registers and shared memory are what it says, give or take.
///
///     LAZULI_WRITE_RESOURCES=1 build/release/bin/test_cuda --gtest_filter='Architectures/Cubins.*'
///
/// writes that file anew, tests/cuda/resources.txt: look at what changed, and why. LAZULI_ALL_CUBINS=1
/// compiles every kernel for every architecture.

#include "codegen/cuda/resources.h"
#include "ir/math/expand.h"
#include "ir/target.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "tests/support/cuda/nvrtc.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace lz::test {
namespace {

using namespace ir;

/// A graph, and what its kernels are called here.
struct Entry {
    std::string name, text;
    bool reproducible = false; ///< products are kernels of Lazuli's
};

std::string graph(const std::string &parameters, const std::string &body) {
    return "lazuli 1\ngraph @g(" + parameters + ") {\n" + body + "}\n";
}

/// `$` stands for the dtype, `&` for the device.
std::string filled(std::string text, std::string_view dtype) {
    for (size_t at = 0; (at = text.find_first_of("$&", at)) != std::string::npos;)
        text.replace(at, 1, text[at] == '$' ? std::string(dtype) : "@cuda:0");
    return text;
}

/// Of rows of n, computed in f32: what nn::LayerNorm records.
std::string layer_norm(int n, std::string_view dtype) {
    const bool wide = dtype == "f32";
    const std::string casts = wide ? "\n"
                                   : fmt::format(R"(
  %xf = cast %x : f32[512,{0}] &
  %wf = cast %w : f32[{0}] &
  %bf = cast %b : f32[{0}] &
)",
                                                 n);
    const std::string_view f = wide ? "" : "f";
    const std::string norm = fmt::format(R"(  %0 = sum %x{1} {{axes=[1]}} : f32[512] &
  %1 = literal {{value={0}}} : f32[512] &
  %2 = div %0, %1 : f32[512] &
  %3 = reshape %2 : f32[512,1] &
  %4 = sub %x{1}, %3 : f32[512,{0}] &
  %5 = mul %4, %4 : f32[512,{0}] &
  %6 = sum %5 {{axes=[1]}} : f32[512] &
  %7 = div %6, %1 : f32[512] &
  %8 = literal {{value=0.00001}} : f32[512] &
  %9 = add %7, %8 : f32[512] &
  %10 = sqrt %9 : f32[512] &
  %11 = reshape %10 : f32[512,1] &
  %12 = div %4, %11 : f32[512,{0}] &
  %13 = mul %12, %w{1} : f32[512,{0}] &
  %14 = add %13, %b{1} : f32[512,{0}] &
)",
                                         n, f);
    return casts + norm +
           (wide ? "  return %14\n" : fmt::format("  %15 = cast %14 : $[512,{}] &\n  return %15\n", n));
}

/// x * rsqrt(mean(x^2) + eps) * w, computed in f32: what lz::rms_norm records.
std::string rms_norm(int n, std::string_view dtype) {
    const bool wide = dtype == "f32";
    const std::string_view f = wide ? "" : "f";
    const std::string casts =
        fmt::format("\n  %xf = cast %x : f32[512,{0}] &\n  %wf = cast %w : f32[{0}] &\n", n);
    return (wide ? "\n" : casts) +
           fmt::format(R"(  %0 = mul %x{1}, %x{1} : f32[512,{0}] &
  %1 = sum %0 {{axes=[1]}} : f32[512] &
  %2 = literal {{value={0}}} : f32[512] &
  %3 = div %1, %2 : f32[512] &
  %4 = literal {{value=0.00001}} : f32[512] &
  %5 = add %3, %4 : f32[512] &
  %6 = rsqrt %5 : f32[512] &
  %7 = reshape %6 : f32[512,1] &
  %8 = mul %x{1}, %7 : f32[512,{0}] &
  %9 = mul %8, %w{1} : f32[512,{0}] &
)",
                       n, f) +
           (wide ? "  return %9\n" : fmt::format("  %10 = cast %9 : $[512,{}] &\n  return %10\n", n));
}

/// One step of so many tensors of three shapes: p - rate * g, and a mean that moves.
Entry update(int count) {
    std::string parameters, body = "\n", results;
    for (int k = 0; k < count; ++k) {
        const std::string type = fmt::format("f32[{}] &", k % 3 == 0   ? "768,3072"
                                                          : k % 3 == 1 ? "3072"
                                                                       : "7");
        parameters += fmt::format("{0}%p{1}: {2}, %g{1}: {2}, %m{1}: {2}", k ? ", " : "", k, type);
        body += fmt::format(R"(  %c{0} = literal {{value=0.9}} : {1}
  %d{0} = mul %m{0}, %c{0} : {1}
  %e{0} = add %d{0}, %g{0} : {1}
  %f{0} = mul %e{0}, %c{0} : {1}
  %h{0} = sub %p{0}, %f{0} : {1}
)",
                            k, type);
        results += fmt::format("{}%e{}, %h{}", k ? ", " : "", k, k);
    }
    return {fmt::format("update of {} f32", count),
            filled(graph(parameters, body + "  return " + results + "\n"), "f32")};
}

std::vector<Entry> corpus() {
    std::vector<Entry> all;
    const auto add = [&](const std::string &name, std::string_view dtype, const std::string &parameters,
                         const std::string &body) {
        all.push_back({fmt::format("{} {}", name, dtype), filled(graph(parameters, body), dtype)});
    };
    for (const char *const t : {"f32", "f16", "bf16", "f64", "i32", "i64", "u8"})
        add("chain", t, "%x: $[1048576] &, %y: $[1048576] &", R"(
  %0 = add %x, %y : $[1048576] &
  %1 = mul %0, %x : $[1048576] &
  %2 = maximum %1, %y : $[1048576] &
  %3 = sub %2, %x : $[1048576] &
  return %3
)");
    for (const char *const f : {"exp", "log", "tanh", "sigmoid", "erf", "sin"})
        for (const char *const t : {"f32", "bf16"})
            add(f, t, "%x: $[1048576] &", fmt::format("\n  %0 = {} %x : $[1048576] &\n  return %0\n", f));
    for (const auto &[n, t] : {std::pair{40, "f32"},
                               {1024, "f32"},
                               {8192, "f32"},
                               {50000, "f32"},
                               {100000, "f32"},
                               {1000, "bf16"},
                               {1000, "f64"},
                               {30000, "f64"}})
        add(fmt::format("softmax of {}", n), t, fmt::format("%x: $[512,{}] &", n),
            fmt::format(R"(
  %0 = max %x {{axes=[1]}} : $[512] &
  %1 = reshape %0 : $[512,1] &
  %2 = sub %x, %1 : $[512,{0}] &
  %3 = exp %2 : $[512,{0}] &
  %4 = sum %3 {{axes=[1]}} : $[512] &
  %5 = reshape %4 : $[512,1] &
  %6 = div %3, %5 : $[512,{0}] &
  return %6
)",
                        n));
    for (const char *const t : {"f32", "bf16"}) // two rows are kept
        add("products of rows", t, "%x: $[512,30000] &, %y: $[512,30000] &", R"(
  %0 = mul %x, %y : $[512,30000] &
  %1 = sum %0 {axes=[1]} : $[512] &
  %2 = reshape %1 : $[512,1] &
  %3 = mul %x, %2 : $[512,30000] &
  %4 = add %3, %y : $[512,30000] &
  return %4
)");
    for (const int n : {768, 8192, 32768})
        for (const char *const t : {"f32", "bf16"})
            add(fmt::format("layer norm of {}", n), t,
                fmt::format("%x: $[512,{0}] &, %w: $[{0}] &, %b: $[{0}] &", n), layer_norm(n, t));
    for (const int n : {1024, 4096, 32768})
        for (const char *const t : {"f32", "bf16"})
            add(fmt::format("RMS norm of {}", n), t, fmt::format("%x: $[512,{0}] &, %w: $[{0}] &", n),
                rms_norm(n, t));
    for (const char *const t : {"f32", "bf16", "f64"}) {
        add("full sum", t, "%x: $[4194304] &", "\n  %0 = sum %x {axes=[0]} : $[] &\n  return %0\n");
        add("column sum", t, "%x: $[4096,512] &", "\n  %0 = sum %x {axes=[0]} : $[512] &\n  return %0\n");
    }
    add("argmax", "f32", "%x: $[512,1000] &", "\n  %0 = argmax %x {axis=1} : i64[512] &\n  return %0\n");
    for (const char *const t : {"f32", "f16", "u8"})
        add("transpose and add", t, "%x: $[1024,512] &, %y: $[512,1024] &", R"(
  %0 = permute %x {axes=[1,0]} : $[512,1024] &
  %1 = add %0, %y : $[512,1024] &
  return %1
)");
    for (const char *const t : {"f32", "f16"})
        add("gather", t, "%x: $[5000,64] &, %i: i64[900,64] &", R"(
  %0 = gather %x, %i {axis=0} : $[900,64] &
  %1 = add %0, %0 : $[900,64] &
  return %1
)");
    for (const char *const t : {"i8", "i32", "i64"})
        add("product", t, "%x: $[256,300] &, %y: $[300,200] &", R"(
  %0 = dot %x, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : $[256,200] &
  %1 = add %0, %0 : $[256,200] &
  return %1
)");
    for (const char *const t : {"f32", "bf16"}) {
        add("product in one order", t, "%x: $[256,300] &, %y: $[300,200] &", R"(
  %0 = dot %x, %y {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} : $[256,200] &
  %1 = add %0, %0 : $[256,200] &
  return %1
)");
        all.back().reproducible = true;
    }
    add("random words", "f32", "%x: $[1048576] &", R"(
  %0 = philox {seed=7, offset=64} : i32[1048576] &
  %1 = cast %0 : $[1048576] &
  %2 = add %1, %x : $[1048576] &
  return %2
)");
    for (const int count : {12, 60, 1000}) // tables of 4 KiB, of 32, and in memory
        all.push_back(update(count));
    add("division", "i32", "%x: $[100000] &, %y: $[100000] &",
        "\n  %0 = floor_div %x, %y : $[100000] &\n  return %0\n");
    add("joins", "f32", "%x: $[100,30] &, %y: $[100,50] &", R"(
  %0 = concat %x, %y {axis=1} : $[100,80] &
  %1 = flip %0 {axes=[1]} : $[100,80] &
  %2 = add %0, %1 : $[100,80] &
  return %2
)");
    return all;
}

using codegen::CudaResources;

/// Registers and shared memory by `name | sm | entry`.
struct Need {
    int registers = 0, shared_bytes = 0;
};
struct Golden {
    std::string nvrtc; ///< the version that it is of
    std::map<std::string, Need> needs;
};
Golden golden() {
    constexpr std::string_view kVersion = "# NVRTC ";
    Golden all;
    std::ifstream file(LAZULI_TEST_DATA "/resources.txt");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(kVersion))
            all.nvrtc = line.substr(kVersion.size());
        const size_t colon = line.rfind(':');
        Need n;
        if (!line.starts_with('#') && colon != std::string::npos &&
            std::sscanf(line.c_str() + colon, ": %d registers, %d bytes shared", &n.registers,
                        &n.shared_bytes) == 2)
            all.needs[line.substr(0, colon)] = n;
    }
    return all;
}

/// Another assembler needs some registers more or fewer; what needs an eighth more is another kernel.
bool is_near(int found, int expected, int grain) {
    return std::abs(found - expected) <= std::max(grain, expected / 8);
}

bool is_of(const std::string &name, int sm) {
    return name.find(fmt::format("| sm_{} |", sm)) != std::string::npos;
}

void write(const std::map<std::string, Need> &found, int sm, const std::string &nvrtc) {
    std::map<std::string, Need> all = golden().needs;
    std::erase_if(all, [&](const auto &e) { return is_of(e.first, sm); });
    all.insert(found.begin(), found.end());
    std::ofstream file(LAZULI_TEST_DATA "/resources.txt");
    file
        << "# Registers of a thread and shared memory of a block, by kernel, architecture and entry. Nothing "
           "spills.\n# NVRTC "
        << nvrtc
        << "\n# wrote it, for all architectures:\n"
           "#   LAZULI_WRITE_RESOURCES=1 build/release/bin/test_cuda "
           "--gtest_filter='Architectures/Cubins.*'\n";
    for (const auto &[name, n] : all)
        file << fmt::format("{}: {} registers, {} bytes shared\n", name, n.registers, n.shared_bytes);
}

class Cubins : public testing::TestWithParam<int> {};

TEST_P(Cubins, OfTheCorpusSpillNothingAndNeedNoMoreThanTheyDid) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    const codegen::Nvrtc nvrtc = codegen::load_nvrtc(nvrtc_library());
    const int sm = GetParam();
    int count = 0;
    ASSERT_EQ(nvrtc.num_archs(&count), 0);
    std::vector<int> known(static_cast<size_t>(count));
    ASSERT_EQ(nvrtc.archs(known.data()), 0);
    if (std::ranges::find(known, sm) == known.end())
        GTEST_SKIP() << "This NVRTC does not know sm_" << sm << ".";
    Target target = cuda_test_target(1);
    for (DeviceInfo &device : target.devices)
        if (device.runs_cuda()) {
            device.cuda().cluster_blocks = sm < 90 ? 1 : 8; // 9.0 has clusters of blocks first
            if (sm == 120)                                  // has less shared memory than the others
                device.cuda().shared_per_block = 99 << 10;
        }
    // sm_90 takes all kernels, each other architecture every third: NVRTC needs half a minute for all.
    const bool takes_all =
        sm == 90 || std::getenv("LAZULI_WRITE_RESOURCES") || std::getenv("LAZULI_ALL_CUBINS");
    const size_t turn = sm == 80 ? 0 : sm == 100 ? 1 : 2;
    std::map<std::string, Need> found;
    size_t kernels = 0;
    for (const Entry &entry : corpus()) {
        target.modes.reproducible = entry.reproducible;
        const Program program = passes::compile(parse_graph(entry.text), target).program;
        for (size_t k = 0; k < program.kernels.size(); ++k) {
            if (kernels++ % 3 != turn && !takes_all)
                continue;
            Kernel kernel = program.kernels[k];
            expand_math(kernel);
            const auto resources = codegen::cuda_resources(nvrtc, sm, kernel, CudaLimits{});
            EXPECT_FALSE(resources.empty()) << entry.name;
            for (const CudaResources &r : resources) {
                const std::string name =
                    fmt::format("{}, kernel {} | sm_{} | {}", entry.name, k, sm, r.entry);
                EXPECT_EQ(r.spilled_bytes, 0) << name << ": registers go to memory and come back.";
                EXPECT_GT(r.instructions, 10) << name;
                EXPECT_GT(r.resident_threads, 0) << name << " cannot be launched.";
                found[name] = {r.registers, r.shared_bytes};
            }
        }
    }
    EXPECT_GE(kernels, 60U);
    int major = 0, minor = 0;
    ASSERT_EQ(nvrtc.version(&major, &minor), 0);
    const std::string version = fmt::format("{}.{}", major, minor);
    if (std::getenv("LAZULI_WRITE_RESOURCES")) {
        write(found, sm, version);
        return;
    }
    const auto [of, expected] = golden();
    ASSERT_FALSE(of.empty()) << "resources.txt names no version of NVRTC";
    if (of != version && !HasFailure())
        GTEST_SKIP() << "Nothing spills. Registers are compared with NVRTC " << of << "; this is " << version
                     << ".";
    constexpr std::string_view kHow = "tests/cuda/resources.txt, whose first lines say how it is written.";
    for (const auto &[name, n] : found) {
        const auto at = expected.find(name);
        if (at == expected.end()) {
            ADD_FAILURE() << name << " is not in " << kHow;
            continue;
        }
        EXPECT_TRUE(is_near(n.registers, at->second.registers, 4))
            << name << ": " << n.registers << " registers; " << at->second.registers << " are in " << kHow;
        EXPECT_TRUE(is_near(n.shared_bytes, at->second.shared_bytes, 64))
            << name << ": " << n.shared_bytes << " bytes of shared memory; " << at->second.shared_bytes
            << " are in " << kHow;
    }
    for (const auto &[name, n] : expected)
        if (takes_all && is_of(name, sm)) {
            EXPECT_TRUE(found.contains(name)) << name << " is no more, and in " << kHow;
        }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Cubins, testing::Values(80, 90, 100, 120),
                         [](const auto &info) { return "sm_" + std::to_string(info.param); });

// --- how they are read

TEST(CudaResources, AreReadFromTheAssemblersLog) {
    const auto found = codegen::read_assembler_log(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'phase0_aligned' for 'sm_100'
ptxas info    : Function properties for phase0_aligned
ptxas         .     64 bytes stack frame, 60 bytes spill stores, 68 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 64 bytes cumulative stack size, 4352 bytes smem
ptxas info    : Compiling entry function 'phase0' for 'sm_100'
ptxas info    : Function properties for phase0
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 37 registers, used 1 barriers
)");
    ASSERT_EQ(found.size(), 2U);
    const codegen::Assembled &spills = found.at("phase0_aligned"), &plain = found.at("phase0");
    EXPECT_EQ(spills.spilled_bytes, 128);
    EXPECT_EQ(spills.registers, 64);
    EXPECT_EQ(spills.shared_bytes, 4352);
    EXPECT_EQ(plain.spilled_bytes, 0);
    EXPECT_EQ(plain.registers, 37);
    EXPECT_EQ(plain.shared_bytes, 0);
}

/// On an H200: 65,536 registers, 2,048 threads and 228 KiB of shared memory an SM.
TEST(CudaResources, SayHowManyThreadsAnSmRuns) {
    const CudaLimits h200;
    EXPECT_EQ(codegen::resident_threads(256, 32, 0, h200), 2048);
    EXPECT_EQ(codegen::resident_threads(256, 33, 0, h200), 1536); // 40 registers each
    EXPECT_EQ(codegen::resident_threads(1024, 64, 0, h200), 1024);
    EXPECT_EQ(codegen::resident_threads(512, 255, 0, h200), 0);
    EXPECT_EQ(codegen::resident_threads(32, 16, 0, h200), 1024);        // 32 blocks
    EXPECT_EQ(codegen::resident_threads(128, 32, 75 << 10, h200), 384); // 76 KiB of 228
}

TEST(CudaResources, CountLoadsThatNothingWaitsFor) {
    const std::string ptx = R"(
.visible .entry other(
	.param .u64 other_param_0
)
{
	ret;
}
.visible .entry phase0(
	.param .u64 phase0_param_0
)
.maxntid 256, 1, 1
{
	.reg .b32 	%r<9>;
	.reg .b64 	%rd<9>;

	ld.param.b64 	%rd1, [phase0_param_0];
	ld.global.nc.v4.f32 	{%r1, %r2, %r3, %r4}, [%rd1];
	@%p1 ld.global.v2.u16 	{%r5, %r6}, [%rd1+16];
	add.f32 	%r7, %r1, %r1;
	ld.global.b64 	%rd2, [%rd1+32];
	ld.global.b64 	%rd3, [%rd2];
$L__BB0_1:
	st.global.f32 	[%rd1], %r5;
	bra 	$L__BB0_1;
}
)";
    const codegen::PtxCounts counts = codegen::count_ptx(ptx, "phase0");
    EXPECT_EQ(counts.instructions, 8);
    EXPECT_EQ(counts.loaded_bytes, 20); // 16 and 4, before the addition; then 4 and 8
    EXPECT_EQ(codegen::count_ptx(ptx, "other").instructions, 1);
    EXPECT_EQ(codegen::count_ptx(ptx, "phase").instructions, 0);
}

/// What loads elements of a packet one by one writes the same registers, and waits for loads of its own.
TEST(CudaResources, LoadsOfAnotherPathAreUnderWay) {
    constexpr std::string_view ptx = R"(
.visible .entry phase0(
	.param .u64 phase0_param_0
)
{
	ld.global.v2.u32 	{%r1, %r2}, [%rd1];
	bra.uni 	$L__BB0_2;
$L__BB0_1:
	ld.global.u16 	%rs1, [%rd1];
	mov.b32 	%r1, {%rs1, %rs2};
	cvt.u32.u16 	%r2, %rs2;
$L__BB0_2:
	ld.global.v2.u32 	{%r3, %r4}, [%rd1+128];
	bra.uni 	$L__BB0_4;
$L__BB0_3:
	ld.global.u16 	%rs1, [%rd1+128];
	mov.b32 	%r3, {%rs1, %rs2};
$L__BB0_4:
	add.u32 	%r5, %r1, %r3;
}
)";
    EXPECT_EQ(codegen::count_ptx(ptx, "phase0").loaded_bytes, 18);
}

} // namespace
} // namespace lz::test
