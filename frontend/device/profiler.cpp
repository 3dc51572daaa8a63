#include "lazuli/device/profiler.h"

#include "frontend/engine/engine.h"
#include "frontend/engine/profile.h"
#include "frontend/engine/streams.h"
#include "frontend/record/record.h"

#include <fstream>
#include <utility>

namespace lz {

Profiler::Profiler(Location loc) {
    detail::translated(loc, [] { engine::start_profile(); });
}

Profiler::~Profiler() {
    stop();
}

void Profiler::stop() {
    if (!running_)
        return;
    running_ = false;
    for (const ir::DeviceInfo &info : engine::Engine::get().target().devices)
        if (info.device != ir::kCpu)
            try {
                engine::synchronize_device(info.device);
            } catch (const ir::Failure &) { // a lost device runs nothing more; its error is the next sync's
            }
    engine::Timeline timeline = engine::stop_profile();
    trace_ = std::move(timeline.json);
    picture_ = std::move(timeline.svg);
}

std::string Profiler::json() {
    stop();
    return trace_;
}

std::string Profiler::svg() {
    stop();
    return picture_;
}

struct ProfileRange::Impl {
    explicit Impl(const std::string &name) : range(name) {}
    engine::HostRange range;
};

ProfileRange::ProfileRange(const std::string &name)
    : impl_(engine::HostRange::wanted() ? std::make_unique<Impl>(name) : nullptr) {}
ProfileRange::~ProfileRange() = default;

void Profiler::save(const std::string &path, Location loc) {
    stop();
    std::ofstream out(path);
    out << (path.ends_with(".svg") ? picture_ : trace_);
    out.close();
    if (!out)
        throw IoError("Profiler: the trace could not be written to " + path, loc);
}

} // namespace lz
