#include "frontend/data/packed_file.h"

#include "lazuli/core/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <zlib.h>

namespace lz::data {

PackedFile::PackedFile(std::string path, const char *function, Location loc)
    : path_(std::move(path)), function_(function), loc_(loc) {
    struct stat status{};
    if (stat(path_.c_str(), &status) != 0)
        fail(std::strerror(errno));
    if (!S_ISREG(status.st_mode))
        fail("it is no regular file");
    file_ = gzopen(path_.c_str(), "rb");
    if (!file_)
        fail(std::strerror(errno ? errno : ENOMEM));
    constexpr int64_t kSmallest = 1 << 12, kLargest = 1 << 17;
    gzbuffer(static_cast<gzFile>(file_),
             static_cast<unsigned>(std::clamp<int64_t>(status.st_size, kSmallest, kLargest)));
}

PackedFile::~PackedFile() {
    if (file_)
        gzclose_r(static_cast<gzFile>(file_));
}

void PackedFile::fail(const std::string &what) const {
    throw IoError(fmt::format("{}: cannot read \"{}\": {}", function_, path_, what), loc_);
}

std::string PackedFile::read(uint64_t size) {
    // Little at first: a small file is not worth megabytes that are cleared.
    constexpr uint64_t kLargest = uint64_t{1} << 22;
    std::string out;
    for (uint64_t next = uint64_t{1} << 14; out.size() < size; next = std::min(2 * next, kLargest)) {
        const size_t had = out.size();
        const uint64_t step = std::min(size - had, next);
        out.resize(had + step);
        const int got = gzread(static_cast<gzFile>(file_), out.data() + had, static_cast<unsigned>(step));
        int code = Z_OK;
        const char *const text = gzerror(static_cast<gzFile>(file_), &code);
        if (got < 0 || (code != Z_OK && code != Z_STREAM_END))
            fail(code == Z_ERRNO       ? std::strerror(errno)
                 : code == Z_BUF_ERROR ? "its packed data are cut short"
                                       : fmt::format("it does not unpack ({})", text));
        out.resize(had + static_cast<size_t>(got));
        if (got == 0)
            break;
    }
    return out;
}

std::string PackedFile::read_exactly(uint64_t size, const char *what) {
    std::string out = read(size);
    if (out.size() != size)
        fail(fmt::format("{} would have {} bytes, and {} are there", what, size, out.size()));
    return out;
}

void PackedFile::check_end() {
    if (!read(1).empty())
        fail("more bytes follow than it says");
}

bool is_there(const std::string &path) {
    struct stat status{};
    return stat(path.c_str(), &status) == 0;
}

} // namespace lz::data
