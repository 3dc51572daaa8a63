#include "runtime/cuda/module.h"

#include "runtime/streams/threads.h"

#include <fmt/format.h>

#include <cstring>

namespace lz::runtime::cuda {

namespace {

/// Of shared memory, what a kernel may have without saying so.
constexpr uint32_t kSharedWithoutOptIn = 48 << 10;
constexpr size_t kLogBytes = 4096;

CUkernel find_kernel(const Driver &driver, CUlibrary library, const std::string &symbol,
                     const std::string &kernel) {
    CUkernel found = nullptr;
    if (const CUresult result = driver.cuLibraryGetKernel(&found, library, symbol.c_str());
        result != CUDA_SUCCESS)
        throw ir::Failure(ir::ErrorKind::Compile, fmt::format("The code of kernel {} has no entry {}: {}.",
                                                              kernel, symbol, describe(driver, result)));
    return found;
}

} // namespace

CUfunction Entry::function(const CudaDevice &device) const {
    std::atomic<CUfunction> &known = on[static_cast<size_t>(device.index())];
    if (CUfunction found = known.load(std::memory_order_acquire)) [[likely]]
        return found;
    CUfunction found = nullptr;
    device.check(device.driver().cuKernelGetFunction(&found, kernel), "finding a kernel");
    if (phase.shared_bytes > kSharedWithoutOptIn)
        device.check(device.driver().cuFuncSetAttribute(found,
                                                        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                        static_cast<int>(phase.shared_bytes)),
                     "giving a kernel its shared memory");
    known.store(found, std::memory_order_release); // another thread found the same
    return found;
}

CudaModule::CudaModule(const CudaDevice &device, const ir::CompiledKernel &kernel)
    : driver_(device.driver()), name_(kernel.name) {
    // The driver reads PTX up to its last byte, which is 0.
    std::vector<std::byte> code = kernel.object;
    code.push_back(std::byte{0});
    std::string log(kLogBytes, '\0');
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log.data(),
                      reinterpret_cast<void *>(kLogBytes - 1)}; // NOLINT: a number, as cuda.h wants
    const bool is_ptx = kernel.format == ir::CodeFormat::Ptx;
    const CUresult result = driver_.cuLibraryLoadData(&library_, code.data(), options, values,
                                                      is_ptx ? 2u : 0u, nullptr, nullptr, 0);
    if (result != CUDA_SUCCESS) {
        log.resize(std::strlen(log.c_str()));
        if (is_sticky(result))
            device.check(result, "loading code");
        throw ir::Failure(ir::ErrorKind::Compile,
                          fmt::format("{} cannot load the code of kernel {}: {}{}{}", device.name(), name_,
                                      describe(driver_, result), log.empty() ? "." : "; ", log));
    }
    try {
        for (const ir::CompiledPhase &phase : kernel.phases) {
            Entry &entry = entries_[phase.symbol];
            entry.phase = phase;
            entry.kernel = find_kernel(driver_, library_, phase.symbol, name_);
        }
    } catch (...) {
        driver_.cuLibraryUnload(library_);
        throw;
    }
}

CudaModule::~CudaModule() {
    if (!in_forked_child())
        driver_.cuLibraryUnload(library_);
}

void *CudaModule::entry(const std::string &symbol) const {
    const auto found = entries_.find(symbol);
    LZ_CHECK(found != entries_.end(), fmt::format("the code of kernel {} has no entry {}", name_, symbol));
    return &found->second;
}

} // namespace lz::runtime::cuda
