/// Machine code of a corpus of kernels for the architectures that users have: nothing spills, with any NVRTC.
/// With the one that wrote the golden file, registers and shared memory are what it says, give or take.
///
///     LAZULI_WRITE_RESOURCES=1 build/release/bin/test_cuda --gtest_filter='Architectures/Cubins.*'
///
/// writes that file anew, tests/cuda/resources.txt: look at what changed, and why. LAZULI_ALL_CUBINS=1
/// compiles every kernel for every architecture.

#include "codegen/cuda/resources.h"
#include "corpus.h"
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
    // sm_90 takes all kernels, each other architecture every third, and of these what is run where addresses
    // are aligned, which takes more registers: NVRTC needs half a minute for all.
    const bool takes_all =
        sm == 90 || std::getenv("LAZULI_WRITE_RESOURCES") || std::getenv("LAZULI_ALL_CUBINS");
    const size_t turn = sm == 80 ? 0 : sm == 100 ? 1 : 2;
    std::map<std::string, Need> found;
    size_t kernels = 0;
    for (const CorpusEntry &entry : cuda_corpus()) {
        target.modes.reproducible = entry.reproducible;
        const Program program = passes::compile(parse_graph(entry.text), target).program;
        for (size_t k = 0; k < program.kernels.size(); ++k) {
            if (kernels++ % 3 != turn && !takes_all)
                continue;
            Kernel kernel = program.kernels[k];
            expand_math(kernel);
            std::string warnings; // of what is declared and not used, among others
            const auto resources =
                codegen::cuda_resources(nvrtc, sm, kernel, CudaLimits{}, &warnings,
                                        takes_all ? codegen::Addresses::All : codegen::Addresses::Aligned);
            EXPECT_EQ(warnings, "") << entry.name;
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
ptxas info    : Compiling entry function 'phase0_unaligned' for 'sm_100'
ptxas info    : Function properties for phase0_unaligned
ptxas         .     64 bytes stack frame, 60 bytes spill stores, 68 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 64 bytes cumulative stack size, 4352 bytes smem
ptxas info    : Compiling entry function 'phase0' for 'sm_100'
ptxas info    : Function properties for phase0
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 37 registers, used 1 barriers
)");
    ASSERT_EQ(found.size(), 2U);
    const codegen::Assembled &spills = found.at("phase0_unaligned"), &plain = found.at("phase0");
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

/// Of the two ways to a packet, whole or element by element, a thread takes one: the loads of one only are
/// under way together. Who moves a result waits for it.
TEST(CudaResources, LoadsOfOnePathAreUnderWayTogether) {
    constexpr std::string_view ptx = R"(
.visible .entry phase0(
	.param .u64 phase0_param_0
)
{
	@%p1 bra 	$L__BB0_1;
	ld.global.v2.u32 	{%r1, %r2}, [%rd1];
	bra.uni 	$L__BB0_2;
$L__BB0_1:
	ld.global.u16 	%rs1, [%rd1];
	mov.b32 	%r1, {%rs1, %rs2};
	cvt.u32.u16 	%r2, %rs2;
$L__BB0_2:
	@%p2 bra 	$L__BB0_3;
	ld.global.v2.u32 	{%r3, %r4}, [%rd1+128];
	bra.uni 	$L__BB0_4;
$L__BB0_3:
	ld.global.u16 	%rs1, [%rd1+128];
	mov.b32 	%r3, {%rs1, %rs2};
$L__BB0_4:
	add.u32 	%r5, %r1, %r3;
	ret;
}
.visible .entry moves(
	.param .u64 moves_param_0
)
{
	bra.uni 	$L__BB1_2;
$L__BB1_1:
	ld.global.v2.u32 	{%r3, %r4}, [%rd1+128];
	add.u32 	%r5, %r9, %r3;
	ret;
$L__BB1_2:
	ld.global.v2.u32 	{%r1, %r2}, [%rd1];
	mov.u32 	%r9, %r1;
	bra.uni 	$L__BB1_1;
}
)";
    EXPECT_EQ(codegen::count_ptx(ptx, "phase0").loaded_bytes, 16);
    EXPECT_EQ(codegen::count_ptx(ptx, "moves").loaded_bytes, 8);
}

} // namespace
} // namespace lz::test
