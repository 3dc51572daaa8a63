#include "frontend/engine/profile.h"

#include "runtime/profiler/profiler.h"
#include "runtime/profiler/svg.h"

namespace lz::engine {

void start_profile() {
    runtime::start_profile();
}
Trace stop_profile() {
    const std::vector<runtime::ProfileEvent> events = runtime::stop_profile();
    return {runtime::trace_json(events), runtime::trace_svg(events)};
}

} // namespace lz::engine
