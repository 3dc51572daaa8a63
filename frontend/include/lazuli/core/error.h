#pragma once
/// What Lazuli throws. Every message is a whole sentence with the values in it and ends with the user's own
/// file and line where one is known.

#include "lazuli/core/export.h"
#include "lazuli/core/location.h"

#include <stdexcept>
#include <string>

namespace lz {

/// Base of all errors.
class LZ_API Error : public std::runtime_error {
public:
    /// `message`: without the location, which is appended as `, at file:line`.
    Error(const std::string &message, Location loc);
    ~Error() override;
    /// The user's file (nullptr if unknown) and line of the operation that failed.
    const char *file() const noexcept { return loc_.file; }
    /// The message without the location, as LibTorch's errors have it.
    std::string msg() const;
    /// The message with the location: there is no backtrace.
    const char *what_without_backtrace() const noexcept { return what(); }
    /// The user's line; 0 if unknown.
    uint32_t line() const noexcept { return loc_.line; }

private:
    Location loc_;
};

#define LZ_ERROR_CLASS(Name, what)                                                                           \
    /** what */                                                                                              \
    class LZ_API Name : public Error {                                                                       \
    public:                                                                                                  \
        using Error::Error;                                                                                  \
        ~Name() override;                                                                                    \
    }
LZ_ERROR_CLASS(ShapeError, "shapes that do not fit each other or the operation");
LZ_ERROR_CLASS(DTypeError, "an element type that the operation does not take");
LZ_ERROR_CLASS(IndexError, "an axis or an index out of range");
LZ_ERROR_CLASS(DeviceError, "tensors on different devices, or a device that is not there");
LZ_ERROR_CLASS(OutOfMemoryError, "memory that could not be had after the cache was given back");
LZ_ERROR_CLASS(CompileError, "code that could not be generated or loaded");
LZ_ERROR_CLASS(CudaError, "a failure that the CUDA driver reported");
LZ_ERROR_CLASS(IoError, "a file that could not be read or written, or is damaged");
LZ_ERROR_CLASS(StateError, "a call that makes no sense in the object's state");
LZ_ERROR_CLASS(InternalError,
               "an invariant of Lazuli's own that broke: please report it with the IR it prints");
#undef LZ_ERROR_CLASS

} // namespace lz
