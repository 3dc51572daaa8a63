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
    bool ending = false;
    std::atomic<pid_t> process{0}; ///< that started the first thread

    static Threads &get() {
        static Threads *threads = new Threads;
        return *threads;
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
        for (const auto &weak : threads.queues)
            if (auto queue = weak.lock())
                queues.push_back(std::move(queue));
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
    if (threads.ending)
        return nullptr;
    if (threads.process.load() == 0) {
        threads.process = getpid();
        std::atexit(stop_all);
    }
    std::erase_if(threads.queues, [](const auto &weak) { return weak.expired(); });
    threads.queues.push_back(queue);
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

bool on_stream_thread() {
    return t_on_stream;
}

bool in_forked_child() {
    const pid_t process = Threads::get().process.load();
    return process != 0 && process != getpid();
}

} // namespace lz::runtime
