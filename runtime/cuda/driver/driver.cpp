#include "runtime/cuda/driver/driver.h"

#include <fmt/format.h>

#include <string_view>

namespace lz::runtime::cuda {

namespace {

/// The function of this name; drivers from before a name got its suffix have it without, in the same form.
void *find(const Library &library, std::string_view name) {
    if (void *const found = library.find(std::string(name).c_str()))
        return found;
    if (name == "cuEventElapsedTime_v2")
        return library.find("cuEventElapsedTime");
    return nullptr;
}

} // namespace

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

Driver::Driver(const Library &library) : version(library.version) {
#define FUNCTION(name)                                                                                       \
    this->name = reinterpret_cast<decltype(this->name)>(find(library, TEXT(name)));                          \
    if (!this->name)                                                                                         \
        throw ir::Failure(                                                                                   \
            ir::ErrorKind::Device,                                                                           \
            fmt::format("The CUDA driver at {} is damaged: it lacks {}.", library.path, TEXT(name)));
#include "runtime/cuda/driver/functions.def"
#undef FUNCTION
}

std::string describe(const Driver &driver, CUresult error) {
    const char *name = nullptr, *text = nullptr;
    if (driver.cuGetErrorName(error, &name) != CUDA_SUCCESS || !name)
        return fmt::format("error {}", static_cast<int>(error));
    if (driver.cuGetErrorString(error, &text) != CUDA_SUCCESS || !text)
        return name;
    return fmt::format("{}: {}", name, text);
}

bool is_sticky(CUresult error) {
    switch (error) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_UNKNOWN:
        return true;
    default:
        return false;
    }
}

Current::Current(const Driver &driver, CUcontext context) : driver_(driver) {
    result_ = driver_.cuCtxGetCurrent(&before_);
    if (result_ != CUDA_SUCCESS || before_ == context)
        return;
    result_ = driver_.cuCtxSetCurrent(context);
    changed_ = result_ == CUDA_SUCCESS;
}

Current::~Current() {
    if (changed_)
        driver_.cuCtxSetCurrent(before_);
}

} // namespace lz::runtime::cuda
