#pragma once
/// Archives for the fuzzers of .npz and .pt: taken apart, and put together with right sizes and checksums.

#include "frontend/io/zip.h"
#include "structured.h"

#include <optional>
#include <string>
#include <vector>
#include <zlib.h>

namespace lz::fuzz {

struct Entry {
    std::string name, bytes;
    bool deflated = false;
};
using Archive = std::vector<Entry>;

/// Nothing where the reader refuses it.
inline std::optional<Archive> taken_apart(const std::string &file) {
    const io::Source source{"input", std::as_bytes(std::span(file)), nullptr, "load", {}};
    Archive out;
    try {
        const io::ZipReader reader(source);
        io::Budget budget(1 << 20);
        for (const io::ZipEntry &entry : reader.entries()) {
            const io::Source bytes = reader.open(entry, budget, false);
            out.push_back({entry.name, std::string(bytes.text(0, bytes.bytes.size())), entry.method != 0});
        }
    } catch (const IoError &) {
        return std::nullopt;
    }
    return out;
}

class LittleEndian {
public:
    template <class T>
    LittleEndian &put(T value) {
        text.append(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    std::string text;
};

inline std::string put_together(const Archive &archive) {
    std::string file, directory;
    for (const Entry &entry : archive) {
        // What gzip makes without its head of 10 bytes and its end of 8 is what archives hold.
        const std::string packed_bytes =
            entry.deflated ? packed(entry.bytes).substr(10) : entry.bytes + std::string(8, '\0');
        const auto stored = static_cast<uint32_t>(packed_bytes.size() - 8),
                   size = static_cast<uint32_t>(entry.bytes.size());
        const auto crc = static_cast<uint32_t>(
            crc32(0, reinterpret_cast<const Bytef *>(entry.bytes.data()), static_cast<uInt>(size)));
        const uint16_t method = entry.deflated ? 8 : 0;
        const auto begin = static_cast<uint32_t>(file.size());
        const auto common = [&](LittleEndian &to) {
            to.put<uint16_t>(20).put<uint16_t>(0).put(method).put<uint32_t>(0).put(crc).put(stored).put(size);
            to.put(static_cast<uint16_t>(entry.name.size())).put<uint16_t>(0);
        };
        LittleEndian local, central;
        local.put<uint32_t>(0x04034b50);
        common(local);
        file += local.text + entry.name + packed_bytes.substr(0, stored);
        central.put<uint32_t>(0x02014b50).put<uint16_t>(20);
        common(central);
        central.put<uint16_t>(0).put<uint16_t>(0).put<uint16_t>(0).put<uint32_t>(0).put(begin);
        directory += central.text + entry.name;
    }
    LittleEndian end;
    const auto count = static_cast<uint16_t>(archive.size());
    end.put<uint32_t>(0x06054b50).put<uint32_t>(0).put(count).put(count);
    end.put(static_cast<uint32_t>(directory.size())).put(static_cast<uint32_t>(file.size())).put<uint16_t>(0);
    return file + directory + end.text;
}

/// Changes of any archive: of its entries, or of one's bytes by `changed(Entry &)`.
template <class F>
std::string change_archive(const std::string &file, Random &random, F &&changed) {
    std::optional<Archive> archive = taken_apart(file);
    if (!archive || archive->empty())
        return {};
    const size_t at = random.below(archive->size());
    Entry &entry = (*archive)[at];
    switch (random.below(16)) {
    case 0:
        archive->erase(archive->begin() + static_cast<std::ptrdiff_t>(at));
        break;
    case 1:
        archive->push_back(Entry(entry));
        break;
    case 2:
        change(entry.name);
        break;
    case 3:
        entry.deflated = !entry.deflated;
        break;
    case 4:
        std::swap(entry.bytes, (*archive)[random.below(archive->size())].bytes);
        break;
    default:
        changed(entry);
    }
    std::string made = put_together(*archive);
    if (random.one_in(8)) { // a number of the frame
        const uint64_t number = odd_number(random);
        const size_t place = random.below(made.size()),
                     bytes = std::min(size_t{1} << random.below(4), made.size() - place);
        std::memcpy(made.data() + place, &number, bytes);
    }
    return made;
}

} // namespace lz::fuzz
