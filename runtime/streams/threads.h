#pragma once
/// The threads behind streams, all of the process: they are stopped when the process ends, in the middle of
/// what is pending, and a forked child has none of them.

#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace lz::runtime {

class StreamQueue;

/// Starts a thread that serves `queue`, or returns null when the process is ending. It takes no signals.
/// Throws Failure(OutOfMemory) when the system has no thread.
std::unique_ptr<std::thread> start_stream_thread(const std::shared_ptr<StreamQueue> &queue,
                                                 const std::string &name, std::function<void()> serve);

/// When they were stopped because the process ends: does what is left on their queues. For who waits for
/// something that one of these sets off elsewhere, as a GPU that waits for a word of the host's.
void do_what_is_left();

/// Whether the calling thread is one of them.
bool on_stream_thread();

/// Whether threads were started in a process of which this one is a forked child.
bool in_forked_child();

} // namespace lz::runtime
