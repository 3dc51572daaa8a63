#include "runtime/fault_injection.h"

#include <fmt/format.h>

#include <exception>

namespace lz::runtime {

void FaultInjectingBackend::fail_at(int64_t n, int64_t times) {
    calls_ = 0;
    first_ = n;
    last_ = n > 0 ? n + times - 1 : -1;
}

void FaultInjectingBackend::lose_at(int64_t n) {
    calls_ = 0;
    lose_ = n;
    lost_ = false;
}

void FaultInjectingBackend::count(const char *call, ir::ErrorKind kind) {
    const int64_t number = calls_.fetch_add(1) + 1;
    if (lose_ > 0 && number >= lose_)
        lost_ = true;
    if (lost_)
        throw_lost();
    if (number >= first_ && number <= last_)
        throw ir::Failure(kind, fmt::format("{}: call {} ({}) was made to fail.", name(), number, call));
}

void FaultInjectingBackend::throw_lost() const {
    throw ir::Failure(ir::ErrorKind::Cuda,
                      fmt::format("{} is lost: it was made to be. Nothing more can be done on it in this "
                                  "process; other devices go on.",
                                  name()));
}

/// Backends know their own kind, and none knows this one.
Backend &FaultInjectingBackend::inside(Backend &backend) {
    auto *injecting = dynamic_cast<FaultInjectingBackend *>(&backend);
    return injecting ? injecting->backend_ : backend;
}
const Backend &FaultInjectingBackend::inside(const Backend &backend) {
    const auto *injecting = dynamic_cast<const FaultInjectingBackend *>(&backend);
    return injecting ? injecting->backend_ : backend;
}

void *FaultInjectingBackend::allocate(size_t bytes) {
    count("allocate", ir::ErrorKind::OutOfMemory);
    return backend_.allocate(bytes);
}
void *FaultInjectingBackend::allocate_pinned(size_t bytes) {
    count("allocate_pinned", ir::ErrorKind::OutOfMemory);
    return backend_.allocate_pinned(bytes);
}
ir::Fault *FaultInjectingBackend::allocate_faults(size_t count_of_faults) {
    count("allocate_faults", ir::ErrorKind::OutOfMemory);
    return backend_.allocate_faults(count_of_faults);
}
bool FaultInjectingBackend::can_access_peer(const Backend &other) const {
    return backend_.can_access_peer(inside(other));
}
void FaultInjectingBackend::set_peer_access(Backend &other, bool enable) {
    count("set_peer_access", ir::ErrorKind::Device);
    backend_.set_peer_access(inside(other), enable);
}
void FaultInjectingBackend::copy(void *to, const void *from, size_t bytes, StreamId stream, OnDone done) {
    count("copy", ir::ErrorKind::Device);
    backend_.copy(to, from, bytes, stream, std::move(done));
}
StreamId FaultInjectingBackend::create_stream(int priority) {
    count("create_stream", ir::ErrorKind::Device);
    return backend_.create_stream(priority);
}
std::shared_ptr<Timestamp> FaultInjectingBackend::record_time(StreamId stream) {
    count("record_time", ir::ErrorKind::Device);
    return backend_.record_time(stream);
}
void FaultInjectingBackend::wait(StreamId stream, Backend &other, StreamId of, uint64_t tick) {
    count("wait", ir::ErrorKind::Device);
    backend_.wait(stream, inside(other), of, tick);
}
void FaultInjectingBackend::wait_foreign(StreamId stream, void *foreign) {
    count("wait_foreign", ir::ErrorKind::Device);
    backend_.wait_foreign(stream, foreign);
}
void FaultInjectingBackend::foreign_waits(void *foreign, StreamId stream, uint64_t tick) {
    count("foreign_waits", ir::ErrorKind::Device);
    backend_.foreign_waits(foreign, stream, tick);
}
bool FaultInjectingBackend::reached(StreamId stream, uint64_t tick) {
    if (!backend_.reached(stream, tick))
        return false; // what uses memory still is not hidden by a lost device
    if (lost_)
        throw_lost();
    return true;
}
bool FaultInjectingBackend::pending(StreamId stream, uint64_t tick) {
    if (backend_.pending(stream, tick))
        return true;
    if (lost_)
        throw_lost();
    return false;
}
void FaultInjectingBackend::synchronize(StreamId stream, uint64_t tick) {
    backend_.synchronize(stream, tick);
    if (lost_)
        throw_lost();
}
void FaultInjectingBackend::call_host(StreamId stream, std::function<void()> callback) {
    count("call_host", ir::ErrorKind::Device);
    backend_.call_host(stream, std::move(callback));
}
std::unique_ptr<Module> FaultInjectingBackend::load(const CompiledKernel &kernel) {
    count("load", ir::ErrorKind::Compile);
    return backend_.load(kernel);
}
void FaultInjectingBackend::launch(const Launch &launch, StreamId stream, OnDone done) {
    if (launch.put)
        *launch.put = 0;
    count("launch", ir::ErrorKind::Device);
    backend_.launch(launch, stream, std::move(done));
}
void FaultInjectingBackend::call(const Call &call, StreamId stream, OnDone done) {
    count("call", ir::ErrorKind::Device);
    backend_.call(call, stream, std::move(done));
}
void FaultInjectingBackend::replay(const Replay &replay, std::unique_ptr<ReplayMemory> &memory,
                                   size_t &done) {
    static constexpr const char *kCalls[] = {"launch", "call", "copy", "record", "wait"};
    const int64_t calls_before = calls_;
    const size_t done_before = done;
    Replay whole = replay;
    std::exception_ptr failure;
    size_t end = done;
    try {
        for (; end < replay.steps.size(); ++end)
            if (const Replay::Kind kind = replay.steps[end].kind; kind != Replay::Kind::Record)
                count(kCalls[static_cast<size_t>(kind)], ir::ErrorKind::Device);
    } catch (const ir::Failure &) {
        failure = std::current_exception();
        whole.steps = replay.steps.first(end);
    }
    backend_.replay(whole, memory, done);
    // It replays nothing now: the steps come one by one, and count then.
    if (done == done_before && end > done) {
        calls_ = calls_before;
        return;
    }
    if (failure)
        std::rethrow_exception(failure);
}

} // namespace lz::runtime
