#pragma once
/// What LAZULI_DUMP prints: each form of a program under construction, to stderr or to files.

#include "engine/options.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace lz::engine {

/// Writes the dumps of one program. Files are `<dir>/p<number>-<what>.<extension>`; on stderr a comment line
/// stands before each.
class Dumper {
public:
    Dumper(const Options &options, int64_t program) : options_(options), program_(program) {}

    const Dumps &wanted() const { return options_.dump; }
    /// `what` names the form (`graph`, `after-fuse`, `kernel-2`), `extension` the kind of text (`lz`, `ll`,
    /// `s`, ...).
    void write(std::string_view what, std::string_view extension, const std::string &text) const;

private:
    const Options &options_;
    int64_t program_;
};

} // namespace lz::engine
