#include "frontend/io/replaced_file.h"

#include "frontend/io/source.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lz::io {

namespace {

constexpr size_t kGathered = size_t{1} << 20;

/// What a link leads to is replaced, not the link.
std::string through_links(const std::string &path) {
    char real[PATH_MAX];
    return realpath(path.c_str(), real) ? real : path;
}

} // namespace

ReplacedFile::ReplacedFile(std::string path, const char *function, Location loc)
    : path_(through_links(path)), function_(function), loc_(loc) {
    static std::atomic<unsigned> number{0};
    beside_ = fmt::format("{}.{}.{}.tmp", path_, getpid(), number++);
    struct stat before{};
    const bool there = stat(path_.c_str(), &before) == 0;
    if (there && !S_ISREG(before.st_mode))
        throw IoError(fmt::format("{}: {} is no regular file", function_, in_quotes(path_)), loc_);
    fd_ = open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0)
        fail("create a file beside", errno);
    if (there)
        (void)!fchmod(fd_, before.st_mode & 07777);
}

ReplacedFile::~ReplacedFile() {
    if (fd_ >= 0)
        close(fd_);
    if (!beside_.empty())
        unlink(beside_.c_str());
}

void ReplacedFile::fail(const char *step, int error) const {
    throw IoError(
        fmt::format("{}: cannot {} {}: {}", function_, step, in_quotes(path_), std::strerror(error)), loc_);
}

void ReplacedFile::write_out(const char *data, size_t size) {
    while (size > 0) {
        const ssize_t n = ::write(fd_, data, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail("write", errno);
        data += n;
        size -= static_cast<size_t>(n);
    }
}

void ReplacedFile::write(const void *data, size_t size) {
    size_ += size;
    const auto *bytes = static_cast<const char *>(data);
    if (pending_.size() + size <= kGathered) {
        pending_.append(bytes, size);
        return;
    }
    write_out(pending_.data(), pending_.size());
    pending_.clear();
    if (size <= kGathered)
        pending_.append(bytes, size);
    else
        write_out(bytes, size);
}

void ReplacedFile::flush() {
    write_out(pending_.data(), pending_.size());
    pending_.clear();
    if (fsync(fd_) != 0)
        fail("write", errno);
}

void ReplacedFile::commit() {
    flush();
    if (close(std::exchange(fd_, -1)) != 0)
        fail("write", errno);
    if (rename(beside_.c_str(), path_.c_str()) != 0)
        fail("replace", errno);
    beside_.clear();
    // The name is on the disk when its folder is; a folder that cannot be opened does not undo the file.
    const size_t slash = path_.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    if (const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

} // namespace lz::io
