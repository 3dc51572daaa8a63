#pragma once
/// By what a call finds its plan: everything but values that decides what recording makes of the arguments.
/// Extents of tensors and integers are the *sizes* of a call; what else there is, its *form*.

#include "frontend/ops/autocast/autocast.h"
#include "ir/types/type.h"
#include "lazuli/compiled.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lz::detail {

inline bool same_but_for_extents(const ir::TensorType &a, const ir::TensorType &b) {
    return a.dtype == b.dtype && a.device == b.device && a.shape.rank() == b.shape.rank();
}
inline bool same_type(const ir::TensorType &a, const ir::TensorType &b) {
    if (!same_but_for_extents(a, b))
        return false;
    for (int axis = 0; axis < a.shape.rank(); ++axis)
        if (a.shape[axis] != b.shape[axis])
            return false;
    return true;
}

/// What of the thread and of the process recording looks at.
struct RecordingModes {
    bool grad = true;
    AutocastMode autocast;
    DType dtype = DType::F32;
    Device device;
    int gpu = 0;
    uint32_t target = 0;
    bool operator==(const RecordingModes &other) const {
        return grad == other.grad && autocast.on == other.autocast.on &&
               autocast.enabled == other.autocast.enabled && autocast.dtype == other.autocast.dtype &&
               dtype == other.dtype && device == other.device && gpu == other.gpu && target == other.target;
    }
};
RecordingModes modes_of_now();

class Signature {
public:
    Signature(const CompiledArguments &arguments, const RecordingModes &modes);
    bool matches(const CompiledArguments &arguments, const RecordingModes &modes) const;
    bool operator==(const Signature &other) const;
    /// Whether the two differ by sizes alone.
    bool same_form(const Signature &other) const;
    static uint64_t hash_of(const CompiledArguments &arguments);
    /// That of the arguments that it was made of.
    uint64_t hash() const { return hash_; }
    /// `f32[8], i64[]`, with `grad` behind those that require it.
    std::string text() const;

    struct Argument {
        bool defined = false;
        bool wants_gradient = false, is_leaf = true;
        uint32_t same_as = 0; ///< the first argument that is the same tensor, itself as a rule
        ir::TensorType type;
        bool operator==(const Argument &other) const {
            return same_form(other) && (!defined || same_type(type, other.type));
        }
        bool same_form(const Argument &other) const {
            return defined == other.defined && wants_gradient == other.wants_gradient &&
                   is_leaf == other.is_leaf && same_as == other.same_as &&
                   (!defined || same_but_for_extents(type, other.type));
        }
    };
    std::span<const Argument> arguments() const { return arguments_; }
    std::span<const int64_t> integers() const { return integers_; }
    std::span<const uint64_t> structure() const { return structure_; }
    /// Whether calls of the two differ at most in which arguments are named and which are temporaries, in
    /// what the tensors are, and in their modes.
    bool same_but_for_temporaries(const Signature &other) const;
    const RecordingModes &modes() const { return modes_; }

private:
    static bool matches(const Argument &expected, const Tensor &given);

    std::vector<int64_t> integers_;
    std::vector<uint64_t> structure_;
    uintptr_t types_; ///< CompiledArguments::types
    std::vector<Argument> arguments_;
    size_t numbers_;
    uint64_t hash_;
    RecordingModes modes_;
};

} // namespace lz::detail
