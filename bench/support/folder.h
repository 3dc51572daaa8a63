#pragma once
/// A temporary folder of a bench.

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lz::bench {

/// Is removed with what is in it when this goes.
class Folder {
public:
    Folder() {
        path_ = (std::filesystem::temp_directory_path() / "lazuli-bench-XXXXXX").string();
        if (!mkdtemp(path_.data()))
            path_.clear();
    }
    ~Folder() {
        std::error_code ignored;
        if (!path_.empty())
            std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder &) = delete;
    Folder &operator=(const Folder &) = delete;
    /// Empty where there is none.
    const std::string &path() const { return path_; }

private:
    std::string path_;
};

} // namespace lz::bench
