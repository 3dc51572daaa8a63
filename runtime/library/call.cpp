// Functions that are registered for the op `call`, as library calls.
#include "runtime/library/functions.h"

#include "ir/diagnostic.h"
#include "runtime/library/call.h"
#include "runtime/library/scratch.h"

namespace lz::runtime {

namespace {

void call(const void *self, const LibraryArgs &args) {
    const auto &registered = *static_cast<const ir::RegisteredCall *>(self);
    const auto operands = static_cast<size_t>(args.ints[0]);
    const size_t count = count_call_tensors(args.ints);
    Scratch scratch(args.scratch);
    auto *const dims = scratch.take<CallDims>(static_cast<int64_t>(count));
    auto *const tensors = scratch.take<ir::CallTensor>(static_cast<int64_t>(count));
    read_call_tensors(args, dims, tensors);
    const std::span<const ir::CallTensor> all(tensors, count);
    std::string error = ir::run_call(registered, all.first(operands), all.subspan(operands));
    if (error.empty())
        return;
    if (!args.fault)
        throw ir::Failure(ir::ErrorKind::State, error);
    int32_t none = 0;
    const int64_t number = ir::keep_call_error(std::move(error));
    if (args.fault->code.compare_exchange_strong(none, static_cast<int32_t>(ir::FaultCode::CallFailed)))
        args.fault->value = number;
}

} // namespace

void read_call_tensors(const LibraryArgs &args, CallDims *dims, ir::CallTensor *tensors) {
    const int64_t *word = args.ints.data() + 2;
    for (size_t i = 0; i < count_call_tensors(args.ints); ++i) {
        const auto dtype = static_cast<ir::DType>(*word++);
        const auto rank = static_cast<size_t>(*word++);
        int64_t stride = 1;
        for (size_t d = rank; d-- > 0;) {
            dims[i].shape[d] = word[d];
            dims[i].strides[d] = stride;
            stride *= word[d];
        }
        word += rank;
        tensors[i] = {args.buffers[i], dtype, std::span<const int64_t>(dims[i].shape, rank),
                      std::span<const int64_t>(dims[i].strides, rank)};
    }
}

int64_t registered_call_scratch(Ints ints, const ir::DeviceInfo &) {
    const auto count = static_cast<int64_t>(count_call_tensors(ints));
    return scratch_for<CallDims>(count) + scratch_for<ir::CallTensor>(count);
}

LibraryFn find_registered_call(std::string_view name) {
    const ir::RegisteredCall *found = ir::find_call(name);
    return found ? LibraryFn(call, found) : LibraryFn();
}

} // namespace lz::runtime
