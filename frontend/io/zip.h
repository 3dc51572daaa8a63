#pragma once
/// Archives: what .npz and .pt files are. (PKWARE, APPNOTE.TXT 6.3.10; stored and deflated entries, zip64.)
///
/// libzip (1.7 is Debian's) was looked at for this, because a library that is well kept is better than code
/// of ours, and left:
/// - It gives an entry's bytes by zip_fread alone, into memory of the caller's, and does not say where in the
///   file they are. Every array of a 1 GiB .pt would be copied, and all of it read before the first number is
///   used, where this reader hands out the file's own pages.
/// - It takes entries that lie within others, with its stricter checks (ZIP_CHECKCONS), too: what archives
///   that unpack to far more than they are consist of. That check would be ours still.
/// - Writing, it has no say in where an entry's bytes begin. They have to begin at a multiple of 64 for the
///   reader to map them.
/// - It brings OpenSSL's library of ciphers and bzip2 into every program that loads a file. zlib, which does
///   what is hard in this (deflating), is there anyway.
/// What is ours is the walk over the directory, for which mutated archives are read in tests.

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
