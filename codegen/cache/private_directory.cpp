#include "codegen/cache/private_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace lz::codegen {
namespace {

/// A descriptor that is closed with its scope.
class Descriptor {
public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { reset(-1); }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    int get() const { return number_; }
    int release() { return std::exchange(number_, -1); }
    void reset(int number) {
        if (number_ >= 0)
            ::close(number_);
        number_ = number;
    }

private:
    int number_;
};

std::string reason(int error) {
    return std::strerror(error); // NOLINT(concurrency-mt-unsafe): of known errors, on this system
}

/// Whether `owner` is somebody who may give this process code.
bool is_trusted(uid_t owner) {
    return owner == ::geteuid() || owner == 0;
}
bool others_can_write(const struct stat &about) {
    return (about.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/// What is wrong with a directory on the way, or ("" ) nothing. In a sticky one nobody renames what is not
/// his.
std::string objection(const struct stat &about, const std::string &path, bool last) {
    if (!is_trusted(about.st_uid))
        return fmt::format("{} belongs to another user (number {})", path, about.st_uid);
    if (others_can_write(about) && (last || !(about.st_mode & S_ISVTX)))
        return fmt::format("others can write to {}, and what is there is executed (`chmod go-w` ends that)",
                           path);
    return "";
}

/// Makes what is missing of a path, for this user alone. Returns why it could not, or "".
std::string make_directories(const std::string &path) {
    if (path.size() >= PATH_MAX)
        return fmt::format("its name is longer than {} bytes", PATH_MAX);
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST && errno != EISDIR && errno != EROFS &&
            errno != EACCES && errno != EPERM)
            return fmt::format("{} cannot be made: {}", part, reason(errno));
        if (end == std::string::npos)
            return "";
    }
}

/// Reads up to `bytes` bytes; how many there were, or -1.
ssize_t read_fully(int from, std::byte *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        const ssize_t got = ::read(from, to + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        done += static_cast<size_t>(got);
    }
    return static_cast<ssize_t>(done);
}

/// 0, or what went wrong.
int write_fully(int to, std::span<const std::byte> content) {
    while (!content.empty()) {
        const ssize_t put = ::write(to, content.data(), content.size());
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno;
        content = content.subspan(static_cast<size_t>(put));
    }
    return 0;
}

} // namespace

PrivateDirectory::~PrivateDirectory() {
    if (descriptor_ >= 0)
        ::close(descriptor_);
}

std::string PrivateDirectory::open(const std::string &path) {
    if (std::string why = make_directories(path); !why.empty())
        return why;
    // Links of the user's own are followed once; then each part is opened in the one before, and is what was
    // looked at.
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
    if (!real)
        return fmt::format("it is not there: {}", reason(errno));
    constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    Descriptor at(::open("/", kFlags | O_PATH));
    std::string_view rest(real.get());
    std::string so_far;
    for (;;) {
        struct stat about{};
        if (at.get() < 0 || ::fstat(at.get(), &about) != 0)
            return fmt::format("{} cannot be opened: {}", so_far.empty() ? "/" : so_far, reason(errno));
        rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
        if (std::string why = objection(about, so_far.empty() ? "/" : so_far, rest.empty()); !why.empty())
            return why;
        if (rest.empty())
            break;
        const std::string part(rest.substr(0, rest.find('/')));
        rest.remove_prefix(part.size());
        so_far += '/' + part;
        // Of the directories on the way no more than their place is needed.
        const int next = ::openat(at.get(), part.c_str(), kFlags | (rest.empty() ? O_RDONLY : O_PATH));
        const int error = errno;
        at.reset(next);
        errno = error;
    }
    descriptor_ = at.release();
    return "";
}

PrivateDirectory::Found PrivateDirectory::read(const std::string &name, int64_t most,
                                               std::span<std::byte> first,
                                               const std::function<bool(int64_t size)> &head,
                                               std::vector<std::byte> &content) const {
    // Without waiting: a pipe would keep its reader for ever.
    const Descriptor file(
        ::openat(descriptor_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (file.get() < 0)
        return errno == ELOOP || errno == ENXIO ? Found::Refused : Found::Nothing;
    struct stat about{};
    if (::fstat(file.get(), &about) != 0)
        return Found::Nothing;
    if (!S_ISREG(about.st_mode) || !is_trusted(about.st_uid) || others_can_write(about))
        return Found::Refused;
    const auto size = static_cast<int64_t>(about.st_size);
    if (size > most || size < static_cast<int64_t>(first.size()) ||
        read_fully(file.get(), first.data(), first.size()) != static_cast<ssize_t>(first.size()) ||
        !head(size))
        return Found::Damaged;
    content.resize(static_cast<size_t>(size));
    std::ranges::copy(first, content.begin());
    const size_t rest = content.size() - first.size();
    if (read_fully(file.get(), content.data() + first.size(), rest) != static_cast<ssize_t>(rest))
        return Found::Damaged;
    const struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    ::futimens(file.get(), now); // a file of root's stays as old as it is
    return Found::File;
}

PrivateDirectory::Written PrivateDirectory::write(const std::string &name,
                                                  std::span<const std::byte> content) const {
    // Past this the system would end the process by a signal.
    struct rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < content.size())
        return {
            fmt::format("a file of {} bytes is more than this process may write (ulimit -f)", content.size()),
            false};
    static std::atomic<uint64_t> next{0};
    std::string temporary;
    Descriptor file(-1);
    do { // a name is taken by what a process of the same number left
        temporary = fmt::format("{}{}-{}", kTemporary, ::getpid(), next++);
        file.reset(::openat(descriptor_, temporary.c_str(),
                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    } while (file.get() < 0 && errno == EEXIST);
    if (file.get() < 0)
        return {fmt::format("no file can be made in it: {}", reason(errno)), true};
    int error = write_fully(file.get(), content);
    if (error == 0 && ::close(file.release()) != 0)
        error = errno;
    const auto put_in_place = [&] {
        return ::renameat(descriptor_, temporary.c_str(), descriptor_, name.c_str()) == 0 ? 0 : errno;
    };
    bool directory = false;
    if (error == 0 && (error = put_in_place()) != 0) {
        directory = error == EISDIR || error == ENOTEMPTY || error == EEXIST;
        if (directory && ::unlinkat(descriptor_, name.c_str(), AT_REMOVEDIR) == 0)
            error = put_in_place();
    }
    if (error == 0)
        return {"", false};
    ::unlinkat(descriptor_, temporary.c_str(), 0);
    return {fmt::format("a file could not be written: {}", reason(error)), !directory};
}

void PrivateDirectory::remove(const std::string &name) const {
    ::unlinkat(descriptor_, name.c_str(), 0); // another process may have been faster
}

std::vector<PrivateDirectory::Entry> PrivateDirectory::list() const {
    std::vector<Entry> entries;
    Descriptor copy(::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::unique_ptr<DIR, int (*)(DIR *)> all(copy.get() < 0 ? nullptr : ::fdopendir(copy.get()),
                                                   &::closedir);
    if (!all)
        return entries;
    copy.release();                                      // closed with `all`
    while (const dirent *entry = ::readdir(all.get())) { // NOLINT(concurrency-mt-unsafe): a stream of its own
        struct stat about{};
        if (::fstatat(descriptor_, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(about.st_mode))
            entries.push_back({entry->d_name, static_cast<int64_t>(about.st_size),
                               int64_t{about.st_mtim.tv_sec} * 1'000'000'000 + about.st_mtim.tv_nsec});
    }
    return entries;
}

} // namespace lz::codegen
