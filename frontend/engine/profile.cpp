#include "frontend/engine/profile.h"

#include "frontend/engine/host_event.h"
#include "runtime/profiler/profiler.h"
#include "runtime/profiler/svg.h"

namespace lz::engine {

void start_profile() {
    runtime::start_profile();
}
Timeline stop_profile() {
    const std::vector<runtime::ProfileEvent> events = runtime::stop_profile();
    return {runtime::trace_json(events), runtime::trace_svg(events)};
}

HostRange::HostRange(const std::string &name) : event_(std::make_unique<HostEvent>("range", name)) {}
HostRange::~HostRange() = default;

bool HostRange::wanted() {
    return HostEvent::wanted();
}

} // namespace lz::engine
