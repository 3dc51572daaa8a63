#pragma once
/// Functions of the user's own that random programs call.

#include <cstdint>

namespace lz::test::calls {

/// Registers them, once.
void register_calls();

/// `calls.mark` takes a number from here, waits a moment, and marks it.
int64_t new_mark();
bool marked(int64_t mark);

} // namespace lz::test::calls
