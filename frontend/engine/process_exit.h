#pragma once
/// The end of the process, for threads that still use the engine then (S68).

namespace lz::engine {

/// When `main` has been left by another thread: does not return, and ends with the process. A thread that
/// nobody joined is not told what fails then, because a driver refuses everything.
void stop_if_main_was_left();

} // namespace lz::engine
