#include "codegen/cache/disk_cache.h"

#include <xxhash.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>

namespace lz::codegen {
namespace {

/// A file is: this header, the key, the content, and an XXH3-128 of all before it.
struct Header {
    char magic[8];
    uint64_t key_bytes;
    uint64_t content_bytes;
};
constexpr char kMagic[8] = {'L', 'Z', 'K', 'E', 'R', 'N', '0', '3'};
constexpr const char *kSuffix = ".lzk";
/// Temporary files of processes that died are removed when they are older than this.
constexpr int64_t kAbandoned = int64_t{3600} * 1'000'000'000; // nanoseconds
/// No kernel is as large: a file that says so is not read.
constexpr int64_t kMaxFile = int64_t{64} << 20;

/// Whether a file that begins so, and has so many bytes, may hold this key.
bool may_be_of(std::span<const std::byte> first, int64_t size, std::span<const std::byte> key) {
    Header header;
    std::memcpy(&header, first.data(), sizeof(Header));
    const auto all = static_cast<uint64_t>(size);
    if (all < sizeof(Header) + sizeof(XXH128_canonical_t))
        return false;
    const uint64_t room = all - sizeof(Header) - sizeof(XXH128_canonical_t);
    return std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 && header.key_bytes == key.size() &&
           header.key_bytes <= room && header.content_bytes == room - header.key_bytes;
}

/// The content if `file`, whose beginning has been looked at, is whole and holds this key.
std::optional<std::vector<std::byte>> unpack(std::span<const std::byte> file,
                                             std::span<const std::byte> key) {
    XXH128_canonical_t sum;
    std::memcpy(&sum, file.data() + file.size() - sizeof sum, sizeof sum);
    const XXH128_hash_t actual = XXH3_128bits(file.data(), file.size() - sizeof sum);
    if (!XXH128_isEqual(actual, XXH128_hashFromCanonical(&sum)) ||
        !std::ranges::equal(file.subspan(sizeof(Header), key.size()), key))
        return std::nullopt;
    const auto content = file.subspan(sizeof(Header) + key.size());
    return std::vector<std::byte>(content.begin(), content.end() - sizeof sum);
}

std::vector<std::byte> pack(std::span<const std::byte> key, std::span<const std::byte> content) {
    Header header{};
    std::memcpy(header.magic, kMagic, sizeof kMagic);
    header.key_bytes = key.size();
    header.content_bytes = content.size();
    std::vector<std::byte> file(sizeof(Header) + key.size() + content.size() + sizeof(XXH128_canonical_t));
    std::byte *at = file.data();
    std::memcpy(at, &header, sizeof header);
    at = std::ranges::copy(key, at + sizeof header).out;
    at = std::ranges::copy(content, at).out;
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits(file.data(), static_cast<size_t>(at - file.data())));
    std::memcpy(at, &sum, sizeof sum);
    return file;
}

} // namespace

DiskCache::DiskCache(std::string directory, int64_t max_bytes, std::function<void(const std::string &)> log)
    : directory_(std::move(directory)), max_bytes_(max_bytes), log_(std::move(log)),
      reads_(!directory_.empty()), writes_(!directory_.empty()) {
    if (!reads_)
        return;
    if (const std::string why = files_.open(directory_); !why.empty()) {
        reads_ = false;
        give_up(why);
    }
}

void DiskCache::say(const std::string &sentence) const {
    if (log_)
        log_(sentence);
}

/// What is there is still read, if it may be.
void DiskCache::give_up(const std::string &why) {
    if (writes_.exchange(false))
        say(fmt::format("the kernel cache directory {} is not {}: {}; {}", directory_,
                        reads_ ? "written" : "used", why,
                        reads_ ? "kernels that are not in it are compiled anew in each process"
                               : "kernels are compiled anew in each process"));
}

/// There may be more of them; it is said of the first.
void DiskCache::skip(const std::string &name, const std::string &why) {
    if (!skipped_one_.exchange(true))
        say(fmt::format("the kernel cache file {}/{} is not used: {}; its kernel is compiled anew in each "
                        "process",
                        directory_, name, why));
}

std::string DiskCache::name_of(std::span<const std::byte> key) {
    const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
    return fmt::format("{:016x}{:016x}{}", hash.high64, hash.low64, kSuffix);
}

std::optional<std::vector<std::byte>> DiskCache::find(std::span<const std::byte> key) {
    if (!reads_)
        return std::nullopt;
    const std::string name = name_of(key);
    std::array<std::byte, sizeof(Header)> first;
    std::vector<std::byte> file;
    const auto found =
        files_.read(name, kMaxFile, first, [&](int64_t size) { return may_be_of(first, size, key); }, file);
    switch (found) {
    case PrivateDirectory::Found::Nothing:
        return std::nullopt;
    case PrivateDirectory::Found::Refused:
        skip(name, "it is not a plain file that only this user can have written");
        return std::nullopt;
    case PrivateDirectory::Found::File:
        if (auto content = unpack(file, key))
            return content;
        break;
    case PrivateDirectory::Found::Damaged:
        break;
    }
    files_.remove(name);
    say(fmt::format("removed the damaged or outdated kernel cache file {}/{}", directory_, name));
    return std::nullopt;
}

void DiskCache::store(std::span<const std::byte> key, std::span<const std::byte> content) {
    const std::vector<std::byte> file = pack(key, content);
    if (!writes_ || static_cast<int64_t>(file.size()) > kMaxFile)
        return;
    const std::string name = name_of(key);
    const PrivateDirectory::Written written = files_.write(name, file);
    if (!written.why_not.empty()) {
        if (written.others_too)
            give_up(written.why_not);
        else
            skip(name, written.why_not);
        return;
    }
    const std::lock_guard lock(mutex_);
    if (bytes_ >= 0)
        bytes_ += static_cast<int64_t>(file.size());
    if (bytes_ < 0 || bytes_ > max_bytes_)
        evict();
}

/// Counts the files and removes the least recently used until three quarters of the limit are left. Other
/// processes may do the same at once: a file that is gone already is no error.
void DiskCache::evict() {
    std::vector<PrivateDirectory::Entry> files;
    int64_t total = 0;
    const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
    for (PrivateDirectory::Entry &file : files_.list()) {
        if (file.name.ends_with(kSuffix)) {
            total += file.bytes;
            files.push_back(std::move(file));
        } else if (file.name.starts_with(PrivateDirectory::kTemporary) && now - file.used > kAbandoned) {
            files_.remove(file.name);
        }
    }
    if (total > max_bytes_) {
        std::ranges::sort(files, {}, &PrivateDirectory::Entry::used);
        for (const PrivateDirectory::Entry &file : files) {
            if (total <= max_bytes_ / 4 * 3)
                break;
            files_.remove(file.name);
            total -= file.bytes;
        }
    }
    bytes_ = total;
}

} // namespace lz::codegen
