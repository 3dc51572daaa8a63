#include "lazuli/call.h"
#include "lazuli/device/cuda_call.h"

#include "frontend/ops/compose.h"
#include "ir/host/calls.h"
#include "lazuli/core/defaults.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

namespace lz {

namespace {

/// The types of what is registered; the functions are in ir/host/calls.h, where the backends find them.
struct Types {
    std::mutex mutex;
    std::map<std::string, CallTypes, std::less<>> by_name;
    static Types &get() {
        static Types *const types = new Types;
        return *types;
    }
    void add(std::string name, CallTypes of_results) {
        const std::lock_guard lock(mutex);
        by_name.emplace(std::move(name), std::move(of_results));
    }
};

template <class Buffer>
std::vector<Buffer> buffers(std::span<const ir::CallTensor> tensors) {
    std::vector<Buffer> out;
    out.reserve(tensors.size());
    for (const ir::CallTensor &t : tensors) {
        int64_t numel = 1;
        for (const int64_t extent : t.shape)
            numel *= extent;
        out.push_back({t.data, detail::from_ir(t.dtype), t.shape, t.strides, numel});
    }
    return out;
}

CallTypes find_types(std::string_view name, Location loc) {
    Types &types = Types::get();
    {
        const std::lock_guard lock(types.mutex);
        if (const auto found = types.by_name.find(name); found != types.by_name.end())
            return found->second;
    }
    detail::throw_public(ir::unknown_call(name), loc);
}

/// What the user's function says, or what it throws, with its name and the line of the call.
std::vector<CallType> result_types(std::string_view name, std::span<const CallType> operands, Location loc) {
    const CallTypes types = find_types(name, loc);
    const auto named = [head = std::string(name) + ": "](std::string_view what) {
        return what.starts_with(head) ? std::string(what) : head + std::string(what);
    };
    try {
        return types(operands);
    } catch (const ShapeError &error) {
        throw ShapeError(named(error.what()), loc);
    } catch (const DTypeError &error) {
        throw DTypeError(named(error.what()), loc);
    } catch (const std::exception &error) {
        throw StateError(named(error.what()), loc);
    }
}

void append_string(std::vector<int64_t> &words, std::string_view text) {
    words.push_back(static_cast<int64_t>(text.size()));
    const size_t begin = words.size();
    words.resize(begin + (text.size() + 7) / 8, 0);
    std::memcpy(words.data() + begin, text.data(), text.size());
}

/// As result_device of the type rules: that of the first operand that is not a 0-dim CPU tensor (S05).
ir::Device device_of(std::span<const Tensor> operands, Location loc) {
    if (operands.empty())
        return detail::to_ir(get_default_device(), loc);
    for (const Tensor &operand : operands)
        if (const ir::TensorType &type = detail::type(operand);
            type.device != ir::kCpu || type.shape.rank() > 0)
            return type.device;
    return detail::type(operands[0]).device;
}

} // namespace

void detail::check_call_dtype(DType asked, DType found) {
    if (asked != found)
        throw DTypeError("a registered call asked for elements of " + std::string(name(asked)) +
                             " of a tensor of " + std::string(name(found)),
                         {});
}

void register_call(std::string name, CallTypes types, CallFunction function, Location loc) {
    if (!types || !function)
        throw StateError("register_call: `" + name + "` needs a function for its types and one that computes",
                         loc);
    detail::translated(loc, [&] {
        ir::register_call(name, [function = std::move(function)](std::span<const ir::CallTensor> operands,
                                                                 std::span<const ir::CallTensor> results) {
            const auto in = buffers<CallInput>(operands);
            const auto out = buffers<CallOutput>(results);
            function(in, out);
        });
    });
    Types::get().add(std::move(name), std::move(types));
}

namespace {

ir::CudaCall cuda_call(const std::string &name, CudaCallFunction function) {
    ir::CudaCall call;
    call.name = name;
    if (function)
        call.function = [function = std::move(function)](std::span<const ir::CallTensor> operands,
                                                         std::span<const ir::CallTensor> results, int device,
                                                         void *stream) {
            const auto in = buffers<CallInput>(operands);
            const auto out = buffers<CallOutput>(results);
            function(in, out, {stream, device});
        };
    return call;
}

ir::CudaCall cuda_call(const std::string &name, CudaKernel kernel) {
    ir::CudaCall call;
    call.name = name;
    call.source = std::move(kernel.source);
    call.entry = std::move(kernel.entry);
    call.shared_bytes = kernel.shared_bytes;
    if (kernel.launch)
        call.grid = [launch = std::move(kernel.launch)](std::span<const ir::CallTensor> operands,
                                                        std::span<const ir::CallTensor> results) {
            const auto in = buffers<CallInput>(operands);
            const auto out = buffers<CallOutput>(results);
            CudaLaunch wanted = launch(in, out);
            for (size_t axis = 1; axis < 3; ++axis) {
                wanted.blocks[axis] = std::max(wanted.blocks[axis], 1U);
                wanted.threads[axis] = std::max(wanted.threads[axis], 1U);
            }
            return ir::CudaGrid{wanted.blocks, wanted.threads, std::move(wanted.arguments)};
        };
    return call;
}

void register_for_cuda(std::string name, CallTypes types, ir::CudaCall call, Location loc) {
    if (!types)
        throw StateError("register_cuda_call: `" + name + "` needs a function for its types", loc);
    detail::translated(loc, [&] { ir::register_cuda_call(std::move(call), false); });
    Types::get().add(std::move(name), std::move(types));
}

} // namespace

void register_cuda_call(std::string name, CallTypes types, CudaCallFunction function, Location loc) {
    ir::CudaCall call = cuda_call(name, std::move(function));
    register_for_cuda(std::move(name), std::move(types), std::move(call), loc);
}

void register_cuda_call(std::string name, CallTypes types, CudaKernel kernel, Location loc) {
    ir::CudaCall call = cuda_call(name, std::move(kernel));
    register_for_cuda(std::move(name), std::move(types), std::move(call), loc);
}

void register_cuda_call(std::string name, CudaCallFunction function, Location loc) {
    detail::translated(loc, [&] { ir::register_cuda_call(cuda_call(name, std::move(function)), true); });
}

void register_cuda_call(std::string name, CudaKernel kernel, Location loc) {
    detail::translated(loc, [&] { ir::register_cuda_call(cuda_call(name, std::move(kernel)), true); });
}

std::vector<std::string> registered_calls() {
    Types &types = Types::get();
    const std::lock_guard lock(types.mutex);
    std::vector<std::string> names;
    for (const auto &[name, unused] : types.by_name)
        names.push_back(name);
    return names;
}

std::vector<Tensor> call(std::string_view name, std::span<const Tensor> operands, Location loc) {
    loc = detail::in(ir::intern_function(name), loc);
    std::vector<CallType> in;
    std::vector<const Tensor *> handles;
    for (const Tensor &operand : operands) {
        const ir::TensorType type = detail::checked_type(operand, "call", loc);
        in.push_back({detail::from_ir(type.dtype), {type.shape.begin(), type.shape.end()}});
        handles.push_back(&operand);
    }
    const std::vector<CallType> out = result_types(name, in, loc);
    if (out.empty())
        throw StateError(std::string(name) + ": its types say that it has no result; a call has at least one",
                         loc);

    const ir::Device device = device_of(operands, loc);
    std::vector<int64_t> words, results;
    append_string(words, name);
    for (const CallType &type : out) {
        if (type.shape.size() > static_cast<size_t>(ir::kMaxRank))
            throw ShapeError(std::string(name) + ": a result has " + std::to_string(type.shape.size()) +
                                 " axes; tensors have at most " + std::to_string(ir::kMaxRank),
                             loc);
        results.insert(results.end(), {static_cast<int64_t>(type.dtype), ir::device_word(device),
                                       static_cast<int64_t>(type.shape.size())});
        results.insert(results.end(), type.shape.begin(), type.shape.end());
    }
    words.push_back(static_cast<int64_t>(results.size()));
    words.insert(words.end(), results.begin(), results.end());
    if (out.size() == 1)
        return {detail::record(detail::Op::Call, handles, words, {}, loc)};
    return detail::record_many(detail::Op::Call, handles, words, {}, loc);
}
std::vector<Tensor> call(std::string_view name, std::initializer_list<Tensor> operands, Location loc) {
    return call(name, std::span(operands.begin(), operands.size()), loc);
}
std::vector<Tensor> call(const char *name, std::span<const Tensor> operands, Location loc) {
    return call(name ? std::string_view(name) : std::string_view("(null)"), operands, loc);
}
std::vector<Tensor> call(const char *name, std::initializer_list<Tensor> operands, Location loc) {
    return call(name, std::span(operands.begin(), operands.size()), loc);
}

} // namespace lz
