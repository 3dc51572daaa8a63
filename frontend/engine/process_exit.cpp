#include "frontend/engine/process_exit.h"

#include "runtime/before_exit.h"

namespace lz::engine {

void stop_if_main_was_left() {
    const runtime::BeforeExit before_exit;
}

} // namespace lz::engine
