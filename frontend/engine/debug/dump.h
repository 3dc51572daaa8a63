#pragma once
/// What LAZULI_DUMP prints: each form of a program under construction, to stderr or to files.

#include "frontend/engine/options.h"
#include "ir/stream.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace lz::engine {

/// A sentence that says what the user's streams of a program stand for when it is first run (as
/// Bindings::streams); empty where they are themselves.
std::string name_streams(std::span<const ir::StreamRef> streams);

/// Writes the dumps of one program. Files are `<dir>/p<number>-<what>.<extension>`; on stderr a comment line
/// stands before each.
class Dumper {
public:
    /// `note` stands above texts that name streams.
    Dumper(const Options &options, int64_t program, std::string note = {})
        : options_(options), program_(program), note_(std::move(note)) {}

    const Dumps &wanted() const { return options_.dump; }
    /// `what` names the form (`graph`, `after-fuse`, `kernel-2`), `extension` the kind of text (`lz`, `ll`,
    /// `s`, ...).
    void write(std::string_view what, std::string_view extension, const std::string &text) const;

private:
    const Options &options_;
    int64_t program_;
    std::string note_;
};

} // namespace lz::engine
