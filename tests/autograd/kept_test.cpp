// What `explain` says that operations keep for backward.
#include <lazuli/lazuli.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace {

using namespace lz;
using testing::HasSubstr;
using testing::Not;

std::string line_of(int line) {
    return " at kept_test.cpp:" + std::to_string(line);
}

TEST(Kept, IsToldByTheLinesThatKeepIt) {
    const Tensor x = randn({64, 32});
    Tensor w = randn({48, 32}).requires_grad_(), v = randn({16, 48}).requires_grad_();
    eval({x, w, v});
    const int line = __LINE__ + 1;
    const Tensor hidden = linear(x, w); // x has no history, w is a leaf
    const Tensor active = gelu(hidden);
    const Tensor out = linear(active, v);
    Tensor loss = mse_loss(out, zeros({64, 16}));
    for (const char *const when : {"pending", "computed"}) {
        const std::string text = explain(loss);
        EXPECT_THAT(text, HasSubstr("Kept for backward, beside leaves and what has no history: 28.0 KiB.\n"))
            << when;
        EXPECT_THAT(text, HasSubstr("12.0 KiB are kept by gelu" + line_of(line + 1) + ".\n")) << text;
        EXPECT_THAT(text, HasSubstr("12.0 KiB are kept by linear" + line_of(line + 2) + ".\n")) << text;
        EXPECT_THAT(text, HasSubstr("4096 bytes are kept by mse_loss" + line_of(line + 3) + ".\n")) << text;
        EXPECT_THAT(text, Not(HasSubstr("kept by linear" + line_of(line)))) << text;
        loss.eval();
    }
    loss.backward();
    EXPECT_THAT(explain(loss), Not(HasSubstr("Kept")));
    EXPECT_THAT(explain(x * 2), Not(HasSubstr("Kept")));
}

/// The dropped mask is drawn again, and a value that two operations keep is there once.
TEST(Kept, IsCountedOnce) {
    Tensor x = randn({1024}).requires_grad_();
    const Tensor y = exp(x);
    EXPECT_THAT(explain(y), HasSubstr(": 4096 bytes.\n"));
    EXPECT_THAT(explain(y * y), HasSubstr(": 4096 bytes.\n"));
    EXPECT_THAT(explain(dropout(x, 0.5)), Not(HasSubstr("Kept")));
}

} // namespace
