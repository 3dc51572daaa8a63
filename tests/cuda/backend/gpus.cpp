#include "backend/gpus.h"

#include "codegen/cuda/compiler.h"

#include <cstring>
#include <map>
#include <mutex>

namespace lz::test {

const runtime::cuda::Driver &driver_table() {
    static const auto *const driver = [] {
        driver_library(); // with the settings of tests
        runtime::cuda::Search search;
        search.driver = LAZULI_FAKE_CUDA;
        return new runtime::cuda::Driver(runtime::cuda::open_driver(search));
    }();
    return *driver;
}

void CudaGpus::make() {
    std::string none;
    gpus_ = runtime::cuda::make_cuda_gpus(driver_table(), {.load_source = load_source}, none);
    ASSERT_EQ(gpus_.size(), 2u) << none;
}

const ir::CompiledKernel &compiled_source(const runtime::KernelSource &source) {
    static const auto compiler =
        codegen::make_cuda_compiler(codegen::load_nvrtc(nvrtc_library()), 90, {}, codegen::CudaCode::Ptx);
    static std::mutex mutex;
    static std::map<std::string, ir::CompiledKernel> known;
    const std::lock_guard lock(mutex);
    const auto [at, added] = known.try_emplace(source.text);
    if (added)
        at->second = compiler->compile_source(source);
    return at->second;
}

std::shared_ptr<const runtime::Module> load_source(const runtime::KernelSource &source,
                                                   runtime::Backend &backend) {
    return backend.load(compiled_source(source));
}

void CudaGpus::TearDown() {
    for (const auto &[i, memory] : memory_)
        if (i < gpus_.size())
            gpus_[i]->free(memory, 0);
    memory_.clear();
    gpus_.clear();
    uint64_t handles = 0, bytes = 0;
    FAKE(lazuli_fake_cuda_live)(&handles, &bytes);
    EXPECT_EQ(handles, 0u);
    EXPECT_EQ(bytes, 0u);
}

void CudaGpus::give_back(const void *memory) {
    std::erase_if(memory_, [&](const auto &mine) {
        if (mine.second == memory)
            gpus_[mine.first]->free(mine.second, 0);
        return mine.second == memory;
    });
}

std::shared_ptr<runtime::Module> CudaGpus::load(const std::string &source, ir::CompiledPhase phase,
                                                size_t i) {
    ir::CompiledKernel kernel;
    kernel.name = "k";
    kernel.format = ir::CodeFormat::Ptx;
    const std::string ptx = compile_to_ptx(source);
    kernel.object.resize(ptx.size());
    std::memcpy(kernel.object.data(), ptx.data(), ptx.size());
    kernel.phases.push_back(std::move(phase));
    return gpu(i).load(kernel);
}

} // namespace lz::test
