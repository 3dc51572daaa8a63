#include "runtime/fault_injection.h"

#include <fmt/format.h>

namespace lz::runtime {

void FaultInjectingBackend::fail_at(int64_t n, int64_t times) {
    calls_ = 0;
    first_ = n;
    last_ = n > 0 ? n + times - 1 : -1;
}

void FaultInjectingBackend::count(const char *call, ir::ErrorKind kind) {
    int64_t number = calls_.fetch_add(1) + 1;
    if (number >= first_ && number <= last_)
        throw ir::Failure(kind, fmt::format("{}: call {} ({}) was made to fail.", name(), number, call));
}

void *FaultInjectingBackend::allocate(size_t bytes) {
    count("allocate", ir::ErrorKind::OutOfMemory);
    return backend_.allocate(bytes);
}
void FaultInjectingBackend::copy(void *to, const void *from, size_t bytes, StreamId stream) {
    count("copy", ir::ErrorKind::Device);
    backend_.copy(to, from, bytes, stream);
}
StreamId FaultInjectingBackend::create_stream(int priority) {
    count("create_stream", ir::ErrorKind::Device);
    return backend_.create_stream(priority);
}
EventId FaultInjectingBackend::record_event(StreamId stream) {
    count("record_event", ir::ErrorKind::Device);
    return backend_.record_event(stream);
}
void FaultInjectingBackend::wait_event(StreamId stream, EventId event) {
    count("wait_event", ir::ErrorKind::Device);
    backend_.wait_event(stream, event);
}
bool FaultInjectingBackend::query_event(EventId event) {
    count("query_event", ir::ErrorKind::Device);
    return backend_.query_event(event);
}
void FaultInjectingBackend::synchronize_event(EventId event) {
    count("synchronize_event", ir::ErrorKind::Device);
    backend_.synchronize_event(event);
}
void FaultInjectingBackend::synchronize_stream(StreamId stream) {
    count("synchronize_stream", ir::ErrorKind::Device);
    backend_.synchronize_stream(stream);
}
std::unique_ptr<Module> FaultInjectingBackend::load(const CompiledKernel &kernel) {
    count("load", ir::ErrorKind::Compile);
    return backend_.load(kernel);
}
void FaultInjectingBackend::launch(const Launch &launch, StreamId stream) {
    count("launch", ir::ErrorKind::Device);
    backend_.launch(launch, stream);
}

} // namespace lz::runtime
