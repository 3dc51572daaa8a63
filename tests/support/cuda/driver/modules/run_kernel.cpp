// Runs a kernel's blocks on threads of the host.

#include "tests/support/cuda/driver/faults.h"
#include "tests/support/cuda/driver/memory/address_space.h"
#include "tests/support/cuda/driver/modules/module.h"
#include "tests/support/cuda/driver/settings.h"
#include "tests/support/cuda/driver/streams/work.h"
#include "tests/support/cuda/ptx/issue_slots.h"
#include "tests/support/cuda/ptx/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <thread>

namespace lz::fake_cuda {
namespace {

std::atomic<uint64_t> instructions{0}, issue_slots{0};

/// Threads that help those of streams. They are started when they are needed first, and never end.
class Helpers {
public:
    /// Runs part(0) to part(parts - 1), the last by the caller itself; returns when all are done.
    void run(unsigned parts, const std::function<void(unsigned)> &part) {
        struct Done {
            std::mutex mutex;
            std::condition_variable all;
            unsigned left;
        } done{{}, {}, parts - 1};
        {
            const std::lock_guard lock(mutex_);
            for (unsigned i = 0; i + 1 < parts; ++i)
                jobs_.emplace_back([&, i] {
                    part(i);
                    const std::lock_guard end(done.mutex);
                    if (--done.left == 0)
                        done.all.notify_one();
                });
            for (; threads_ + 1 < settings().threads; ++threads_)
                std::thread([this] { work(); }).detach();
        }
        wake_.notify_all();
        part(parts - 1);
        // Rather than wait for helpers that are busy, the caller does what nobody has begun.
        while (const auto job = take())
            job();
        std::unique_lock lock(done.mutex);
        done.all.wait(lock, [&] { return done.left == 0; });
    }

private:
    std::function<void()> take() {
        const std::lock_guard lock(mutex_);
        if (jobs_.empty())
            return nullptr;
        auto job = std::move(jobs_.front());
        jobs_.pop_front();
        return job;
    }
    void work() {
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                wake_.wait(lock, [&] { return !jobs_.empty(); });
            }
            while (const auto job = take())
                job();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> jobs_;
    unsigned threads_ = 0;
};

Helpers &helpers() {
    static auto *const h = new Helpers;
    return *h;
}

CUresult error_of(const ptx::Fault &fault) {
    switch (fault.kind) {
    case ptx::Fault::Kind::Address:
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    case ptx::Fault::Kind::Misaligned:
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    case ptx::Fault::Kind::Endless:
        return CUDA_ERROR_LAUNCH_TIMEOUT;
    default:
        return CUDA_ERROR_LAUNCH_FAILED;
    }
}

/// How many threads are worth it: below some thousand of a kernel's, waking one costs more.
unsigned parts_of(const KernelWork &work) {
    const uint64_t blocks = work.grid.count();
    if (blocks < 2 || blocks * work.block.count() < 4096)
        return 1;
    return static_cast<unsigned>(std::min<uint64_t>(blocks, settings().threads));
}

} // namespace

CUresult run_kernel(const KernelWork &work, const Context &context, uint64_t seed) {
    const uint32_t reach = context.reach;
    ptx::Launch launch;
    launch.grid = work.grid;
    launch.block = work.block;
    launch.cluster = work.cluster;
    launch.dynamic_shared = work.dynamic_shared;
    launch.parameters = work.parameters;
    launch.seed = seed;
    launch.find = [&](uint64_t address, ptx::Range &range) {
        return address_space().find_for_kernel(address, context.device, reach, range);
    };
    std::atomic<bool> stop{false};
    launch.stop = &stop;
    launch.parts = parts_of(work);

    std::mutex mutex;
    CUresult error = CUDA_SUCCESS;
    std::string text;
    const auto run_part = [&](unsigned part) {
        ptx::Launch own = launch;
        own.part = part;
        CUresult failed = CUDA_ERROR_LAUNCH_FAILED;
        std::string why;
        try {
            const ptx::Counts counts = ptx::run(*work.function->kernel, own);
            instructions += counts.thread_instructions;
            uint64_t slots = 0;
            for (size_t i = 0; i < counts.by_name.size(); ++i)
                slots += counts.by_name[i] *
                         static_cast<uint64_t>(ptx::issue_slots(work.function->kernel->names[i]));
            issue_slots += slots;
            return;
        } catch (const ptx::Fault &fault) {
            failed = error_of(fault);
            why = fault.what();
        } catch (const std::exception &e) {
            why = e.what();
        }
        stop = true;
        const std::lock_guard lock(mutex);
        if (error == CUDA_SUCCESS) {
            error = failed;
            text = std::move(why);
        }
    };
    if (launch.parts == 1)
        run_part(0);
    else
        helpers().run(launch.parts, run_part);
    if (error)
        report(fmt::format("cuda:{}: {}", context.device, text));
    return error;
}

} // namespace lz::fake_cuda

extern "C" __attribute__((visibility("default"))) uint64_t lazuli_fake_cuda_instructions() {
    return lz::fake_cuda::instructions;
}

extern "C" __attribute__((visibility("default"))) uint64_t lazuli_fake_cuda_issue_slots() {
    return lz::fake_cuda::issue_slots;
}
