#pragma once
/// A file that takes the place of another when all of it is on the disk.

#include "lazuli/core/location.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace lz::io {

/// Writes to a file beside `path`; `commit` makes it `path`. Without `commit` it is removed, and what `path`
/// was before stays. All functions throw IoError, and name the path.
class ReplacedFile {
public:
    ReplacedFile(std::string path, const char *function, Location loc);
    ReplacedFile(const ReplacedFile &) = delete;
    ReplacedFile &operator=(const ReplacedFile &) = delete;
    ~ReplacedFile();

    void write(const void *data, size_t size);
    void write(std::string_view text) { write(text.data(), text.size()); }
    /// Bytes written so far.
    size_t size() const { return size_; }
    /// All of it reaches the disk.
    void flush();
    /// `flush`, then the rename.
    void commit();

private:
    [[noreturn]] void fail(const char *step, int error) const;
    void write_out(const char *data, size_t size);

    std::string path_, beside_;
    const char *function_;
    Location loc_;
    std::string pending_; ///< small writes, gathered
    size_t size_ = 0;
    int fd_ = -1;
};

} // namespace lz::io
