#include "lazuli/core/error.h"

#include "frontend/engine/process_exit.h"
#include "frontend/record/record.h"
#include "frontend/run/throw_kind.h"
#include "ir/location.h"
#include "lazuli/core/check.h"

#include <cstring>

namespace lz {
namespace detail {

void throw_public(const ir::Failure &failure, Location fallback) {
    if (failure.kind() == ir::ErrorKind::Cuda)
        engine::stop_if_main_was_left();
    const Location loc = failure.loc().known() ? from_ir(failure.loc()) : fallback;
    throw_kind(failure.kind(), failure.message(), loc);
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

void fail_check(const char *condition, const std::string &message, Location loc) {
    throw Error(message.empty() ? std::string("the program's check `") + condition + "` does not hold"
                                : message,
                loc);
}

} // namespace detail
} // namespace lz
