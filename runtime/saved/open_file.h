#pragma once
/// Files by their descriptors. For this folder alone.

#include "ir/diagnostic.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <span>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace lz::runtime {

/// A sentence that goes on after the file's name.
[[noreturn]] inline void fail_io(const std::string &what) {
    throw ir::Failure(ir::ErrorKind::Io, what);
}
inline std::string error_text(int error) {
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

/// A regular file that is read, and what fstat says of it. Throws Failure(Io).
struct ReadFile {
    explicit ReadFile(const std::string &path)
        // Without waiting: a pipe would keep its reader for ever.
        : file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {
        if (file.get() < 0 || ::fstat(file.get(), &about) != 0)
            fail_io("could not be opened: " + error_text(errno));
        if (!S_ISREG(about.st_mode))
            fail_io("is no regular file");
    }
    uint64_t bytes() const { return static_cast<uint64_t>(about.st_size); }
    /// Its bytes from `at` on. Throws Failure(Io) where they end.
    void read(std::span<std::byte> to, uint64_t at) const {
        while (!to.empty()) {
            const ssize_t n = ::pread(file.get(), to.data(), to.size(), static_cast<off_t>(at));
            if (n < 0 && errno == EINTR)
                continue;
            if (n < 0)
                fail_io("could not be read: " + error_text(errno));
            if (n == 0)
                fail_io("became shorter while it was read");
            to = to.subspan(static_cast<size_t>(n));
            at += static_cast<uint64_t>(n);
        }
    }

    OpenFile file;
    struct stat about{};
};

} // namespace lz::runtime
