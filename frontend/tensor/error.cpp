#include "lazuli/error.h"

#include "frontend/engine/leaving.h"
#include "frontend/record/record.h"
#include "ir/location.h"

#include <cstring>

namespace lz {
namespace {

/// Messages begin with the name of the function that noticed. What the user called may be another one, which
/// is made of that.
std::string as_called(const std::string &message, const ir::Location &at) {
    const size_t name =
        message.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (at.function == 0 || name == std::string::npos || name == 0 || message.compare(name, 2, ": ") != 0)
        return message;
    return std::string(ir::function_name(at.function)) + message.substr(name);
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

void throw_public(const ir::Failure &failure, Location fallback) {
    if (failure.kind() == ir::ErrorKind::Cuda)
        engine::stop_if_main_was_left();
    const Location loc = failure.loc().known() ? from_ir(failure.loc()) : fallback;
    const std::string &message = failure.message();
    switch (failure.kind()) {
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

namespace {

template <class... Classes>
[[noreturn]] void throw_same(const Error &error, const std::string &message, Location loc) {
    ((dynamic_cast<const Classes *>(&error) ? throw Classes(message, loc) : void()), ...);
    throw Error(message, loc);
}

[[noreturn]] void throw_with(const Error &error, const std::string &message, Location loc) {
    throw_same<ShapeError, DTypeError, IndexError, DeviceError, OutOfMemoryError, CompileError, CudaError,
               IoError, StateError, InternalError>(error, message, loc);
}

} // namespace

void throw_again(const Error &error, const std::string &during, Location loc) {
    std::string message = error.what();
    if (message.ends_with('.'))
        message.pop_back();
    throw_with(error, message + ", " + during, loc);
}

void throw_in_place(const Error &error, const char *name, Location loc) {
    std::string message = error.what();
    const std::string function(name, std::strlen(name) - 1);
    const std::string where = ", at " + ir::to_string(to_ir(loc));
    if (loc.function != 0 || !message.starts_with(function + ": ") || !message.ends_with(where))
        throw;
    message.resize(message.size() - where.size());
    throw_with(error, name + message.substr(function.size()), loc);
}

} // namespace detail
} // namespace lz
