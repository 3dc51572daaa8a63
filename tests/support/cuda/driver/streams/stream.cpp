#include "tests/support/cuda/driver/streams/stream.h"

#include "tests/support/cuda/driver/graphs/capture.h"
#include "tests/support/cuda/driver/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace lz::fake_cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// What all who wait share. Under the driver's lock.
struct Progress {
    std::condition_variable changed;
    uint64_t moves = 0; ///< counts whatever was done
    unsigned waiters = 0;
    uint64_t stream_ids = 0;
    std::vector<std::shared_ptr<Stream>> all; ///< streams with a thread
};

Progress &progress() {
    static auto *const p = new Progress;
    return *p;
}

std::string name_of(const Stream &s) {
    return fmt::format("stream {} of cuda:{}", s.id, s.context->device);
}

/// Whether every stream that has work waits for something.
bool stands_still() {
    return std::ranges::none_of(progress().all, [](const auto &s) {
        return s->running || (!s->queue.empty() && s->waits_for.empty());
    });
}

void report_deadlock() {
    std::string text =
        fmt::format("nothing has moved for {} ms while the host waits:", settings().deadlock_ms);
    for (const auto &s : progress().all)
        if (!s->waits_for.empty())
            text += fmt::format(" {} waits for {}, with {} more to do;", name_of(*s), s->waits_for,
                                s->queue.size());
    text.back() = '.';
    report(text);
    for (const auto &s : progress().all)
        if (!s->waits_for.empty())
            fail_context(*s->context, CUDA_ERROR_LAUNCH_TIMEOUT);
    notify_progress();
}

/// A wait now and then, drawn from the seed, so that what is not ordered runs in another order.
void wait_at_random(Stream &s) {
    if (settings().seed == 0 || s.rng() % 4 != 0)
        return;
    std::this_thread::sleep_for(std::chrono::microseconds(s.rng() % (settings().delay_us + 1)));
}

void run_item(Stream &s, Lock &lock, Item &item) {
    s.running = true;
    for (const After &a : item.after)
        if (a.stream->done < a.ticket)
            wait_in_stream(lock, s, name_of(*a.stream), false, [&] { return a.stream->done >= a.ticket; });
    lock.unlock();
    wait_at_random(s);
    if (const CUresult failed = run_work(s, item.work, nullptr))
        fail_context(*s.context, failed);
    item = {}; // what it owns may be the user's
    lock.lock();
    ++s.done;
    s.running = false;
    notify_progress();
}

void run_stream(const std::shared_ptr<Stream> &s) {
    Lock lock(driver_mutex());
    for (;;) {
        s->has_work.wait(lock, [&] { return !s->queue.empty() || s->closing; });
        if (s->queue.empty())
            break;
        Item item = std::move(s->queue.front());
        s->queue.pop_front();
        run_item(*s, lock, item);
    }
    std::erase(progress().all, s);
    std::erase(s->context->streams, s);
    notify_progress();
}

} // namespace

Handles<CUstream, Stream> &streams() {
    static auto *const all = new Handles<CUstream, Stream>("stream");
    return *all;
}

int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

std::shared_ptr<Stream> make_stream(Context &context, unsigned flags, int priority) {
    auto s = std::make_shared<Stream>();
    s->context = &context;
    s->flags = flags;
    s->priority = priority;
    s->id = ++progress().stream_ids;
    s->rng.seed(settings().seed * 1000 + s->id);
    context.streams.push_back(s);
    return s;
}

std::shared_ptr<Stream> stream_of(CUstream handle) {
    Context &context = current_context();
    if (handle == nullptr || handle == CU_STREAM_LEGACY)
        return context.legacy;
    if (handle == CU_STREAM_PER_THREAD) {
        struct Own {
            const Context *context;
            uint32_t generation;
            std::weak_ptr<Stream> stream;
        };
        thread_local std::vector<Own> own;
        for (const Own &o : own)
            if (o.context == &context && o.generation == context.generation)
                if (auto s = o.stream.lock())
                    return s;
        auto s = make_stream(context, CU_STREAM_DEFAULT, 0);
        own.push_back({&context, context.generation, s});
        return s;
    }
    const auto &s = streams().get(handle);
    if (const CUresult error = s->context->error)
        refuse(error, name_of(*s) + " belongs to a context with an error");
    return s;
}

uint64_t enqueue(Stream &s, Work work, std::vector<After> after) {
    if (s.is_legacy()) {
        for (const auto &other : s.context->streams)
            if (other.get() != &s && other->blocks_with_legacy() && other->done < other->given)
                after.push_back({other, other->given});
    } else if (s.blocks_with_legacy() && s.context->legacy->done < s.context->legacy->given) {
        after.push_back({s.context->legacy, s.context->legacy->given});
    }
    s.queue.push_back({std::move(work), std::move(after)});
    if (!s.started) {
        std::thread([self = s.shared_from_this()] { run_stream(self); }).detach();
        progress().all.push_back(s.shared_from_this());
        s.started = true;
    }
    s.has_work.notify_one();
    return ++s.given;
}

void put(Stream &s, Work work) {
    if (s.capture)
        capture_work(s, std::move(work));
    else {
        refuse_beside_capture(s);
        enqueue(s, std::move(work));
    }
}

void notify_progress() {
    ++progress().moves;
    if (progress().waiters)
        progress().changed.notify_all();
}

CUresult wait_until(Lock &lock, Context &context, const std::function<bool()> &done) {
    Progress &p = progress();
    ++p.waiters;
    uint64_t seen = p.moves;
    Clock::time_point since = Clock::now();
    const std::chrono::milliseconds limit(settings().deadlock_ms);
    while (!done()) {
        p.changed.wait_for(lock, std::min(limit, std::chrono::milliseconds(100)));
        if (p.moves != seen || !stands_still()) {
            seen = p.moves;
            since = Clock::now();
        } else if (Clock::now() - since > limit) {
            report_deadlock();
            since = Clock::now();
        }
    }
    --p.waiters;
    return context.error;
}

CUresult wait_for_stream(Lock &lock, Stream &s) {
    const auto self = s.shared_from_this();
    uint64_t ticket = s.given;
    if (s.is_legacy()) // and all that it would have come after
        for (const auto &other : s.context->streams)
            if (other->blocks_with_legacy() && other->done < other->given) {
                ticket = enqueue(s, EmptyWork{});
                break;
            }
    return wait_until(lock, *s.context, [&] { return self->done >= ticket; });
}

CUresult wait_for_context(Lock &lock, Context &context) {
    std::vector<After> all;
    for (const auto &s : context.streams)
        all.push_back({s, s->given});
    return wait_until(lock, context, [&] {
        return std::ranges::all_of(all, [](const After &a) { return a.stream->done >= a.ticket; });
    });
}

void wait_in_stream(Lock &lock, Stream &s, const std::string &what, bool polls,
                    const std::function<bool()> &done) {
    Progress &p = progress();
    s.running = false;
    s.waits_for = what;
    notify_progress();
    ++p.waiters;
    auto pause = std::chrono::microseconds(20);
    while (!done() && s.context->error == CUDA_SUCCESS) {
        if (!polls) {
            p.changed.wait(lock);
            continue;
        }
        p.changed.wait_for(lock, pause);
        pause = std::min(pause * 2, std::chrono::microseconds(1000));
    }
    --p.waiters;
    s.waits_for.clear();
    s.running = true;
    ++p.moves;
}

} // namespace lz::fake_cuda
