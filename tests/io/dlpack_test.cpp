#include "files.h"

#include <lazuli/io/dlpack.h>

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>

namespace {

using namespace lz::test;
using lz::Tensor;

/// Another library's tensor of 12 floats 0, 1, ...; counts calls of its deleter.
struct Foreign {
    std::vector<float> elements;
    std::vector<int64_t> shape{3, 4}, strides;
    DLManagedTensor managed{};
    int deleted = 0;

    Foreign() {
        for (int i = 0; i < 16; ++i)
            elements.push_back(static_cast<float>(i));
        managed.dl_tensor.data = elements.data();
        managed.dl_tensor.device = {kDLCPU, 0};
        managed.dl_tensor.ndim = 2;
        managed.dl_tensor.dtype = {kDLFloat, 32, 1};
        managed.dl_tensor.shape = shape.data();
        managed.manager_ctx = this;
        managed.deleter = [](DLManagedTensor *self) { ++static_cast<Foreign *>(self->manager_ctx)->deleted; };
    }
    void set_strides(std::vector<int64_t> values) {
        strides = std::move(values);
        managed.dl_tensor.strides = strides.data();
    }
};

TEST(Dlpack, TakesMemoryWithoutACopy) {
    Foreign foreign;
    {
        const Tensor t = lz::from_dlpack(&foreign.managed);
        EXPECT_EQ(t.data<float>(), foreign.elements.data());
        EXPECT_EQ(t.sizes(), (lz::Sizes{3, 4}));
        const Tensor view = t.view({12});
        EXPECT_EQ((view * 2).to_vector<float>()[11], 22);
        EXPECT_EQ(foreign.deleted, 0);
    }
    lz::sync();
    EXPECT_EQ(foreign.deleted, 1);
}

TEST(Dlpack, CopiesWhatIsNotRowMajor) {
    Foreign foreign;
    foreign.set_strides({1, 3}); // transposed
    foreign.managed.dl_tensor.byte_offset = 4;
    const Tensor t = lz::from_dlpack(&foreign.managed);
    EXPECT_EQ(foreign.deleted, 1);
    EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, 4, 7, 10, 2, 5, 8, 11, 3, 6, 9, 12}));
    Foreign backwards;
    backwards.set_strides({-4, 1});
    backwards.managed.dl_tensor.byte_offset = 8 * sizeof(float);
    EXPECT_EQ(lz::from_dlpack(&backwards.managed).to_vector<float>()[0], 8);
}

TEST(Dlpack, WhatCannotBeTakenStaysTheCallers) {
    const auto refused = [](auto change, auto &&thrown) {
        Foreign foreign;
        change(foreign.managed.dl_tensor);
        thrown(foreign);
        EXPECT_EQ(foreign.deleted, 0);
    };
    const auto throws_device = [](Foreign &f) {
        EXPECT_THROW((void)lz::from_dlpack(&f.managed), lz::DeviceError);
    };
    const auto throws_dtype = [](Foreign &f) {
        EXPECT_THROW((void)lz::from_dlpack(&f.managed), lz::DTypeError);
    };
    const auto throws_shape = [](Foreign &f) {
        EXPECT_THROW((void)lz::from_dlpack(&f.managed), lz::ShapeError);
    };
    refused([](DLTensor &t) { t.device = {kDLCUDA, 0}; }, throws_device);
    refused([](DLTensor &t) { t.dtype = {kDLComplex, 64, 1}; }, throws_dtype);
    refused([](DLTensor &t) { t.dtype = {kDLUInt, 16, 1}; }, throws_dtype);
    refused([](DLTensor &t) { t.dtype = {kDLFloat, 32, 4}; }, throws_dtype);
    refused([](DLTensor &t) { t.ndim = 9; }, throws_shape);
    refused([](DLTensor &t) { t.shape[0] = -1; }, throws_shape);
    EXPECT_THROW((void)lz::from_dlpack(nullptr), lz::StateError);
}

TEST(Dlpack, GivesTensorsOfAllDtypes) {
    for (const auto &[name, dtype] : dtypes()) {
        Tensor t = lz::arange(6).view({2, 3}).remainder(2).to(dtype);
        DLManagedTensor *const out = lz::to_dlpack(t);
        EXPECT_EQ(out->dl_tensor.data, t.data<void>()) << name;
        EXPECT_EQ(out->dl_tensor.ndim, 2);
        EXPECT_EQ(out->dl_tensor.shape[1], 3);
        EXPECT_EQ(out->dl_tensor.strides[0], 3);
        EXPECT_EQ(out->dl_tensor.dtype.bits, lz::size_of(dtype) * 8);
        const Tensor before = t.clone();
        if (is_floating_point(dtype))
            t.add_(1); // another value: what was given away stays
        t = Tensor();
        const Tensor back = lz::from_dlpack(out);
        EXPECT_EQ(back.dtype(), dtype);
        EXPECT_TRUE(lz::equal(back, before)) << name;
    }
    DLManagedTensor *const none = lz::to_dlpack(lz::zeros({0, 3}));
    EXPECT_EQ(lz::from_dlpack(none).sizes(), (lz::Sizes{0, 3}));
    DLManagedTensor *const scalar = lz::to_dlpack(lz::tensor(2.5));
    EXPECT_EQ(scalar->dl_tensor.ndim, 0);
    EXPECT_EQ(lz::from_dlpack(scalar).item<float>(), 2.5f);
}

TEST(Dlpack, MemoryOfAVirtualGpuIsNobodyElses) {
    if (!lz::cuda::is_available())
        GTEST_SKIP() << "there are no virtual GPUs";
    EXPECT_THROW((void)lz::to_dlpack(lz::ones({2}, {.device = "cuda:0"})), lz::DeviceError);
}

} // namespace
