#include "runtime/saved/program_file.h"

#include "ir/diagnostic.h"
#include "ir/saved/saved_program.h"
#include "runtime/saved/open_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace lz::runtime {
namespace {

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
            fail_io("could not be written: " + error_text(errno));
        content = content.subspan(static_cast<size_t>(n));
    }
}

} // namespace

void write_program_file(const std::string &path, std::span<const std::byte> content) {
    static std::atomic<unsigned> number{0};
    const std::string real = through_links(path);
    struct stat before{};
    if (::stat(real.c_str(), &before) == 0 && !S_ISREG(before.st_mode))
        fail_io("is no regular file");
    Beside beside(fmt::format("{}.{}.{}.tmp", real, ::getpid(), number++));
    OpenFile file(::open(beside.path(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (file.get() < 0) {
        const int error = errno;
        beside.keep();
        fail_io("could not be written: " + error_text(error));
    }
    write_all(file.get(), content);
    if (::fsync(file.get()) != 0 || ::close(file.release()) != 0 ||
        ::rename(beside.path(), real.c_str()) != 0)
        fail_io("could not be written: " + error_text(errno));
    beside.keep();
}

std::vector<std::byte> read_program_file(const std::string &path, bool from_anybody) {
    const ReadFile file(path);
    const struct stat &about = file.about;
    if (!from_anybody && about.st_uid != ::geteuid() && about.st_uid != 0)
        fail_io(fmt::format(
            "belongs to user {}, and holds machine code: it is loaded for its owner alone, unless "
            "LoadProgramOptions::from_anybody says that it may be trusted",
            about.st_uid));
    if (!from_anybody && (about.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        fail_io(
            "may be written by others than its owner, and holds machine code: take that right away (chmod "
            "go-w), or say LoadProgramOptions::from_anybody");
    std::vector<std::byte> content(std::min<size_t>(file.bytes(), ir::kProgramFileHeader));
    file.read(content, 0);
    ir::check_program_file_begin(content, file.bytes()); // before there is room for what is something else
    const size_t begin = content.size();
    content.resize(file.bytes());
    file.read(std::span(content).subspan(begin), begin);
    return content;
}

} // namespace lz::runtime
