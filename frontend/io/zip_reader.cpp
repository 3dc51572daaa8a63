#include "frontend/io/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <zlib.h>

namespace lz::io {

namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr size_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56, kLocatorSize = 20;
constexpr uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1, kExtra64 = 1;
constexpr uint64_t kDeflateLimit = 1032; ///< one byte becomes at most so many (zlib's technical details)

} // namespace

void ZipReader::fail(const ZipEntry &entry, const std::string &what) const {
    source_.fail(fmt::format("entry {} {}", in_quotes(entry.name), what));
}

ZipReader::ZipReader(const Source &source) : source_(source) {
    read_directory();
    // Each takes 46 bytes at least: a count cannot make more entries than the directory has room for.
    for (size_t at = directory_, i = 0; i < count_; ++i)
        read_entry(at);
    place_entries();
}

void ZipReader::read_directory() {
    const size_t size = source_.bytes.size();
    if (size < kEndSize)
        source_.fail("it is cut short: it has no directory");
    size_t end = size - kEndSize;
    const size_t first = end - std::min<size_t>(end, 0xffff);
    while (source_.number<uint32_t>(end) != kEnd ||
           end + kEndSize + source_.number<uint16_t>(end + 20) != size) {
        if (end == first)
            source_.fail("it is cut short: it has no directory");
        --end;
    }
    uint64_t bytes = source_.number<uint32_t>(end + 12), limit = end;
    count_ = source_.number<uint16_t>(end + 10);
    directory_ = source_.number<uint32_t>(end + 16);
    if (end >= kLocatorSize && source_.number<uint32_t>(end - kLocatorSize) == kLocator64) {
        const auto at = source_.number<uint64_t>(end - kLocatorSize + 8);
        if (at > end - kLocatorSize || end - kLocatorSize - at < kEnd64Size ||
            source_.number<uint32_t>(at) != kEnd64)
            source_.fail("its directory of 64-bit sizes is not where it says");
        count_ = source_.number<uint64_t>(at + 32);
        bytes = source_.number<uint64_t>(at + 40);
        directory_ = source_.number<uint64_t>(at + 48);
        limit = at;
    }
    if (directory_ > limit || bytes > limit - directory_)
        source_.fail(fmt::format("its directory would be {} bytes from {} on, and the file has {}", bytes,
                                 directory_, size));
    directory_end_ = directory_ + bytes;
    if (count_ > bytes / kCentralSize)
        source_.fail(fmt::format("its directory of {} bytes cannot have {} entries", bytes, count_));
}

void ZipReader::read_entry(size_t &at) {
    if (directory_end_ - at < kCentralSize || source_.number<uint32_t>(at) != kCentral)
        source_.fail(fmt::format("its directory has no entry at byte {}", at));
    ZipEntry entry;
    const auto flags = source_.number<uint16_t>(at + 8);
    entry.method = source_.number<uint16_t>(at + 10);
    entry.crc = source_.number<uint32_t>(at + 16);
    entry.packed = source_.number<uint32_t>(at + 20);
    entry.size = source_.number<uint32_t>(at + 24);
    const size_t name = source_.number<uint16_t>(at + 28), extra = source_.number<uint16_t>(at + 30),
                 comment = source_.number<uint16_t>(at + 32);
    entry.begin = source_.number<uint32_t>(at + 42);
    at += kCentralSize;
    if (directory_end_ - at < name + extra + comment)
        source_.fail("an entry of its directory is cut short");
    entry.name = source_.text(at, name);
    at += name;
    // 64-bit sizes stand in an extra field, in this order, for each that is all ones.
    for (size_t field = at, end = at + extra; end - field >= 4;) {
        const auto id = source_.number<uint16_t>(field);
        size_t length = source_.number<uint16_t>(field + 2);
        field += 4;
        if (length > end - field)
            fail(entry, "has an extra field that is cut short");
        const size_t next = field + length;
        if (id == kExtra64)
            for (uint64_t *number : {&entry.size, &entry.packed, &entry.begin})
                if (*number == 0xffffffff && next - field >= 8) {
                    *number = source_.number<uint64_t>(field);
                    field += 8;
                }
        field = next;
    }
    at += extra + comment;
    if (flags & kEncrypted)
        fail(entry, "is encrypted");
    if (entry.method != kStored && entry.method != kDeflated)
        fail(entry,
             fmt::format("is packed by method {}; stored (0) and deflated (8) are read", entry.method));
    if (entry.method == kStored && entry.packed != entry.size)
        fail(entry, fmt::format("is stored in {} bytes and has {}", entry.packed, entry.size));
    if (entry.packed < entry.size / kDeflateLimit)
        fail(entry, fmt::format("cannot become {} bytes of {}", entry.size, entry.packed));
    entries_.push_back(std::move(entry));
}

/// Finds the bytes of the entries, which may not share any: archives that unpack to far more than they are,
/// do.
void ZipReader::place_entries() {
    std::vector<ZipEntry *> order;
    for (ZipEntry &entry : entries_) {
        if (entry.begin > directory_ || directory_ - entry.begin < kLocalSize ||
            source_.number<uint32_t>(entry.begin) != kLocal)
            fail(entry, fmt::format("does not begin at byte {}", entry.begin));
        const size_t name = source_.number<uint16_t>(entry.begin + 26),
                     extra = source_.number<uint16_t>(entry.begin + 28);
        entry.data = entry.begin + kLocalSize + name + extra;
        if (entry.data > directory_ || entry.packed > directory_ - entry.data)
            fail(entry, fmt::format("would have {} bytes from {} on, and the directory begins at {}",
                                    entry.packed, entry.data, directory_));
        if (source_.text(entry.begin + kLocalSize, name) != entry.name)
            fail(entry, "has another name where it begins");
        order.push_back(&entry);
    }
    std::sort(order.begin(), order.end(), [](auto *a, auto *b) { return a->begin < b->begin; });
    for (size_t i = 1; i < order.size(); ++i)
        if (order[i]->begin < order[i - 1]->data + order[i - 1]->packed)
            fail(*order[i], "overlaps another one");
    for (const ZipEntry &entry : entries_)
        if (!by_name_.emplace(entry.name, &entry).second)
            fail(entry, "is there twice");
}

const ZipEntry *ZipReader::find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
}

Source ZipReader::open(const ZipEntry &entry, Budget &budget, bool check) const {
    constexpr size_t kStep = size_t{1} << 30; // zlib counts in 32 bits
    const std::span<const std::byte> packed = source_.bytes.subspan(entry.data, entry.packed);
    Source out = source_;
    out.bytes = packed;
    if (entry.method == kDeflated) {
        if (!budget.take(entry.size))
            fail(entry, fmt::format(
                            "would take {} bytes unpacked; with what came before it that is more than the {} "
                            "that may be taken (max_unpacked_bytes)",
                            entry.size, budget.max()));
        const Buffer buffer(entry.size);
        z_stream stream{};
        if (inflateInit2(&stream, -MAX_WBITS) != Z_OK)
            throw std::bad_alloc();
        size_t in = 0, made = 0;
        int code = Z_OK;
        Bytef none = 0;
        while (code == Z_OK) {
            const size_t in_step = std::min(kStep, packed.size() - in),
                         out_step = std::min(kStep, entry.size - made);
            stream.next_in = reinterpret_cast<Bytef *>(const_cast<std::byte *>(packed.data())) + in;
            stream.avail_in = static_cast<uInt>(in_step);
            stream.next_out = out_step ? reinterpret_cast<Bytef *>(buffer.data()) + made : &none;
            stream.avail_out = static_cast<uInt>(out_step);
            code = inflate(&stream, Z_NO_FLUSH);
            in += in_step - stream.avail_in;
            made += out_step - stream.avail_out;
        }
        inflateEnd(&stream);
        if (code != Z_STREAM_END || in != packed.size() || made != entry.size)
            fail(entry, fmt::format("does not unpack to {} bytes", entry.size));
        out.bytes = buffer.span();
        out.owner = buffer.owner();
    }
    if (!check)
        return out;
    uLong crc = crc32(0, nullptr, 0);
    for (size_t at = 0; at < out.bytes.size(); at += kStep)
        crc = crc32(crc, reinterpret_cast<const Bytef *>(out.bytes.data()) + at,
                    static_cast<uInt>(std::min(kStep, out.bytes.size() - at)));
    if (crc != entry.crc)
        fail(entry, "is damaged: its checksum differs");
    return out;
}

} // namespace lz::io
