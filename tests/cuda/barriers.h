#pragma once
/// PTX in which a barrier is missing.

#include <string>
#include <string_view>
#include <vector>

namespace lz::test {

/// The text without each barrier in turn. Of a barrier of a cluster both halves go.
inline std::vector<std::string> without_each_barrier(const std::string &text) {
    std::vector<std::string> all;
    const auto erase = [](std::string &from, size_t at) { from.erase(at, from.find(';', at) + 1 - at); };
    for (const char *what : {"bar.sync", "barrier.sync", "bar.warp.sync", "barrier.cluster.arrive"})
        for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
            std::string &mutated = all.emplace_back(text);
            erase(mutated, at);
            if (std::string_view(what) == "barrier.cluster.arrive")
                erase(mutated, mutated.find("barrier.cluster.wait", at));
        }
    return all;
}

} // namespace lz::test
