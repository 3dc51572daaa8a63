#pragma once
/// Failures inside the engine. Below the frontend nothing knows the public error classes: a failure is thrown
/// as `Failure` with its kind and, where one is known, the user's location or the node; the frontend turns it
/// into `lz::ShapeError` and its siblings at the API boundary.

#include "ir/location.h"

#include <cstdint>
#include <exception>
#include <string>

namespace lz::ir {

enum class ErrorKind : uint8_t {
    Shape,
    DType,
    Index,
    Device,
    OutOfMemory,
    Compile,
    Cuda,
    Io,
    State,
    Internal, ///< an invariant of ours broke; the message carries the IR
    Parse,    ///< malformed `.lz` text; the message carries line and column
};

/// The failure of one operation or of the engine. `what()` is a whole sentence without the location.
class Failure : public std::exception {
public:
    static constexpr uint32_t kNoNode = UINT32_MAX;

    Failure(ErrorKind kind, std::string message, Location loc = {}, uint32_t node = kNoNode)
        : kind_(kind), message_(std::move(message)), loc_(loc), node_(node) {}

    const char *what() const noexcept override { return message_.c_str(); }
    ErrorKind kind() const { return kind_; }
    const std::string &message() const { return message_; }
    Location loc() const { return loc_; }
    /// Index of the node (in the canonical order of the recording) whose execution failed, or kNoNode.
    uint32_t node() const { return node_; }

private:
    ErrorKind kind_;
    std::string message_;
    Location loc_;
    uint32_t node_;
};

/// Throws Failure(Internal) with `what` and the file and line of ours that noticed it.
[[noreturn]] void internal_failure(const char *file, int line, const std::string &what);

} // namespace lz::ir

/// Checks an invariant of ours (never a mistake of the user's). Always on: it is cheap where it stands.
#define LZ_CHECK(cond, what)                                                                                 \
    do {                                                                                                     \
        if (!(cond)) [[unlikely]]                                                                            \
            ::lz::ir::internal_failure(__FILE__, __LINE__,                                                   \
                                       std::string("`" #cond "` does not hold: ") + (what));                 \
    } while (false)
