#pragma once
/// Archives: what .npz and .pt files are. Reading maps, so that stored entries are not copied; libzip would
/// copy, and needs a TLS library. (PKWARE, APPNOTE.TXT 6.3.10; stored and deflated entries, zip64.)

#include "frontend/io/replaced_file.h"
#include "frontend/io/source.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lz::io {

/// A file in an archive.
struct ZipEntry {
    std::string name;
    uint16_t method = 0; ///< 0: stored, 8: deflated
    uint32_t crc = 0;
    uint64_t packed = 0, size = 0; ///< bytes in the archive, and unpacked
    uint64_t begin = 0, data = 0;  ///< where its header begins, and its bytes
};

/// Reads an archive's directory; fails for entries that overlap, lie outside, or are packed in another way.
class ZipReader {
public:
    explicit ZipReader(const Source &source);
    ZipReader(const ZipReader &) = delete;
    ZipReader &operator=(const ZipReader &) = delete;
    const std::vector<ZipEntry> &entries() const { return entries_; }
    /// nullptr where there is none.
    const ZipEntry *find(std::string_view name) const;
    /// The entry's bytes: a part of the source's if it is stored, else unpacked within the budget. `check`:
    /// fails unless their checksum is what the directory says.
    Source open(const ZipEntry &entry, Budget &budget, bool check) const;

private:
    void read_directory();
    void read_entry(size_t &at);
    void place_entries();
    [[noreturn]] void fail(const ZipEntry &entry, const std::string &what) const;

    Source source_;
    std::vector<ZipEntry> entries_;
    std::unordered_map<std::string_view, const ZipEntry *> by_name_;
    uint64_t directory_ = 0, directory_end_ = 0, count_ = 0;
};

/// Writes an archive, the same bytes for the same entries. Stored bytes begin at a multiple of 64.
class ZipWriter {
public:
    explicit ZipWriter(ReplacedFile &file) : file_(file) {}
    /// An entry that is `head` and then `body`.
    void add(const std::string &name, std::string_view head, std::span<const std::byte> body, bool deflate);
    /// The directory.
    void finish();

private:
    ReplacedFile &file_;
    std::vector<ZipEntry> entries_;
};

} // namespace lz::io
