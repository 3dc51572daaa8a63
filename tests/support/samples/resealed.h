#pragma once
/// Program files that were changed by somebody who knows their frame.

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <xxhash.h>

namespace lz::test {

/// A file whose manifest and texts are changed and whose checksum is right again; machine code stays as it
/// was.
class Resealed {
public:
    explicit Resealed(std::string file) : good_(std::move(file)) {
        uint32_t sections = 0;
        std::memcpy(&sections, &good_[12], sizeof sections);
        table_.resize(sections);
        std::memcpy(table_.data(), &good_[64], sections * sizeof(Entry));
    }

    std::string changed(std::mt19937 &random) const {
        const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
        std::string file = good_;
        for (size_t edits = 1 + below(2); edits > 0; --edits) {
            const size_t section = below(3) == 0 ? 0 : below(table_.size());
            const Entry &e = table_[section];
            const bool is_code = std::string_view(good_).substr(e.offset, 4) == "\x7f"
                                                                                "ELF";
            if (e.bytes == 0 || is_code)
                continue;
            size_t place = e.offset + below(e.bytes);
            const size_t end = e.offset + e.bytes;
            if (section == 0) { // a few bytes of the manifest
                constexpr uint32_t kOdd[] = {0, 1, 2, 3, 64, 0xff, 0x7fffffff, 0xffffffff};
                const uint32_t odd = kOdd[below(std::size(kOdd))];
                std::memcpy(&file[place], &odd, std::min<size_t>(1 + below(4), end - place));
                continue;
            }
            while (place < end &&
                   !std::isdigit(static_cast<unsigned char>(file[place]))) // a number of a text
                ++place;
            if (place < end)
                file[place] = static_cast<char>('0' + below(10));
        }
        return sealed(std::move(file));
    }

    /// With `text`, wherever it is, as another one of its length; nothing where it is nowhere.
    std::optional<std::string> replaced(std::string_view text, std::string_view by) const {
        std::string file = good_;
        size_t at = file.find(text);
        if (at == std::string::npos || by.size() != text.size())
            return std::nullopt;
        for (; at != std::string::npos; at = file.find(text, at))
            file.replace(at, text.size(), by);
        return sealed(std::move(file));
    }

private:
    static std::string sealed(std::string file) {
        XXH128_canonical_t sum;
        file.replace(32, sizeof sum, sizeof sum, '\0');
        XXH128_canonicalFromHash(&sum, XXH3_128bits(file.data(), file.size()));
        file.replace(32, sizeof sum, reinterpret_cast<const char *>(&sum), sizeof sum);
        return file;
    }

    struct Entry {
        uint32_t kind, none;
        uint64_t offset, bytes;
    };
    std::string good_;
    std::vector<Entry> table_;
};

} // namespace lz::test
