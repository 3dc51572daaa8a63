#pragma once
/// Files that may be packed by gzip, read from the beginning.

#include "lazuli/core/location.h"

#include <cstdint>
#include <string>

namespace lz::data {

/// Reads a file as it is or unpacked, whichever it begins as. All functions throw IoError, and name the file.
class PackedFile {
public:
    PackedFile(std::string path, const char *function, Location loc);
    PackedFile(const PackedFile &) = delete;
    PackedFile &operator=(const PackedFile &) = delete;
    ~PackedFile();

    /// The next `size` bytes, fewer at the end. Takes memory for what is there, not for what is asked for.
    std::string read(uint64_t size);
    /// Exactly so many; `what` names them.
    std::string read_exactly(uint64_t size, const char *what);
    /// Fails unless all has been read.
    void check_end();
    [[noreturn]] void fail(const std::string &what) const;
    const std::string &path() const { return path_; }

private:
    std::string path_;
    const char *function_;
    Location loc_;
    void *file_ = nullptr;
};

/// Whether there is a file of this name.
bool is_there(const std::string &path);

} // namespace lz::data
