// What PyTorch would have aliased and Lazuli does not is said at the line, once (S24).
#include "support.h"

#include <string>

namespace lz::test {
namespace {

constexpr const char *kSays = "lazuli warning: this changes the result of ";

size_t count(const std::string &text, const std::string &part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
    return found;
}

TEST(Child, DISABLED_ChangesViews) {
    Tensor x = zeros({2, 3});
    for (int i = 0; i < 3; ++i) {
        Tensor f = x.view({-1});
        f.fill_(7);
    }
    for (Tensor &t : x.unbind(0))
        t += 1;
    Tensor row = x[0];
    row += 1;
    Tensor column = x.t().select(0, 1);
    column.zero_();
    x.eval();
    Tensor computed = x.transpose(0, 1).eval();
    computed *= 2;
    EXPECT_EQ(floats(x.flatten()), std::vector<float>(6, 0));
}

TEST(Child, DISABLED_ChangesWhatPyTorchChangesAlike) {
    Tensor x = zeros({2, 3});
    Tensor copy = x.clone(), other = x.flip({0}), doubled = x * 2;
    copy += 1;
    other += 1;
    doubled += 1;
    x.at({0}) += 1;
    x[1] = 5;
    x.at({Slice(0, 1)}).fill_(3);
    x.at({x > 2}) *= 2;
    Tensor alone = zeros({4}).view({2, 2}); // nobody has what it was made of
    alone += 1;
    Tensor read = x.view({-1});
    EXPECT_EQ(read.numel(), 6);
    x += 1;
    lz::sync();
}

TEST(ViewWarnings, a_view_that_is_changed_in_place_is_said_at_the_line_once) {
    const std::string said = run_child("LAZULI_WARN=views", "ChangesViews");
    EXPECT_EQ(count(said, kSays), 5U) << said;
    EXPECT_EQ(count(said, "the result of view (view_warnings_test.cpp:21)"), 1U) << said;
    EXPECT_EQ(count(said, "at view_warnings_test.cpp:22."), 1U) << said;
    EXPECT_EQ(count(said, "the result of unbind"), 1U) << said;
    EXPECT_EQ(count(said, "at view_warnings_test.cpp:25."), 1U) << said;
    EXPECT_EQ(count(said, "the result of at"), 1U) << said;
    EXPECT_EQ(count(said, "the result of select"), 1U) << said;
    EXPECT_EQ(count(said, "the result of transpose"), 1U) << said;
}

TEST(ViewWarnings, what_is_the_same_in_pytorch_is_not_said) {
    EXPECT_EQ(count(run_child("LAZULI_WARN=views", "ChangesWhatPyTorchChangesAlike"), kSays), 0U);
}

TEST(ViewWarnings, it_can_be_switched_off) {
    EXPECT_EQ(count(run_child("LAZULI_WARN=none", "ChangesViews"), kSays), 0U);
    const std::string said = run_child("LAZULI_WARN=everything", "ChangesViews");
    EXPECT_EQ(count(said, "views or none"), 1U) << said;
}

} // namespace
} // namespace lz::test
