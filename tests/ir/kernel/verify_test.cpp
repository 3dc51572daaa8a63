/// What the verifier of Kernel IR says about instructions that stand where they must not.

#include "ir/diagnostic.h"
#include "ir/kernel/key.h"
#include "ir/text/text.h"
#include "tests/support/samples/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lz::ir {
namespace {

using testing::HasSubstr;

/// Sum over i1 of in[i0, i1] combined with what the text makes before the loop; `inside` makes %8 of %7.
std::string row_sum(const std::string &before, const std::string &inside, const std::string &after = "") {
    return R"(lazuli 1
kernel @k {
  args a0: extent, a1: extent, a2: stride
  buffers b0: in i32, b1: in i32, b2: out i32, b3: out i32, b4: in i64
  axes i0: a0, i1: a1
  phase [i0] scalar {
)" + before +
           R"(    loop l0 i1 lanes {
      %7 = load b0[i0 * a2 + i1] : i32
)" + inside +
           R"(      reduce add %8 : i32
    }
    %9 = loop_result l0, 0 : i32
    store %9, b2[i0] : i32
)" + after +
           "  }\n}\n";
}

/// Instructions %0 to %6 that do nothing, but for those that the text names.
std::string filled(const std::string &text) {
    std::string all;
    for (int i = 0; i < 7; ++i)
        if (const std::string name = "%" + std::to_string(i) + " ="; text.find(name) == std::string::npos)
            all += "    " + name + " const 1 : i32\n";
    return all + text;
}

void expect_rejected(const std::string &text, const std::string &why) {
    try {
        parse_kernel(text);
        ADD_FAILURE() << "accepted:\n" << text;
    } catch (const Failure &failure) {
        EXPECT_THAT(failure.what(), HasSubstr(why)) << text;
    }
}

TEST(KernelVerify, ALoadDoesNotStandBeforeTheLoopThatReadsIt) {
    const std::string load = filled("    %0 = load b1[i0] : i32\n");
    expect_rejected(row_sum(load, "      %8 = mul %7, %0 : i32\n"), "%0 = load stands outside of the loops");
    // Neither behind arithmetic,
    expect_rejected(row_sum(load + "", "      %8 = mul %7, %0 : i32\n"), "reads what may not be there");
    // nor by way of another instruction that only the loop needs.
    std::string chain = filled("    %0 = load b1[i0] : i32\n    %1 = neg %0 : i32\n");
    expect_rejected(row_sum(chain, "      %8 = mul %7, %1 : i32\n"), "%0 = load stands outside of the loops");
}

TEST(KernelVerify, ALoadMayStandWhereItsRegionNeedsIt) {
    const std::string load = filled("    %0 = load b1[i0] : i32\n");
    EXPECT_NO_THROW(
        parse_kernel(row_sum(load, "      %8 = mul %7, %0 : i32\n", "    store %0, b3[i0] : i32\n")));
    EXPECT_NO_THROW(
        parse_kernel(row_sum(filled(""), "      %11 = load b1[i0] : i32\n      %8 = mul %7, %11 : i32\n")));
    // A bound of the loop is needed by the region around it.
    std::string bound = row_sum(filled("    %0 = load b4[i0] : i64\n"), "      %8 = mul %7, %1 : i32\n");
    bound.replace(bound.find("lanes {"), 7, "lanes to %0 {");
    EXPECT_NO_THROW(parse_kernel(bound));
}

TEST(KernelVerify, ChecksAndIntegerDivisionsDoNotEither) {
    const std::string check = filled("    %0 = const 3 : i32\n    %1 = check_nonzero %0 : i32\n");
    expect_rejected(row_sum(check, "      %8 = mul %7, %1 : i32\n"), "faults for nobody");
    const std::string quotient =
        filled("    %0 = const 3 : i32\n    %1 = neg %0 : i32\n    %2 = div %0, %1 : i32\n");
    expect_rejected(row_sum(quotient, "      %8 = mul %7, %2 : i32\n"), "may divide by zero");
    const std::string known = filled("    %0 = const 3 : i32\n    %1 = div %0, %0 : i32\n");
    EXPECT_NO_THROW(parse_kernel(row_sum(known, "      %8 = mul %7, %1 : i32\n")));
    const std::string zero = filled("    %0 = const 0 : i32\n    %1 = div %0, %0 : i32\n");
    expect_rejected(row_sum(zero, "      %8 = mul %7, %1 : i32\n"), "may divide by zero");
}

TEST(KernelVerify, TheGuardOfACheckIsABoolThatIsThere) {
    const auto guarded = [](const std::string &guard) {
        return row_sum(filled("    %0 = const true : bool\n"),
                       "      %11 = check_nonzero %7 if " + guard + " : i32\n      %8 = div %7, %11 : i32\n");
    };
    EXPECT_NO_THROW(parse_kernel(guarded("%0")));
    expect_rejected(guarded("%1"), "the guard of a check");
    expect_rejected(guarded("%11"), "");
    const std::string text = guarded("%0");
    const Kernel kernel = parse_kernel(text);
    EXPECT_EQ(print(parse_kernel(print(kernel))), print(kernel));
    EXPECT_THAT(print(kernel), HasSubstr("check_nonzero %7 if %0 : i32"));
    std::string plain = text;
    plain.erase(plain.find(" if %0"), 6);
    EXPECT_NE(cache_key(parse_kernel(plain)), cache_key(parse_kernel(text)));
}

using Change = std::pair<std::string_view, std::string_view>;

/// Sums of columns of floats, with parts of the text replaced.
void expect_rejected_columns(std::initializer_list<Change> changes, const std::string &why) {
    std::string text = test::columns_text();
    parse_kernel(text);
    for (const auto &[part, by] : changes)
        text.replace(text.find(part), part.size(), by);
    expect_rejected(text, why);
}

TEST(KernelVerify, AStepIsAPartOfTheLanes) {
    const Change not_whole = {" whole-rows 1 in b2", ""};
    expect_rejected_columns({{"step 2", "step 3"}}, "loop l0 has step 3");
    expect_rejected_columns({{"step 2", "step 128"}}, "l0 has a step of more than its lanes");
    expect_rejected_columns({not_whole, {"lanes from", "lanes chunk 1024 from"}},
                            "l0 has a step, and not lanes and one chunk");
    expect_rejected_columns({not_whole, {"lanes from", "sequential from"}},
                            "l0 has a step, and not lanes and one chunk");
    expect_rejected_columns({not_whole, {" across", ""}},
                            "loop l0 has a step, and its rows do not lie side by side");
}

TEST(KernelVerify, WholeRowsAreReadByOneLoopIntoTheirScratch) {
    const std::string no_chunk = "l0 reads whole rows and is no chunk of sums";
    expect_rejected_columns({{"whole-rows 1 in b2", "whole-rows 1 in b1"}},
                            "the scratch b1 of whole rows is not a worker buffer");
    expect_rejected_columns({{"whole-rows 1", "whole-rows 4"}}, "l0 has 4 rows of 2 behind each other");
    expect_rejected_columns({{"[i0, i3, i2]", "[i0, i2]"}}, "behind axes of parts and chunks");
    expect_rejected_columns({{"b0[i1 * a3 + i2]", "b0[i1 * a3 + i2 + i0 * a3]"}},
                            "moves along i0, the axis of parts");
    expect_rejected_columns({{"from %0 to %1", "from %1 to %0"}}, "moves along i0, the axis of parts");
    expect_rejected_columns({{"block a4 ", ""}}, "whole rows do not lie side by side in blocks");
    expect_rejected_columns({{"lanes from", "sequential from"}, {" step 2", ""}}, no_chunk);
    expect_rejected_columns({{"lanes from", "lanes chunk 1024 from"}, {" step 2", ""}}, no_chunk);
    expect_rejected_columns({{"reduce add", "reduce max"}}, no_chunk);
    expect_rejected_columns({{"from %0 to", "to"}}, no_chunk);
    expect_rejected_columns({{"loop l0 i1 lanes from %0 to %1 step 2 {", ""},
                             {"i1 * a3 + i2", "i2"},
                             {"reduce add %2 : f32\n    }", ""},
                             {"%3 = loop_result l0, 0 : f32", "%3 = neg %2 : f32"}},
                            "whole rows are not read by one loop");
}

} // namespace
} // namespace lz::ir
