#include "tests/support/cuda/driver/faults.h"

#include "tests/support/cuda/driver/fake_cuda.h"
#include "tests/support/cuda/driver/settings.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace lz::fake_cuda {
namespace {

struct Fault {
    std::string function;
    unsigned left;
    CUresult error;
    bool stays = false;
};

struct Faults {
    std::mutex mutex;
    std::map<std::string, uint64_t, std::less<>> calls;
    uint64_t all = 0;
    std::vector<Fault> armed;
    std::string message;

    Faults() {
        // function:nth:error, several with commas
        std::string text = settings().fail;
        while (!text.empty()) {
            const std::string one = text.substr(0, text.find(','));
            text.erase(0, one.size() + 1);
            const size_t first = one.find(':'), second = one.find(':', first + 1);
            if (second == std::string::npos) {
                std::fprintf(stderr, "fake CUDA: LAZULI_FAKE_CUDA_FAIL: '%s' is not function:nth:error.\n",
                             one.c_str());
                continue;
            }
            armed.push_back({one.substr(0, first), static_cast<unsigned>(std::atoi(one.c_str() + first + 1)),
                             static_cast<CUresult>(std::atoi(one.c_str() + second + 1))});
        }
    }
};

Faults &faults() {
    static auto *const f = new Faults;
    return *f;
}

} // namespace

CUresult count_call(const char *function, bool &stays) {
    stays = false;
    Faults &f = faults();
    const std::lock_guard lock(f.mutex);
    ++f.all;
    const auto found = f.calls.find(std::string_view(function));
    if (found == f.calls.end())
        f.calls.emplace(function, 1);
    else
        ++found->second;
    for (auto armed = f.armed.begin(); armed != f.armed.end(); ++armed)
        if ((armed->function == "*" || armed->function == function) && --armed->left == 0) {
            const CUresult error = armed->error;
            stays = armed->stays;
            f.armed.erase(armed);
            return error;
        }
    return CUDA_SUCCESS;
}

void report(const std::string &text) {
    std::fprintf(stderr, "fake CUDA: %s\n", text.c_str());
    const std::lock_guard lock(faults().mutex);
    faults().message = text;
}

} // namespace lz::fake_cuda

using lz::fake_cuda::faults;

#define LAZULI_EXPORT extern "C" __attribute__((visibility("default")))

LAZULI_EXPORT void lazuli_fake_cuda_fail(const char *function, unsigned nth, int error) {
    const std::lock_guard lock(faults().mutex);
    std::erase_if(faults().armed, [&](const auto &f) { return nth == 0 && f.function == function; });
    if (nth != 0)
        faults().armed.push_back({function, nth, static_cast<CUresult>(error)});
}

LAZULI_EXPORT void lazuli_fake_cuda_lose(const char *function, unsigned nth, int error) {
    lazuli_fake_cuda_fail(function, nth, error);
    const std::lock_guard lock(faults().mutex);
    if (nth != 0)
        faults().armed.back().stays = true;
}

LAZULI_EXPORT int lazuli_fake_cuda_count(const char *function) {
    return lz::fake_cuda::fail_or_count(function);
}

LAZULI_EXPORT uint64_t lazuli_fake_cuda_calls(const char *function) {
    const std::lock_guard lock(faults().mutex);
    if (std::strcmp(function, "*") == 0)
        return faults().all;
    const auto found = faults().calls.find(std::string_view(function));
    return found == faults().calls.end() ? 0 : found->second;
}

LAZULI_EXPORT const char *const *lazuli_fake_cuda_functions() {
    static const std::vector<const char *> *const names = [] {
        auto *all = new std::vector<const char *>;
        for (const auto *e = lz::fake_cuda::exported_functions(); e->symbol; ++e)
            all->push_back(e->symbol);
        all->push_back(nullptr);
        return all;
    }();
    return names->data();
}

LAZULI_EXPORT size_t lazuli_fake_cuda_message(char *text, size_t capacity) {
    const std::lock_guard lock(faults().mutex);
    const std::string &message = faults().message;
    if (capacity != 0) {
        const size_t count = std::min(message.size(), capacity - 1);
        std::memcpy(text, message.data(), count);
        text[count] = '\0';
    }
    return message.size();
}
