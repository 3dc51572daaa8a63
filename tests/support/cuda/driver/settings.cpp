#include "tests/support/cuda/driver/settings.h"

#include "tests/support/cuda/driver/cuda_api.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <thread>

namespace lz::fake_cuda {
namespace {

uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = std::getenv(name);
    return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

size_t bytes(const char *name, size_t otherwise) {
    const char *text = std::getenv(name);
    if (!text || !*text)
        return otherwise;
    char *unit = nullptr;
    const size_t count = std::strtoull(text, &unit, 10);
    switch (*unit) {
    case 'K':
        return count << 10;
    case 'M':
        return count << 20;
    case 'G':
        return count << 30;
    default:
        return count;
    }
}

/// Which of `devices` are left: the numbers up to the first that is none, as the real driver reads them.
std::vector<int> visible(int devices) {
    std::vector<int> seen;
    const char *text = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!text) {
        for (int index = 0; index < devices; ++index)
            seen.push_back(index);
        return seen;
    }
    std::istringstream list(text);
    for (std::string word; std::getline(list, word, ',');) {
        char *end = nullptr;
        const long index = std::strtol(word.c_str(), &end, 10);
        if (end == word.c_str() || index < 0 || index >= devices ||
            std::ranges::find(seen, index) != seen.end())
            break;
        seen.push_back(static_cast<int>(index));
    }
    return seen;
}

/// `7.5,9.0` as 75, 90: of device 0, of device 1, and of all behind the last one as of that.
std::vector<int> capabilities() {
    const char *text = std::getenv("LAZULI_FAKE_CUDA_CAPABILITY");
    std::vector<int> list;
    std::istringstream words(text ? text : "");
    for (std::string word; std::getline(words, word, ',');) {
        const size_t dot = word.find('.');
        list.push_back(std::atoi(word.c_str()) * 10 +
                       (dot == std::string::npos ? 0 : std::atoi(word.c_str() + dot + 1)));
    }
    if (list.empty())
        list.push_back(990);
    return list;
}

Settings read() {
    Settings s;
    const std::vector<int> all = capabilities();
    for (const int index :
         visible(static_cast<int>(std::min<uint64_t>(number("LAZULI_FAKE_CUDA_DEVICES", 1), 16))))
        s.capabilities.push_back(all[std::min(static_cast<size_t>(index), all.size() - 1)]);
    s.memory = bytes("LAZULI_FAKE_CUDA_MEMORY", s.memory);
    s.peers = number("LAZULI_FAKE_CUDA_PEERS", 1) != 0;
    s.vmm = number("LAZULI_FAKE_CUDA_VMM", 1) != 0;
    s.version = static_cast<int>(number("LAZULI_FAKE_CUDA_VERSION", 0));
    s.version_is_set = s.version != 0;
    if (!s.version_is_set)
        s.version = CUDA_VERSION;
    s.seed = number("LAZULI_FAKE_CUDA_SEED", 0);
    s.delay_us = static_cast<unsigned>(number("LAZULI_FAKE_CUDA_DELAY_US", s.delay_us));
    s.threads = static_cast<unsigned>(
        number("LAZULI_FAKE_CUDA_THREADS", std::max(1u, std::thread::hardware_concurrency())));
    s.deadlock_ms = static_cast<unsigned>(number("LAZULI_FAKE_CUDA_DEADLOCK_MS", s.deadlock_ms));
    s.log = number("LAZULI_FAKE_CUDA_LOG", 0) != 0;
    if (const char *text = std::getenv("LAZULI_FAKE_CUDA_FAIL"))
        s.fail = text;
    return s;
}

} // namespace

const Settings &settings() {
    static const auto *const s = new Settings(read());
    return *s;
}

} // namespace lz::fake_cuda
