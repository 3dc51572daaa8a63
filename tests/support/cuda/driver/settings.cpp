#include "tests/support/cuda/driver/settings.h"

#include "tests/support/cuda/driver/cuda_api.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
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

/// How many of `devices` are left: the numbers up to the first that is none, as the real driver reads them.
int visible(int devices) {
    const char *text = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!text)
        return devices;
    std::vector<int> seen;
    std::istringstream list(text);
    for (std::string word; std::getline(list, word, ',');) {
        char *end = nullptr;
        const long index = std::strtol(word.c_str(), &end, 10);
        if (end == word.c_str() || index < 0 || index >= devices ||
            std::ranges::find(seen, index) != seen.end())
            break;
        seen.push_back(static_cast<int>(index));
    }
    return static_cast<int>(seen.size());
}

Settings read() {
    Settings s;
    s.devices = visible(static_cast<int>(std::min<uint64_t>(number("LAZULI_FAKE_CUDA_DEVICES", 1), 16)));
    s.memory = bytes("LAZULI_FAKE_CUDA_MEMORY", s.memory);
    s.peers = number("LAZULI_FAKE_CUDA_PEERS", 1) != 0;
    s.vmm = number("LAZULI_FAKE_CUDA_VMM", 1) != 0;
    if (const char *text = std::getenv("LAZULI_FAKE_CUDA_CAPABILITY")) {
        s.capability_major = std::atoi(text);
        const char *dot = std::strchr(text, '.');
        s.capability_minor = dot ? std::atoi(dot + 1) : 0;
    }
    s.version = static_cast<int>(number("LAZULI_FAKE_CUDA_VERSION", CUDA_VERSION));
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
    static const Settings s = read();
    return s;
}

} // namespace lz::fake_cuda
