#include "frontend/io/zip.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <zlib.h>

namespace lz::io {

namespace {

constexpr size_t kAlignment = 64, kStep = size_t{1} << 30;
constexpr uint64_t kSmall = 0xffffffff; ///< from here on sizes take 64 bits

/// Numbers one after the other, little-endian.
class Fields {
public:
    template <class T>
    Fields &put(T value) {
        text_.append(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    Fields &u16(uint64_t value) { return put(static_cast<uint16_t>(value)); }
    Fields &u32(uint64_t value) { return put(static_cast<uint32_t>(std::min(value, kSmall))); }
    Fields &u64(uint64_t value) { return put(value); }
    const std::string &text() const { return text_; }

private:
    std::string text_;
};

/// What headers in both places have in common. No time of this machine: 1 January 1980.
void common(Fields &fields, const ZipEntry &entry, bool large) {
    fields.u16(large ? 45 : 20).u16(0x0800).u16(entry.method).u16(0).u16(0x21).u32(entry.crc);
    fields.u32(large ? kSmall : entry.packed).u32(large ? kSmall : entry.size).u16(entry.name.size());
}

uint32_t checksum(std::span<const std::byte> bytes, uint32_t before) {
    uLong crc = before;
    for (size_t at = 0; at < bytes.size(); at += kStep)
        crc = crc32(crc, reinterpret_cast<const Bytef *>(bytes.data()) + at,
                    static_cast<uInt>(std::min(kStep, bytes.size() - at)));
    return static_cast<uint32_t>(crc);
}

std::string deflated(std::span<const std::byte> head, std::span<const std::byte> body) {
    z_stream stream{};
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        throw std::bad_alloc();
    std::string out;
    char block[1 << 16];
    const auto feed = [&](std::span<const std::byte> bytes, int flush) {
        stream.next_in = reinterpret_cast<Bytef *>(const_cast<std::byte *>(bytes.data()));
        stream.avail_in = static_cast<uInt>(bytes.size());
        do {
            stream.next_out = reinterpret_cast<Bytef *>(block);
            stream.avail_out = sizeof block;
            deflate(&stream, flush);
            out.append(block, sizeof block - stream.avail_out);
        } while (stream.avail_out == 0);
    };
    feed(head, Z_NO_FLUSH);
    for (size_t at = 0; at < body.size(); at += kStep)
        feed(body.subspan(at, std::min(kStep, body.size() - at)), Z_NO_FLUSH);
    feed({}, Z_FINISH);
    deflateEnd(&stream);
    return out;
}

} // namespace

void ZipWriter::add(const std::string &name, std::string_view head, std::span<const std::byte> body,
                    bool deflate) {
    const std::span<const std::byte> head_bytes(reinterpret_cast<const std::byte *>(head.data()),
                                                head.size());
    ZipEntry entry;
    entry.name = name;
    entry.begin = file_.size();
    entry.size = head.size() + body.size();
    entry.crc = checksum(body, checksum(head_bytes, 0));
    std::string packed;
    if (deflate) {
        packed = deflated(head_bytes, body);
        entry.method = 8;
    }
    entry.packed = deflate ? packed.size() : entry.size;
    const bool large = entry.packed >= kSmall || entry.size >= kSmall;

    Fields extra;
    if (large)
        extra.u16(1).u16(16).u64(entry.size).u64(entry.packed);
    const size_t before = entry.begin + 30 + name.size() + extra.text().size() + 4;
    if (!deflate) // PyTorch's id of such a field
        extra.u16(0x4246).u16((kAlignment - before % kAlignment) % kAlignment);
    std::string padded = extra.text();
    if (!deflate)
        padded.resize(padded.size() + (kAlignment - before % kAlignment) % kAlignment, '\0');
    Fields local;
    local.u32(0x04034b50);
    common(local, entry, large);
    local.u16(padded.size());
    file_.write(local.text());
    file_.write(name);
    file_.write(padded);
    if (deflate) {
        file_.write(packed);
    } else {
        file_.write(head);
        file_.write(body.data(), body.size());
    }
    entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
    const uint64_t begin = file_.size();
    for (const ZipEntry &entry : entries_) {
        const bool large = entry.packed >= kSmall || entry.size >= kSmall;
        Fields extra, numbers;
        if (large)
            numbers.u64(entry.size).u64(entry.packed);
        if (entry.begin >= kSmall)
            numbers.u64(entry.begin);
        if (!numbers.text().empty())
            extra.u16(1).u16(numbers.text().size());
        Fields central;
        central.u32(0x02014b50).u16(45);
        common(central, entry, large);
        central.u16(extra.text().size() + numbers.text().size()).u16(0).u16(0).u16(0).u32(0).u32(entry.begin);
        file_.write(central.text());
        file_.write(entry.name);
        file_.write(extra.text());
        file_.write(numbers.text());
    }
    const uint64_t end = file_.size(), bytes = end - begin, count = entries_.size();
    Fields last;
    if (begin >= kSmall || bytes >= kSmall || count >= 0xffff) {
        last.u32(0x06064b50)
            .u64(44)
            .u16(45)
            .u16(45)
            .u32(0)
            .u32(0)
            .u64(count)
            .u64(count)
            .u64(bytes)
            .u64(begin);
        last.u32(0x07064b50).u32(0).u64(end).u32(1);
    }
    const uint64_t few = std::min<uint64_t>(count, 0xffff);
    last.u32(0x06054b50).u16(0).u16(0).u16(few).u16(few).u32(bytes).u32(begin).u16(0);
    file_.write(last.text());
}

} // namespace lz::io
