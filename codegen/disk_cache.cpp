#include "codegen/disk_cache.h"

#include <xxhash.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <unistd.h>

namespace lz::codegen {
namespace {

namespace fs = std::filesystem;

/// A file is: this header, the key, the content, and an XXH3-128 of all before it.
struct Header {
    char magic[8];
    uint64_t key_bytes;
    uint64_t content_bytes;
};
constexpr char kMagic[8] = {'L', 'Z', 'K', 'E', 'R', 'N', '0', '1'};
constexpr const char *kSuffix = ".lzk";
/// Temporary files of processes that died are removed when they are older than this.
constexpr auto kAbandoned = std::chrono::hours(1);

std::vector<std::byte> read_file(const std::string &path) {
    std::ifstream in(path, std::ios::binary | std::ios::ate);
    if (!in)
        return {};
    const auto size = static_cast<std::streamoff>(in.tellg());
    if (size <= 0)
        return {};
    std::vector<std::byte> bytes(static_cast<size_t>(size));
    in.seekg(0);
    in.read(reinterpret_cast<char *>(bytes.data()), size);
    if (!in)
        return {};
    return bytes;
}

/// The content if `file` is whole and holds this key.
std::optional<std::vector<std::byte>> unpack(std::span<const std::byte> file,
                                             std::span<const std::byte> key) {
    Header header;
    if (file.size() < sizeof(Header) + sizeof(XXH128_canonical_t))
        return std::nullopt;
    std::memcpy(&header, file.data(), sizeof(Header));
    const size_t room = file.size() - sizeof(Header) - sizeof(XXH128_canonical_t);
    if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_bytes > room ||
        header.content_bytes != room - header.key_bytes)
        return std::nullopt;
    XXH128_canonical_t sum;
    std::memcpy(&sum, file.data() + file.size() - sizeof sum, sizeof sum);
    const XXH128_hash_t actual = XXH3_128bits(file.data(), file.size() - sizeof sum);
    if (!XXH128_isEqual(actual, XXH128_hashFromCanonical(&sum)))
        return std::nullopt;
    const auto stored_key = file.subspan(sizeof(Header), header.key_bytes);
    if (!std::ranges::equal(stored_key, key))
        return std::nullopt;
    const auto content = file.subspan(sizeof(Header) + header.key_bytes, header.content_bytes);
    return std::vector<std::byte>(content.begin(), content.end());
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
      usable_(!directory_.empty()) {
    if (!usable_)
        return;
    std::error_code error;
    fs::create_directories(directory_, error);
    if (error || ::access(directory_.c_str(), W_OK | X_OK) != 0)
        give_up(error ? error.message() : "it cannot be written");
}

void DiskCache::give_up(const std::string &why) {
    if (usable_.exchange(false) && log_)
        log_(fmt::format(
            "the kernel cache directory {} is not used: {}; kernels are compiled anew in each process",
            directory_, why));
}

std::string DiskCache::path_of(std::span<const std::byte> key) const {
    const XXH128_hash_t hash = XXH3_128bits(key.data(), key.size());
    return fmt::format("{}/{:016x}{:016x}{}", directory_, hash.high64, hash.low64, kSuffix);
}

std::optional<std::vector<std::byte>> DiskCache::find(std::span<const std::byte> key) {
    if (!usable_)
        return std::nullopt;
    const std::string path = path_of(key);
    const std::vector<std::byte> file = read_file(path);
    std::error_code error;
    if (file.empty() && !fs::exists(path, error))
        return std::nullopt;
    auto content = unpack(file, key);
    if (!content) {
        fs::remove(path, error);
        if (log_)
            log_(fmt::format("removed the damaged or outdated kernel cache file {}", path));
        return std::nullopt;
    }
    fs::last_write_time(path, fs::file_time_type::clock::now(), error); // used: youngest for eviction
    return content;
}

void DiskCache::store(std::span<const std::byte> key, std::span<const std::byte> content) {
    if (!usable_)
        return;
    const std::string path = path_of(key);
    const std::string temporary = fmt::format("{}/tmp-{}-{}", directory_, ::getpid(), next_temporary_++);
    const std::vector<std::byte> file = pack(key, content);
    {
        std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
        out.write(reinterpret_cast<const char *>(file.data()), static_cast<std::streamsize>(file.size()));
        out.close();
        std::error_code error;
        if (!out) {
            fs::remove(temporary, error);
            give_up("a file could not be written (is the disk full?)");
            return;
        }
        fs::rename(temporary, path, error);
        if (error) {
            const std::string why = error.message();
            fs::remove(temporary, error);
            give_up(why);
            return;
        }
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
    struct File {
        fs::path path;
        fs::file_time_type used;
        int64_t bytes;
    };
    std::vector<File> files;
    int64_t total = 0;
    std::error_code error;
    const auto now = fs::file_time_type::clock::now();
    for (fs::directory_iterator it(directory_, error), end; !error && it != end; it.increment(error)) {
        std::error_code gone;
        const auto used = it->last_write_time(gone);
        const auto bytes = static_cast<int64_t>(it->file_size(gone));
        if (gone)
            continue;
        if (it->path().extension() == kSuffix) {
            files.push_back({it->path(), used, bytes});
            total += bytes;
        } else if (it->path().filename().string().starts_with("tmp-") && now - used > kAbandoned) {
            fs::remove(it->path(), gone);
        }
    }
    if (total > max_bytes_) {
        std::ranges::sort(files, {}, &File::used);
        for (const File &file : files) {
            if (total <= max_bytes_ / 4 * 3)
                break;
            fs::remove(file.path, error);
            total -= file.bytes;
        }
    }
    bytes_ = total;
}

} // namespace lz::codegen
