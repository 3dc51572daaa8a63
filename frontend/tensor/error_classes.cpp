// The public errors: all that liblazuli-run.so has of this folder, with dtypes.
#include "lazuli/core/error.h"

#include "frontend/record/convert.h"
#include "frontend/run/throw_kind.h"
#include "ir/location.h"

#include <string_view>

namespace lz {
namespace {

/// Messages begin with the name of the function that noticed. What the user called may be another one, which
/// is made of that.
std::string as_called(const std::string &message, const ir::Location &at) {
    const size_t name =
        message.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (at.function == 0 || name == std::string::npos || name == 0 || message.compare(name, 2, ": ") != 0)
        return message;
    const std::string_view called = ir::function_name(at.function);
    if (called.size() > name && message.starts_with(called)) // a check, whose name is its whole sentence
        return message;
    return std::string(called) + message.substr(name);
}

std::string with_location(const std::string &message, Location loc) {
    const ir::Location at = detail::to_ir(loc);
    if (!at.known())
        return message;
    const bool stop = message.ends_with('.');
    return as_called(message.substr(0, message.size() - stop), at) + ", at " + ir::to_string(at);
}

} // namespace

Error::Error(const std::string &message, Location loc)
    : std::runtime_error(with_location(message, loc)), loc_(loc) {}

std::string Error::msg() const {
    const std::string message = what();
    const ir::Location at = detail::to_ir(loc_);
    return at.known() ? message.substr(0, message.size() - (", at " + ir::to_string(at)).size()) : message;
}

// Out of line, so that each class has one home for its type information (hidden visibility).
Error::~Error() = default;
ShapeError::~ShapeError() = default;
DTypeError::~DTypeError() = default;
IndexError::~IndexError() = default;
DeviceError::~DeviceError() = default;
OutOfMemoryError::~OutOfMemoryError() = default;
CompileError::~CompileError() = default;
CudaError::~CudaError() = default;
IoError::~IoError() = default;
StateError::~StateError() = default;
InternalError::~InternalError() = default;

namespace detail {

void throw_kind(ir::ErrorKind kind, const std::string &message, Location loc) {
    switch (kind) {
    case ir::ErrorKind::Shape:
        throw ShapeError(message, loc);
    case ir::ErrorKind::DType:
        throw DTypeError(message, loc);
    case ir::ErrorKind::Index:
        throw IndexError(message, loc);
    case ir::ErrorKind::Device:
        throw DeviceError(message, loc);
    case ir::ErrorKind::OutOfMemory:
        throw OutOfMemoryError(message, loc);
    case ir::ErrorKind::Compile:
        throw CompileError(message, loc);
    case ir::ErrorKind::Cuda:
        throw CudaError(message, loc);
    case ir::ErrorKind::Io:
    case ir::ErrorKind::Parse:
        throw IoError(message, loc);
    case ir::ErrorKind::State:
        throw StateError(message, loc);
    case ir::ErrorKind::Internal:
        break;
    }
    throw InternalError(message, loc);
}

} // namespace detail
} // namespace lz
