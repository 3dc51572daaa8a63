#pragma once
/// Streams: each has a thread that does its work in order.

#include "tests/support/cuda/driver/handles.h"
#include "tests/support/cuda/driver/streams/work.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace lz::fake_cuda {

struct Capture;
struct Node;

/// Everything that was put on a stream up to a ticket.
struct After {
    std::shared_ptr<Stream> stream;
    uint64_t ticket;
};

struct Item {
    Work work;
    std::vector<After> after;
};

/// Under the driver's lock, all of it.
struct Stream : std::enable_shared_from_this<Stream> {
    Context *context = nullptr;
    CUstream handle = nullptr;
    unsigned flags = 0;
    int priority = 0;
    uint64_t id = 0;

    std::deque<Item> queue;
    uint64_t given = 0, done = 0; ///< items so far
    bool closing = false;         ///< its thread ends when the queue is empty
    bool started = false;         ///< whether it has a thread
    bool running = false;         ///< at something that needs nobody else
    std::string waits_for;        ///< at something that does; empty: it does not wait
    std::condition_variable has_work;
    std::mt19937_64 rng;

    std::shared_ptr<Capture> capture; ///< into which work goes instead
    std::vector<Node *> tail;         ///< what the next captured work comes after

    bool is_legacy() const { return context->legacy.get() == this; }
    bool blocks_with_legacy() const { return !(flags & CU_STREAM_NON_BLOCKING); }
};

Handles<CUstream, Stream> &streams();

/// A stream of the current context's: a handle, null and CU_STREAM_LEGACY, or CU_STREAM_PER_THREAD. Refuses
/// when its context has an error.
std::shared_ptr<Stream> stream_of(CUstream handle);
std::shared_ptr<Stream> make_stream(Context &context, unsigned flags, int priority);

/// Puts work at the end of the stream, or into the graph that it captures. What is put on the null stream
/// comes after all on streams that block with it, and the other way round.
void put(Stream &stream, Work work);
/// The same, never captured. Returns the ticket.
uint64_t enqueue(Stream &stream, Work work, std::vector<After> after = {});

/// Waits until done(); returns the error of a context that has one. When nothing moves for long, what waits
/// fails (fake_cuda.h).
CUresult wait_until(Lock &lock, Context &context, const std::function<bool()> &done);
CUresult wait_for_stream(Lock &lock, Stream &stream);
CUresult wait_for_context(Lock &lock, Context &context);

/// Wakes who waits for something of the driver's to change. Under the lock.
void notify_progress();
/// Blocks a stream's thread until done(), which may look at memory that the host writes.
void wait_in_stream(Lock &lock, Stream &stream, const std::string &what, bool polls,
                    const std::function<bool()> &done);
/// Does one piece of work in a stream's thread; called without the lock, takes it where it needs it.
CUresult run_work(Stream &stream, const Work &work, const std::shared_ptr<Record> &graph_record);
int64_t now();

} // namespace lz::fake_cuda
