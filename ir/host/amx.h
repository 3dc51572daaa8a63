#pragma once
/// Tile registers (AMX) of the host.

namespace lz::ir {

/// Asks the system, once for all threads of the process, for the use of tile registers: their 8 KiB are saved
/// for threads that asked only. False where the processor or the system has none, or refuses (a thread whose
/// alternative signal stack is too small for them is a reason). Any thread may call it at any time.
bool may_use_amx();

} // namespace lz::ir
