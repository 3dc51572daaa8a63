// What functions that are made of public ones need: a check of values, made when the operation runs, and
// their name.
#include "frontend/ops/compose.h"
#include "ir/host/per_thread.h"
#include "lazuli/ops/functional.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace lz {

using detail::Op;
using detail::Shape;

// Where it does not hold a lookup goes out of its range, which is a fault on every device (S26). The lookup
// has the sentence for a name, which is what is then said (ir::called_as).
Tensor detail::checked(const Tensor &value, const Tensor &holds, const char *sentence, Location loc) {
    Location check = loc;
    check.function = ir::intern_function(sentence);
    const ir::TensorType type = checked_type(holds, "check", loc);
    const Tensor fails = cast(unary(Op::Not, holds, check), ir::DType::I32, check);
    const Tensor row = reshape_to(fails, Shape({type.numel()}), check);
    const Tensor one = iota({ir::DType::I32, Shape({1}), type.device}, 0, 0, 1, check);
    const Tensor zeros = reshape_to(record(Op::Gather, {&one, &row}, {0}, {}, check), type.shape, check);
    const Tensor always = binary(Op::Eq, zeros, literal(zeros, 0, check), check);
    return select(always, value, literal(value, 0, loc), loc);
}

/// Mostly a name that the thread has had before: then without the lock of all names.
Location detail::in_function(const char *name, Location loc) {
    struct Known {
        std::string_view name; ///< never freed
        uint16_t number = 0;
    };
    using Names = std::array<Known, 64>;
    if (loc.function != 0)
        return loc;
    // Not in the thread's static storage, which a library that is opened at run time has little of.
    Names &known = ir::per_thread<Names>();
    Known &slot = known[reinterpret_cast<uintptr_t>(name) / 8 % known.size()];
    if (slot.name != name) {
        const uint16_t number = ir::intern_function(name);
        slot = {ir::function_name(number), number};
    }
    return in(slot.number, loc);
}

} // namespace lz
