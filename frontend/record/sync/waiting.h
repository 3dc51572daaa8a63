#pragma once
/// Threads that wait for what another one's sync computes (S28).

#include "frontend/record/node.h"

namespace lz::detail {

/// Makes what notifying needs, so that it never fails.
void prepare_waiting();
/// Wakes syncs that wait for claimed nodes. Called after nodes changed state.
void notify_waiters() noexcept;
/// Blocks until `node` is not claimed by anyone.
void wait_while_claimed(Node *node);

} // namespace lz::detail
