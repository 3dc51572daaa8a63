#include "lazuli/error.h"

#include "ir/location.h"
#include "lazuli/detail/recorder.h"

namespace lz {
namespace {

std::string with_location(const std::string &message, Location loc) {
    const ir::Location at = detail::to_ir(loc);
    if (!at.known())
        return message;
    const bool stop = message.ends_with('.');
    return message.substr(0, message.size() - stop) + ", at " + ir::to_string(at);
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

} // namespace detail
} // namespace lz
