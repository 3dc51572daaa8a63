#include "runtime/streams/threads.h"

#include "ir/diagnostic.h"
#include "runtime/streams/queue.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <sys/prctl.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace lz::runtime {

namespace {

thread_local bool t_on_stream = false;

/// Never destroyed: queues of static objects outlive every destructor here.
struct Threads {
    std::mutex mutex;
    std::vector<std::weak_ptr<StreamQueue>> queues;
    std::atomic<bool> ending = false; ///< written under the mutex
    std::atomic<pid_t> process{0};    ///< that started the first thread

    static Threads &get() {
        static Threads *threads = new Threads;
        return *threads;
    }
    /// Those that live. The mutex is held.
    std::vector<std::shared_ptr<StreamQueue>> living() const {
        std::vector<std::shared_ptr<StreamQueue>> found;
        for (const auto &weak : queues)
            if (auto queue = weak.lock())
                found.push_back(std::move(queue));
        return found;
    }
};

/// At the end of the process. Objects that are destroyed later find queues without threads: what they wait
/// for they do themselves (StreamQueue::synchronize).
void stop_all() {
    if (in_forked_child())
        return;
    Threads &threads = Threads::get();
    std::vector<std::shared_ptr<StreamQueue>> queues;
    {
        const std::lock_guard lock(threads.mutex);
        threads.ending = true;
        queues = threads.living();
    }
    for (const auto &queue : queues)
        queue->begin_stop();
    for (const auto &queue : queues)
        queue->join();
}

} // namespace

std::unique_ptr<std::thread> start_stream_thread(const std::shared_ptr<StreamQueue> &queue,
                                                 const std::string &name, std::function<void()> serve) {
    Threads &threads = Threads::get();
    const std::lock_guard lock(threads.mutex);
    std::erase_if(threads.queues, [](const auto &weak) { return weak.expired(); });
    threads.queues.push_back(queue);
    if (threads.ending)
        return nullptr;
    if (threads.process.load() == 0) {
        threads.process = getpid();
        std::atexit(stop_all);
    }
    // Signals are for threads that know what to do with them: the new one inherits the mask.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::unique_ptr<std::thread> thread;
    std::string why;
    try {
        thread = std::make_unique<std::thread>([name = name.substr(0, 15), serve = std::move(serve)] {
            t_on_stream = true;
            prctl(PR_SET_NAME, name.c_str());
            serve();
        });
    } catch (const std::system_error &error) {
        why = error.what();
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!thread)
        throw ir::Failure(ir::ErrorKind::OutOfMemory,
                          fmt::format("The system has no thread for {}: {}.", name, why));
    return thread;
}

void do_what_is_left() {
    Threads &threads = Threads::get();
    if (!threads.ending || t_on_stream) // those threads do no more than the item that they are in
        return;
    std::vector<std::shared_ptr<StreamQueue>> queues;
    {
        const std::lock_guard lock(threads.mutex);
        queues = threads.living();
    }
    for (const auto &queue : queues)
        queue->do_what_is_left();
}

bool on_stream_thread() {
    return t_on_stream;
}

bool in_forked_child() {
    const pid_t process = Threads::get().process.load();
    return process != 0 && process != getpid();
}

} // namespace lz::runtime
