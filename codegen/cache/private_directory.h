#pragma once
/// A directory in which nobody but this user (or root) can have put anything: what is read from it may be
/// executed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lz::codegen {

/// Holds the directory open: names are looked up in it whatever becomes of its path. Any thread.
class PrivateDirectory {
public:
    PrivateDirectory() = default;
    ~PrivateDirectory();
    PrivateDirectory(const PrivateDirectory &) = delete;
    PrivateDirectory &operator=(const PrivateDirectory &) = delete;

    /// Opens it, made with its parents (for this user alone) where it is not there. Each directory on its way
    /// belongs to this user or root, and others cannot write it (or cannot rename what is not theirs in it,
    /// as in /tmp). Returns why it cannot be used, or "".
    std::string open(const std::string &path);
    bool is_open() const { return descriptor_ >= 0; }

    enum class Found : uint8_t {
        Nothing, ///< there is no such name, or it cannot be read
        File,
        Refused, ///< no plain file, another's, or one that others can write; never followed and never read
        Damaged, ///< larger than `most`, or `head` did not like its beginning
    };
    /// Reads a file whole. `head` sees its first bytes (as many as fit the span that is given) and its size
    /// before room is made for the rest. A file that was read is now the one used last.
    Found read(const std::string &name, int64_t most, std::span<std::byte> first,
               const std::function<bool(int64_t size)> &head, std::vector<std::byte> &content) const;

    struct Written {
        std::string why_not; ///< "": it was
        bool others_too;     ///< or is it this name or size only
    };
    /// Writes a file beside under a new name and puts it in the place of `name`, whatever is there (but a
    /// directory with something in it).
    Written write(const std::string &name, std::span<const std::byte> content) const;
    /// A file, where it is there.
    void remove(const std::string &name) const;

    struct Entry {
        std::string name;
        int64_t bytes;
        int64_t used; ///< nanoseconds since 1970
    };
    /// Plain files.
    std::vector<Entry> list() const;

    /// Files whose names begin so were being written by `write`; when it was interrupted they stay.
    static constexpr const char *kTemporary = "tmp-";

private:
    int descriptor_ = -1;
};

} // namespace lz::codegen
