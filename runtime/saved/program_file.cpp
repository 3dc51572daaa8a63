#include "runtime/saved/program_file.h"

#include "ir/diagnostic.h"
#include "ir/saved/saved_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace lz::runtime {
namespace {

[[noreturn]] void fail(const std::string &what) {
    throw ir::Failure(ir::ErrorKind::Io, what);
}
std::string reason(int error) {
    return std::generic_category().message(error);
}

class OpenFile {
public:
    explicit OpenFile(int descriptor) : descriptor_(descriptor) {}
    OpenFile(const OpenFile &) = delete;
    OpenFile &operator=(const OpenFile &) = delete;
    ~OpenFile() {
        if (descriptor_ >= 0)
            ::close(descriptor_);
    }
    int get() const { return descriptor_; }
    int release() { return std::exchange(descriptor_, -1); }

private:
    int descriptor_;
};

/// Removes what was being written, unless it has become the file.
class Beside {
public:
    explicit Beside(std::string path) : path_(std::move(path)) {}
    Beside(const Beside &) = delete;
    Beside &operator=(const Beside &) = delete;
    ~Beside() {
        if (!path_.empty())
            ::unlink(path_.c_str());
    }
    const char *path() const { return path_.c_str(); }
    void keep() { path_.clear(); }

private:
    std::string path_;
};

/// What a link leads to is replaced, not the link.
std::string through_links(const std::string &path) {
    char real[PATH_MAX];
    return ::realpath(path.c_str(), real) ? real : path;
}

void write_all(int file, std::span<const std::byte> content) {
    while (!content.empty()) {
        const ssize_t n = ::write(file, content.data(), content.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail("could not be written: " + reason(errno));
        content = content.subspan(static_cast<size_t>(n));
    }
}

void read_all(int file, std::span<std::byte> content) {
    while (!content.empty()) {
        const ssize_t n = ::read(file, content.data(), content.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            fail("could not be read: " + reason(errno));
        if (n == 0)
            fail("became shorter while it was read");
        content = content.subspan(static_cast<size_t>(n));
    }
}

} // namespace

void write_program_file(const std::string &path, std::span<const std::byte> content) {
    static std::atomic<unsigned> number{0};
    const std::string real = through_links(path);
    struct stat before{};
    if (::stat(real.c_str(), &before) == 0 && !S_ISREG(before.st_mode))
        fail("is no regular file");
    Beside beside(fmt::format("{}.{}.{}.tmp", real, ::getpid(), number++));
    OpenFile file(::open(beside.path(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.get() < 0) {
        const int error = errno;
        beside.keep();
        fail("could not be written: " + reason(error));
    }
    write_all(file.get(), content);
    if (::fsync(file.get()) != 0 || ::close(file.release()) != 0 ||
        ::rename(beside.path(), real.c_str()) != 0)
        fail("could not be written: " + reason(errno));
    beside.keep();
}

std::vector<std::byte> read_program_file(const std::string &path, bool from_anybody) {
    // Without waiting: a pipe would keep its reader for ever.
    const OpenFile file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat about{};
    if (file.get() < 0 || ::fstat(file.get(), &about) != 0)
        fail("could not be opened: " + reason(errno));
    if (!S_ISREG(about.st_mode))
        fail("is no regular file");
    if (!from_anybody && about.st_uid != ::geteuid() && about.st_uid != 0)
        fail(fmt::format(
            "belongs to user {}, and holds machine code: it is loaded for its owner alone, unless "
            "LoadProgramOptions::from_anybody says that it may be trusted",
            about.st_uid));
    if (!from_anybody && (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        fail("may be written by others than its owner, and holds machine code: take that right away (chmod "
             "go-w), or say LoadProgramOptions::from_anybody");
    const auto bytes = static_cast<size_t>(about.st_size);
    std::vector<std::byte> content(std::min(bytes, ir::kProgramFileHeader));
    read_all(file.get(), content);
    ir::check_program_file_begin(content, bytes); // before there is room for all of what is something else
    const size_t begin = content.size();
    content.resize(bytes);
    read_all(file.get(), std::span(content).subspan(begin));
    return content;
}

} // namespace lz::runtime
