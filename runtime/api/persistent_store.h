#pragma once
/// What a backend finds out by a search and wants to find again in another process: small texts of bytes
/// under keys. It may be gone at any time, and what is found may be out of date: who reads it checks it.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace lz::runtime {

class PersistentStore {
public:
    virtual ~PersistentStore() = default;
    // Any thread; neither throws but std::bad_alloc.
    virtual std::optional<std::vector<std::byte>> find(std::string_view key) = 0;
    virtual void keep(std::string_view key, std::span<const std::byte> content) = 0;
};

} // namespace lz::runtime
