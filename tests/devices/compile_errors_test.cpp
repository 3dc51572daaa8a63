// What the user is told when a kernel cannot be loaded.
#include "frontend/engine/devices.h"
#include "virtual_gpus.h"

#include <lazuli/lazuli.h>

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

namespace {

using namespace lz;

std::atomic<bool> damaged = false; ///< what is compiled cannot be loaded

const bool wrapped = [] {
    engine::Devices::wrap_loader() = [](runtime::ModuleLoader loader) -> runtime::ModuleLoader {
        return [loader](const ir::CompiledKernel &kernel) {
            if (!damaged)
                return loader(kernel);
            ir::CompiledKernel part = kernel;
            part.object.resize(10);
            return loader(part);
        };
    };
    return true;
}();

std::string place(uint32_t line) {
    return "compile_errors_test.cpp:" + std::to_string(line);
}

template <class F>
std::string message_of(F &&f, uint32_t line) {
    try {
        f();
    } catch (const CompileError &error) {
        EXPECT_EQ(error.line(), line);
        EXPECT_TRUE(std::string(error.what()).ends_with(", at " + place(line))) << error.what();
        return error.what();
    }
    ADD_FAILURE() << "a kernel that cannot be loaded ran";
    return {};
}

TEST(CompileErrors, TheyNameTheUsersOperationsAndLinesAndNoKernelOfOurs) {
    LZ_NEEDS_GPUS();
    for (const char *device : {"cpu", "cuda:0"}) {
        engine::Engine::get().clear_caches();
        const Tensor x = arange(100, {.dtype = f32, .device = device});
        const Tensor y = x * 2;
        eval({x, y});
        (void)(x + 1).to_vector<float>(); // this kernel is there from now on
        const uint32_t line = __LINE__ + 1;
        Tensor a = erf(x * 0.01);
        Tensor b = softmax(a, 0);
        const Tensor independent = y + 2;
        damaged = true;
        const std::string message = message_of([&] { (void)b.to_vector<float>(); }, line + 1);
        damaged = false;
        const std::string expected = "softmax: the kernel of mul (" + place(line) + "), erf (" + place(line) +
                                     ") and softmax (" + place(line + 1) +
                                     ") could not be made: The code of kernel `mul, erf and softmax` could "
                                     "not be loaded: ";
        EXPECT_TRUE(message.starts_with(expected)) << message << "\n" << expected;
        EXPECT_EQ(message_of([&] { (void)(b + 1).to_vector<float>(); }, line + 1), message);
        EXPECT_EQ(independent.to_vector<float>()[99], 200);
        EXPECT_NEAR(softmax(erf(x * 0.01), 0).sum().item<double>(), 1, 1e-5) << "it can be had again";
    }
}

} // namespace
