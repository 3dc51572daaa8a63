#pragma once
/// Files of the kernel cache: bytes under a key, checked, bounded in size, shared between processes.

#include "codegen/cache/private_directory.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lz::codegen {

/// What it holds is executed, so it believes only what this user or root has written, and nobody else can
/// have (private_directory.h). Whatever stands in the way of an entry, or of all of them, is said once and
/// done without: nothing here throws but std::bad_alloc.
class DiskCache {
public:
    /// An empty directory name makes a cache that holds nothing. `log` gets whole sentences.
    DiskCache(std::string directory, int64_t max_bytes, std::function<void(const std::string &)> log);

    /// The bytes stored under the key, or nothing. A file that is damaged or belongs to another key is
    /// removed.
    std::optional<std::vector<std::byte>> find(std::span<const std::byte> key);
    /// Stores bytes under the key; when that is not possible says so once and goes on without.
    void store(std::span<const std::byte> key, std::span<const std::byte> content);

    const std::string &directory() const { return directory_; }
    /// Whether entries can be stored, as far as it is known.
    bool writes() const { return writes_.load(std::memory_order_relaxed); }

private:
    static std::string name_of(std::span<const std::byte> key);
    void give_up(const std::string &why);
    void skip(const std::string &name, const std::string &why);
    void say(const std::string &sentence) const;
    void evict();

    std::string directory_;
    const int64_t max_bytes_;
    const std::function<void(const std::string &)> log_;
    PrivateDirectory files_;
    std::atomic<bool> reads_, writes_;
    std::atomic<bool> skipped_one_{false};
    std::mutex mutex_;   ///< guards what follows
    int64_t bytes_ = -1; ///< estimate of what the files take, -1: not counted yet
};

} // namespace lz::codegen
