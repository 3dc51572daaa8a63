#include "device.h"

#include "codegen/cuda/compiler.h"
#include "runtime/cuda/gpus.h"

#include <gtest/gtest.h>

#include <iostream>

namespace lz::test {
namespace {

struct Opened {
    std::string why;
    std::unique_ptr<Gpu> gpu;

    Opened() {
        auto found = runtime::cuda::open_gpus(runtime::cuda::Search::from_environment(),
                                              {}); // no kernels of the library are wanted
        if (found.backends.empty()) {
            why = found.availability;
            return;
        }
        gpu = std::make_unique<Gpu>();
        gpu->backend = std::move(found.backends[0]);
        const runtime::DeviceProperties properties = gpu->backend->properties();
        gpu->limits = *properties.cuda;
        gpu->compiler = codegen::make_cuda_compiler(codegen::load_nvrtc(found.nvrtc.handle), gpu->limits.sm);
        std::cerr << "The device is " << properties.name << ". " << found.availability << "\n";
    }
};

Opened &opened() {
    static auto *const once = new Opened; // the driver is gone before static objects are
    return *once;
}

} // namespace

Gpu *gpu() {
    return opened().gpu.get();
}
const std::string &why_no_gpu() {
    return opened().why;
}

} // namespace lz::test
