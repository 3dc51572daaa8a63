/// What an SM has under way of what kernels load, as `lz-opt --to=stats` counts it: 40 KiB at least, so that
/// memory is never waited for (Little's law with 4.8 TB/s, 132 SMs and 700 ns), or a reason.

#include "codegen/cuda/resources.h"
#include "ir/math/expand.h"
#include "ir/target.h"
#include "ir/text/text.h"
#include "passes/pipeline.h"
#include "tests/support/cuda/nvrtc.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace lz::test {
namespace {

using namespace ir;

constexpr int64_t kNeeded = 40 << 10;

/// A graph, and what it is called here.
struct Entry {
    std::string name, text;
    codegen::Addresses addresses = codegen::Addresses::All;
};

/// `$` stands for the dtype, `#` for the length of a row, `&` for the device.
Entry made(const std::string &name, std::string_view dtype, int64_t n, const std::string &parameters,
           const std::string &body) {
    std::string text = "lazuli 1\ngraph @g(" + parameters + ") {" + body + "}\n";
    for (size_t at = 0; (at = text.find_first_of("$#&", at)) != std::string::npos;)
        text.replace(at, 1,
                     text[at] == '$'   ? std::string(dtype)
                     : text[at] == '#' ? std::to_string(n)
                                       : "@cuda:0");
    return {n > 0 ? fmt::format("{} of {} {}", name, n, dtype) : fmt::format("{} {}", name, dtype), text};
}

Entry softmax(std::string_view dtype, int64_t n) {
    return made("softmax", dtype, n, "%x: $[8192,#] &", R"(
  %0 = max %x {axes=[1]} : $[8192] &
  %1 = reshape %0 : $[8192,1] &
  %2 = sub %x, %1 : $[8192,#] &
  %3 = exp %2 : $[8192,#] &
  %4 = sum %3 {axes=[1]} : $[8192] &
  %5 = reshape %4 : $[8192,1] &
  %6 = div %3, %5 : $[8192,#] &
  return %6
)");
}

/// Of f32: what nn::LayerNorm records.
Entry layer_norm(int64_t n) {
    return made("layer norm", "f32", n, "%x: $[8192,#] &, %w: $[#] &, %b: $[#] &", R"(
  %0 = sum %x {axes=[1]} : $[8192] &
  %1 = literal {value=#} : $[8192] &
  %2 = div %0, %1 : $[8192] &
  %3 = reshape %2 : $[8192,1] &
  %4 = sub %x, %3 : $[8192,#] &
  %5 = mul %4, %4 : $[8192,#] &
  %6 = sum %5 {axes=[1]} : $[8192] &
  %7 = div %6, %1 : $[8192] &
  %8 = rsqrt %7 : $[8192] &
  %9 = reshape %8 : $[8192,1] &
  %10 = mul %4, %9 : $[8192,#] &
  %11 = mul %10, %w : $[8192,#] &
  %12 = add %11, %b : $[8192,#] &
  return %12
)");
}

Entry row_sum(std::string_view dtype, int64_t n) {
    return made("row sum", dtype, n, "%x: $[8192,#] &",
                "\n  %0 = sum %x {axes=[1]} : $[8192] &\n  return %0\n");
}

/// An operation on each element of 64 Mi.
Entry each(std::string_view op, std::string_view dtype, int operands) {
    return made(
        std::string(op), dtype, 0,
        operands == 2 ? "%x: $[67108864] &, %y: $[67108864] &" : "%x: $[67108864] &",
        fmt::format("\n  %0 = {} %x{} : $[67108864] &\n  return %0\n", op, operands == 2 ? ", %y" : ""));
}

std::vector<Entry> all() {
    std::vector<Entry> all;
    for (const char *const t : {"u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"}) {
        all.push_back(each("add", t, 2));
        all.push_back(each("neg", t, 1));
        all.push_back(each("maximum", t, 2));
    }
    all.push_back(each("maximum", "bool", 2));
    all.push_back(each("exp", "bf16", 1));
    // Of what functions compute one after the other, registers decide, whatever the addresses.
    const auto function = [&](std::string_view name, int operands) {
        all.push_back(each(name, "f32", operands));
        all.back().addresses = codegen::Addresses::Aligned;
    };
#define LZ_MATH1(E, f, cost, reference) function(#f, 1);
#define LZ_MATH2(E, f, cost, reference) function(#f, 2);
#include "ir/math/math.def"
    function("sqrt", 1);
    function("pow", 2);
    function("div", 2);
    // Few and many threads share a row, in a block, several blocks and in none; 50257 are GPT-2's vocabulary,
    // whose every second row of f32 is not aligned.
    for (const char *const t : {"f32", "bf16"}) {
        for (const int64_t n : {4, 8, 12, 16, 24, 32, 40, 64, 128, 256, 1000, 1024, 8192, 50257, 100000})
            all.push_back(softmax(t, n));
        for (const int64_t n : {12, 32, 64, 128, 1024, 50257})
            all.push_back(row_sum(t, n));
        all.push_back(
            made("sum", t, 0, "%x: $[67108864] &", "\n  %0 = sum %x {axes=[0]} : $[] &\n  return %0\n"));
        all.push_back(made("column sum", t, 0, "%x: $[16384,4096] &",
                           "\n  %0 = sum %x {axes=[0]} : $[4096] &\n  return %0\n"));
        all.push_back(made("transpose and add", t, 0, "%x: $[8192,8192] &, %y: $[8192,8192] &", R"(
  %0 = permute %x {axes=[1,0]} : $[8192,8192] &
  %1 = add %0, %y : $[8192,8192] &
  return %1
)"));
    }
    for (const int64_t n : {64, 768, 1024, 8192, 50257})
        all.push_back(layer_norm(n));
    return all;
}

/// What has less under way, and why: by the beginning of `name | entry`.
struct Exception {
    std::string_view name, why;
};
constexpr std::string_view
    kAllThreads = "A row of at most 64 bytes is a packet of few threads: each of the "
                  "2048 that an SM has is there, and has one under way.",
    kLanes = "With 16 elements a thread has 16 lanes, and NVRTC 13.0 has those in local memory: "
             "a softmax has 71 registers then, and less under way than with eight.",
    kPartial = "It reads results of chunks, few beside what phase 0 reads.";
const std::vector<Exception> kExceptions = {
    {"softmax of 4 f32", kAllThreads},      {"softmax of 4 bf16", kAllThreads},
    {"softmax of 8 bf16", kAllThreads},     {"softmax of 16 bf16", kAllThreads},
    {"softmax of 24 bf16", kAllThreads},    {"softmax of 32 bf16", kAllThreads},
    {"row sum of 12 bf16", kAllThreads},    {"row sum of 32 bf16", kAllThreads},
    {"softmax of 40 bf16", kLanes},         {"softmax of 64 bf16", kLanes},
    {"row sum of 64 bf16", kLanes},         {"column sum f32 | phase1", kPartial},
    {"column sum bf16 | phase1", kPartial},
};

TEST(InFlight, IsWhatAnSmNeedsOrThereIsAReason) {
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    const codegen::Nvrtc nvrtc = codegen::load_nvrtc(nvrtc_library());
    Target target = cuda_test_target(1);
    for (DeviceInfo &device : target.devices)
        if (device.runs_cuda())
            device.cuda().cluster_blocks = 8;
    std::vector<bool> used(kExceptions.size());
    for (const Entry &entry : all()) {
        const Program program = passes::compile(parse_graph(entry.text), target).program;
        for (size_t k = 0; k < program.kernels.size(); ++k) {
            Kernel kernel = program.kernels[k];
            expand_math(kernel);
            for (const codegen::CudaResources &r :
                 codegen::cuda_resources(nvrtc, 90, kernel, CudaLimits{}, nullptr, entry.addresses)) {
                const std::string name = fmt::format("{} | {}", entry.name, r.entry);
                EXPECT_EQ(r.spilled_bytes, 0) << name;
                if (r.bytes_in_flight() >= kNeeded)
                    continue;
                const auto why = std::ranges::find_if(
                    kExceptions, [&](const auto &e) { return name.starts_with(e.name); });
                if (why == kExceptions.end())
                    ADD_FAILURE() << name << ": " << r.bytes_in_flight() << " bytes in flight, "
                                  << r.loaded_bytes << " of a thread, " << r.resident_threads
                                  << " threads on an SM, " << r.registers << " registers";
                else
                    used[static_cast<size_t>(why - kExceptions.begin())] = true;
            }
        }
    }
    for (size_t e = 0; e < used.size(); ++e)
        EXPECT_TRUE(used[e]) << kExceptions[e].name << " needs no exception.";
}

} // namespace
} // namespace lz::test
