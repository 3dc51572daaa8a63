#pragma once
/// The functions of an opened CUDA driver, and what their errors mean here. Headers of the toolkit are needed
/// to build this; nothing of it is linked.

#include "ir/diagnostic.h"
#include "runtime/cuda/driver/libraries.h"

#include <cuda.h>

#include <string>

namespace lz::runtime::cuda {

/// A table of functions, under the names that cuda.h's macros make of them: `driver.cuMemAlloc(...)`.
struct Driver {
#define FUNCTION(name) decltype(&::name) name = nullptr;
#include "runtime/cuda/driver/functions.def"
#undef FUNCTION
    int version = 0; ///< 12010: 12.1

    /// Throws Failure(Device) that names the first function that the library lacks.
    explicit Driver(const Library &library);
};

/// `CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered`.
std::string describe(const Driver &driver, CUresult error);

/// Whether nothing more can be done in a context in which this happened.
bool is_sticky(CUresult error);

/// The context of a device, current on this thread while it lives; then what was current before is again.
/// Cheap where it is the current one already.
class Current {
public:
    Current(const Driver &driver, CUcontext context);
    ~Current();
    Current(const Current &) = delete;
    Current &operator=(const Current &) = delete;
    CUresult result() const { return result_; } ///< of making it current

private:
    const Driver &driver_;
    CUcontext before_ = nullptr;
    bool changed_ = false;
    CUresult result_ = CUDA_SUCCESS;
};

} // namespace lz::runtime::cuda
