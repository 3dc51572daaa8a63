#include "runtime/cpu/system_file.h"

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <unistd.h>

namespace lz::runtime {

std::string read_system_file(const std::string &path) {
    constexpr size_t kMost = size_t{64} << 10, kStep = size_t{4} << 10;
    std::string text;
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return text;
    for (size_t length = 0; length < kMost;) {
        text.resize(length + kStep);
        const ssize_t got = ::read(file, text.data() + length, kStep);
        if (got < 0 && errno == EINTR)
            continue;
        length += got > 0 ? static_cast<size_t>(got) : 0;
        text.resize(length);
        if (got <= 0)
            break;
    }
    ::close(file);
    return text;
}

} // namespace lz::runtime
