// A null pointer in the place of a name or of elements is a typed error at the user's line, not a crash.
#include "support.h"

#include <string>

namespace lz::test {
namespace {

TEST(NullPointers, a_name_that_is_null_is_an_error) {
    const char *const null = nullptr;
    EXPECT_THROW(Device{null}, DeviceError);
    EXPECT_THROW(call(null, {zeros({2})}), StateError);
    const std::vector<Tensor> one = {zeros({2})};
    EXPECT_THROW(call(null, one), StateError);
    EXPECT_THROW(einsum(null, {zeros({2})}), Error);
    EXPECT_THROW(einsum(null, one), Error);
    EXPECT_THROW(zeros({2}, {.device = null}), DeviceError);
    EXPECT_THROW(zeros({2}).to(null), DeviceError);
}

TEST(NullPointers, elements_that_are_null_are_an_error_unless_there_are_none) {
    float *const null = nullptr;
    EXPECT_THROW(from_blob(null, 4), StateError);
    EXPECT_THROW(from_blob(static_cast<const float *>(nullptr), {2, 2}), StateError);
    EXPECT_THROW(from_blob(static_cast<const void *>(nullptr), 4, {.dtype = i32}), StateError);
    int deleted = 0;
    const auto count = [&](void *) { ++deleted; };
    EXPECT_THROW(from_blob(null, 4, count), StateError);
    EXPECT_EQ(deleted, 0) << "it was never taken over";
    EXPECT_EQ(from_blob(null, 0).numel(), 0);
    EXPECT_EQ((from_blob(null, {0, 3}) + 1).to_vector<float>().size(), 0U);
    EXPECT_EQ(from_blob(null, {3, 0}, count).numel(), 0);
    EXPECT_EQ(deleted, 1);
    EXPECT_EQ(tensor(std::vector<float>()).to_vector<float>().size(), 0U);
}

TEST(NullPointers, functions_that_are_null_are_an_error) {
    EXPECT_THROW(register_call("null.types", nullptr, nullptr), StateError);
    EXPECT_THROW(Stream(kGpu0).add_callback(nullptr), StateError);
    EXPECT_STREQ(Error("It failed", Location(nullptr, 3)).what(), "It failed");
}

} // namespace
} // namespace lz::test
