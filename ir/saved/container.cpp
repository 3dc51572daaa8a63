#include "ir/saved/container.h"

#include "ir/diagnostic.h"
#include "ir/saved/bytes.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

namespace lz::ir {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

struct Header {
    std::array<char, 8> magic;
    uint32_t version;
    uint32_t sections;
    uint64_t file_bytes;
    uint64_t none;                       ///< 0
    XXH128_canonical_t checksum;         ///< XXH3-128 of the file with zeros here
    std::array<std::byte, 16> more_none; ///< 0
};
static_assert(sizeof(Header) == kProgramFileHeader);

struct Entry {
    uint32_t kind;
    uint32_t none; ///< 0
    uint64_t offset, bytes;
};
static_assert(sizeof(Entry) == 24);

constexpr size_t kAlignment = 64;

size_t aligned(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

XXH128_canonical_t checksum_of(Header header, std::span<const std::byte> rest) {
    header.checksum = {};
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
    if (!state)
        throw std::bad_alloc();
    XXH3_128bits_reset(state.get());
    XXH3_128bits_update(state.get(), &header, sizeof header);
    XXH3_128bits_update(state.get(), rest.data(), rest.size());
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits_digest(state.get()));
    return sum;
}

/// What the header says of a file of so many bytes.
Header header_of(std::span<const std::byte> begin, uint64_t file_bytes) {
    Header header{};
    if (begin.size() < kProgramFileMagic.size() ||
        std::memcmp(begin.data(), kProgramFileMagic.data(), kProgramFileMagic.size()) != 0)
        throw Failure(ErrorKind::Io, "is no program file: those that save_program writes begin otherwise");
    if (begin.size() < sizeof header)
        damaged("it ends in its header");
    std::memcpy(&header, begin.data(), sizeof header);
    if (header.version < kOldestProgramFileVersion || header.version > kProgramFileVersion)
        throw Failure(ErrorKind::Io,
                      fmt::format("is a program file of version {}, and this library reads {}: {}",
                                  header.version,
                                  kOldestProgramFileVersion == kProgramFileVersion
                                      ? fmt::format("version {}", kProgramFileVersion)
                                      : fmt::format("versions {} to {}", kOldestProgramFileVersion,
                                                    kProgramFileVersion),
                                  header.version > kProgramFileVersion ? "a newer library can load it"
                                                                       : "save the program again"));
    if (header.file_bytes != file_bytes)
        damaged(fmt::format("it has {} bytes and was {} bytes long", file_bytes, header.file_bytes));
    return header;
}

void check_sum(const Header &header, std::span<const std::byte> file) {
    const XXH128_canonical_t sum = checksum_of(header, file.subspan(sizeof(Header)));
    if (std::memcmp(&sum, &header.checksum, sizeof sum) != 0)
        damaged("its checksum is not that of its contents");
    const auto is_zero = [](std::byte b) { return b == std::byte{0}; };
    if (header.none != 0 || !std::ranges::all_of(header.more_none, is_zero))
        damaged("a reserved place of its header is in use");
}

} // namespace

std::vector<std::byte> write_container(const Container &container) {
    const std::vector<Section> &sections = container.sections;
    const size_t first = aligned(sizeof(Header) + sections.size() * sizeof(Entry));
    size_t end = first;
    std::vector<Entry> table;
    for (const Section &section : sections) {
        table.push_back({static_cast<uint32_t>(section.kind), 0, end, section.bytes.size()});
        end = aligned(end + section.bytes.size());
    }
    std::vector<std::byte> file(end);
    Header header{};
    std::ranges::copy(kProgramFileMagic, header.magic.begin());
    header.version = container.version;
    header.sections = static_cast<uint32_t>(sections.size());
    header.file_bytes = end;
    std::ranges::copy(std::as_bytes(std::span(table)), file.begin() + sizeof(Header));
    for (size_t s = 0; s < sections.size(); ++s)
        std::ranges::copy(sections[s].bytes, file.begin() + static_cast<ptrdiff_t>(table[s].offset));
    header.checksum = checksum_of(header, std::span(file).subspan(sizeof(Header)));
    std::memcpy(file.data(), &header, sizeof header);
    return file;
}

void check_program_file_begin(std::span<const std::byte> begin, uint64_t file_bytes) {
    header_of(begin, file_bytes);
}

Container read_container(std::span<const std::byte> file) {
    const Header header = header_of(file, file.size());
    check_sum(header, file);
    const size_t room = (file.size() - sizeof header) / sizeof(Entry);
    if (header.sections == 0 || header.sections > room)
        damaged(fmt::format("it says that it has {} sections", header.sections));
    size_t expected = aligned(sizeof header + header.sections * sizeof(Entry));
    Container container{header.version, {}};
    for (uint32_t s = 0; s < header.sections; ++s) {
        Entry entry{};
        std::memcpy(&entry, file.data() + sizeof header + s * sizeof entry, sizeof entry);
        if (entry.kind >= kSectionKinds || entry.none != 0 ||
            (entry.kind == static_cast<uint32_t>(SectionKind::Manifest)) != (s == 0))
            damaged(fmt::format("section {} is of an unknown kind", s));
        if (entry.offset != expected || entry.offset > file.size() ||
            entry.bytes > file.size() - entry.offset)
            damaged(fmt::format("section {} is not where it has to be", s));
        expected = aligned(entry.offset + entry.bytes);
        container.sections.push_back(
            {static_cast<SectionKind>(entry.kind), file.subspan(entry.offset, entry.bytes)});
    }
    if (expected != file.size())
        damaged("there is something behind its last section");
    return container;
}

} // namespace lz::ir
