#pragma once
/// Between recording and the engine: claiming pending nodes, linearising them, and what happens with the
/// results.

#include "frontend/record/node.h"
#include "frontend/record/recorder.h"
#include "frontend/record/storage.h"
#include "ir/graph/graph.h"
#include "lazuli/core/location.h"

#include <cstdint>
#include <span>

namespace lz::detail {

class RunObserver;

/// Computes everything pending on this thread and waits (S21). Throws the first failure once (S26).
void sync_all(Location loc);
/// Computes what these tensors need and stores it; does not touch the rest of the pending work.
void eval_nodes(std::span<Node *const> nodes, Location loc);
/// Where the user asks for values, or calls a compiled function: what has stayed pending for too many times
/// (S22).
void launch_left_behind(Location loc);
/// As eval_nodes, and `observer` is told of what runs.
void eval_observed(std::span<Node *const> nodes, RunObserver &observer, Location loc);
/// Makes the node Ready (computing everything pending, as sync_all, if it is not) and returns its storage,
/// which streams may still be writing; throws the node's own failure.
Storage *materialize(Node *node, Location loc);
/// The same, and waits until the bytes are there: for a reader on the host, or a writer.
Storage *materialize_now(Node *node, Location loc, bool writer = false);
/// Makes what a thread keeps between its syncs.
void prepare_sync_of_thread();
/// Launches everything pending on this thread, without waiting.
void launch_all(Location loc);
/// Looks at what is in flight and over, and throws the first failure.
void settle_done();
/// Memory of the host for a value that no Program computes. Where there is none, everything pending is
/// launched and waited for, because it may keep memory alive (S52), and it is tried once more; failures of
/// that are thrown as by `sync_all`.
Storage *allocate_on_host(int64_t bytes, bool pinned, Location loc);
/// The Graph of what is pending on this thread, or of what `node` needs, with locations: for dump and
/// explain.
ir::Graph pending_graph(Node *node);
/// Operations recorded and not yet computed on this thread.
int64_t pending_count();

/// S22: launches the oldest part of a pending list that grew too long. The cut falls before the newest
/// operation at the line where the list began, so that a loop is cut between two rounds and finds its Program
/// again.
void launch_prefix(Recorder &recorder, Location loc);

} // namespace lz::detail
