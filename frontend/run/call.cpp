#include "frontend/run/call.h"

#include "ir/diagnostic.h"

namespace lz::run {
namespace {

runtime::Backend &backend(ir::Device device) {
    return *RunDevices::get().slot(device).backend;
}

} // namespace

ir::Point DeviceBlock::fill(const void *from, int64_t bytes) const {
    runtime::Backend &there = backend(home_.device);
    if (bytes > 0)
        there.copy(data_, from, static_cast<size_t>(bytes), home_.stream);
    return {home_, there.record(home_.stream)};
}

void wait_quietly(std::span<const ir::Point> points) noexcept {
    for (const ir::Point &point : points)
        try {
            backend(point.stream.device).synchronize(point.stream.stream, point.tick);
        } catch (...) { // a lost device does nothing any more
        }
}

const DeviceBlock &Call::new_block(ir::StreamRef home, int64_t bytes) {
    return *blocks_.emplace_back(std::make_unique<const DeviceBlock>(home, bytes));
}

void Call::add_input(const void *elements, const ir::TensorType &type) {
    if (type.device == ir::kCpu) { // no Program of a file writes over its inputs
        add_input(const_cast<void *>(elements));
        return;
    }
    const DeviceBlock &block = new_block({type.device, ir::kDefaultStream}, type.bytes());
    ir::MemoryUse &use = *uses_.emplace_back(std::make_unique<ir::MemoryUse>());
    add_input(block.data());
    input_uses_.back() = &use;
    points_.push_back({block.home(), 0}); // before the copy may begin
    points_.back() = block.fill(elements, type.bytes());
    use.written(points_.back());
}

void Call::add_input(void *there) {
    inputs_.push_back(there);
    if (on_streams_)
        input_uses_.push_back(nullptr);
}

void Call::add_result(void *to, const ir::TensorType &type) {
    if (type.device == ir::kCpu) {
        results_.push_back(to);
        return;
    }
    const DeviceBlock &block = new_block(program_.result_home(results_.size()), type.bytes());
    results_.push_back(block.data());
    copies_.push_back({to, type.bytes(), &block});
}

void Call::wait() const {
    for (const ir::Point &point : points_)
        backend(point.stream.device).synchronize(point.stream.stream, point.tick);
}

ir::RunReport Call::run(std::span<const int64_t> words) {
    runtime::Bindings bindings{.inputs = inputs_, .results = results_, .words = words};
    if (on_streams_) {
        bindings.input_uses = input_uses_;
        bindings.ends = &points_;
    }
    ir::Launched launched = runtime::run(program_, bindings, false);
    ir::RunReport report = launched.flight ? launched.flight->finish({}) : std::move(launched.report);
    if (!on_streams_ || !report.failures.empty())
        return report;
    wait();
    points_.clear();
    for (const Result &result : copies_)
        if (result.bytes > 0) {
            const ir::StreamRef home = result.from->home();
            points_.push_back({home, 0});
            backend(home.device)
                .copy(result.to, result.from->data(), static_cast<size_t>(result.bytes), home.stream);
            points_.back().tick = backend(home.device).record(home.stream);
        }
    wait();
    return report;
}

} // namespace lz::run
