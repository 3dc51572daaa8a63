// Methods that are the function of the same name.
#include "lazuli/ops.h"

#include "lazuli/detail/compose.h"

namespace lz {

Tensor Tensor::reshape(const Sizes &sizes, Location loc) const {
    return lz::reshape(*this, sizes, loc);
}
Tensor Tensor::view(const Sizes &sizes, Location loc) const {
    return lz::view(*this, sizes, loc);
}
Tensor Tensor::flatten(int64_t first_axis, int64_t last_axis, Location loc) const {
    return lz::flatten(*this, first_axis, last_axis, loc);
}
Tensor Tensor::unflatten(int64_t axis, const Sizes &sizes, Location loc) const {
    return lz::unflatten(*this, axis, sizes, loc);
}
Tensor Tensor::transpose(int64_t axis0, int64_t axis1, Location loc) const {
    return lz::transpose(*this, axis0, axis1, loc);
}
Tensor Tensor::permute(const Sizes &axes, Location loc) const {
    return lz::permute(*this, axes, loc);
}
Tensor Tensor::t(Location loc) const {
    return lz::t(*this, loc);
}
Tensor Tensor::mT(Location loc) const {
    return lz::mT(*this, loc);
}
Tensor Tensor::squeeze(const Sizes &axes, Location loc) const {
    return lz::squeeze(*this, axes, loc);
}
Tensor Tensor::unsqueeze(int64_t axis, Location loc) const {
    return lz::unsqueeze(*this, axis, loc);
}
Tensor Tensor::expand(const Sizes &sizes, Location loc) const {
    return lz::expand(*this, sizes, loc);
}
Tensor Tensor::expand_as(const Tensor &like, Location loc) const {
    return lz::expand_as(*this, like, loc);
}
Tensor Tensor::slice(int64_t axis, std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step,
                     Location loc) const {
    return lz::slice(*this, axis, start, stop, step, loc);
}
Tensor Tensor::narrow(int64_t axis, int64_t start, int64_t length, Location loc) const {
    return lz::narrow(*this, axis, start, length, loc);
}
Tensor Tensor::select(int64_t axis, int64_t index, Location loc) const {
    return lz::select(*this, axis, index, loc);
}
Tensor Tensor::flip(const Sizes &axes, Location loc) const {
    return lz::flip(*this, axes, loc);
}
Tensor Tensor::diagonal(int64_t offset, int64_t axis0, int64_t axis1, Location loc) const {
    return lz::diagonal(*this, offset, axis0, axis1, loc);
}
std::vector<Tensor> Tensor::split(int64_t size, int64_t axis, Location loc) const {
    return lz::split(*this, size, axis, loc);
}
std::vector<Tensor> Tensor::split(std::initializer_list<int64_t> sizes, int64_t axis, Location loc) const {
    return lz::split(*this, sizes, axis, loc);
}
std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t axis, Location loc) const {
    return lz::chunk(*this, chunks, axis, loc);
}
std::vector<Tensor> Tensor::unbind(int64_t axis, Location loc) const {
    return lz::unbind(*this, axis, loc);
}
Tensor Tensor::roll(const Sizes &shifts, const Sizes &axes, Location loc) const {
    return lz::roll(*this, shifts, axes, loc);
}
Tensor Tensor::tril(int64_t diagonal, Location loc) const {
    return lz::tril(*this, diagonal, loc);
}
Tensor Tensor::triu(int64_t diagonal, Location loc) const {
    return lz::triu(*this, diagonal, loc);
}
Tensor Tensor::repeat(const Sizes &repeats, Location loc) const {
    return lz::repeat(*this, repeats, loc);
}
Tensor Tensor::clone(Location loc) const {
    return lz::clone(*this, loc);
}
Tensor Tensor::to(DType dtype, Location loc) const {
    return lz::to(*this, dtype, loc);
}
Tensor Tensor::to(const Device &device, Location loc) const {
    return lz::to(*this, device, loc);
}
Tensor Tensor::to(const Device &device, DType dtype, Location loc) const {
    return lz::to(*this, device, dtype, loc);
}
Tensor Tensor::to(const Device &device, const CopyOptions &options, Location loc) const {
    return lz::to(*this, device, options, loc);
}
Tensor Tensor::to(const Device &device, DType dtype, const CopyOptions &options, Location loc) const {
    return lz::to(*this, device, dtype, options, loc);
}
Tensor Tensor::pin_memory(Location loc) const {
    return lz::pin_memory(*this, loc);
}
Tensor Tensor::gather(int64_t axis, const Tensor &index, Location loc) const {
    return lz::gather(*this, axis, index, loc);
}
Tensor Tensor::index_select(int64_t axis, const Tensor &index, Location loc) const {
    return lz::index_select(*this, axis, index, loc);
}
Tensor Tensor::take(const Tensor &index, Location loc) const {
    return lz::take(*this, index, loc);
}
Tensor Tensor::scatter(int64_t axis, const Tensor &index, const Operand &source, Location loc) const {
    return lz::scatter(*this, axis, index, source, loc);
}
Tensor Tensor::scatter_add(int64_t axis, const Tensor &index, const Tensor &source, Location loc) const {
    return lz::scatter_add(*this, axis, index, source, loc);
}
Tensor Tensor::sum(const Sizes &axes, bool keepdim, std::optional<DType> dtype, Location loc) const {
    return lz::sum(*this, axes, keepdim, dtype, loc);
}
Tensor Tensor::prod(const Sizes &axes, bool keepdim, std::optional<DType> dtype, Location loc) const {
    return lz::prod(*this, axes, keepdim, dtype, loc);
}
Tensor Tensor::mean(const Sizes &axes, bool keepdim, std::optional<DType> dtype, Location loc) const {
    return lz::mean(*this, axes, keepdim, dtype, loc);
}
Tensor Tensor::var(const Sizes &axes, int64_t correction, bool keepdim, Location loc) const {
    return lz::var(*this, axes, correction, keepdim, loc);
}
Tensor Tensor::std(const Sizes &axes, int64_t correction, bool keepdim, Location loc) const {
    return lz::std(*this, axes, correction, keepdim, loc);
}
Tensor Tensor::amax(const Sizes &axes, bool keepdim, Location loc) const {
    return lz::amax(*this, axes, keepdim, loc);
}
Tensor Tensor::amin(const Sizes &axes, bool keepdim, Location loc) const {
    return lz::amin(*this, axes, keepdim, loc);
}
Tensor Tensor::max(Location loc) const {
    return lz::max(*this, loc);
}
Tensor Tensor::min(Location loc) const {
    return lz::min(*this, loc);
}
ValuesIndices Tensor::max(int64_t axis, bool keepdim, Location loc) const {
    return lz::max(*this, axis, keepdim, loc);
}
ValuesIndices Tensor::min(int64_t axis, bool keepdim, Location loc) const {
    return lz::min(*this, axis, keepdim, loc);
}
Tensor Tensor::argmax(std::optional<int64_t> axis, bool keepdim, Location loc) const {
    return lz::argmax(*this, axis, keepdim, loc);
}
Tensor Tensor::argmin(std::optional<int64_t> axis, bool keepdim, Location loc) const {
    return lz::argmin(*this, axis, keepdim, loc);
}
Tensor Tensor::any(const Sizes &axes, bool keepdim, Location loc) const {
    return lz::any(*this, axes, keepdim, loc);
}
Tensor Tensor::all(const Sizes &axes, bool keepdim, Location loc) const {
    return lz::all(*this, axes, keepdim, loc);
}
Tensor Tensor::logsumexp(const Sizes &axes, bool keepdim, Location loc) const {
    return lz::logsumexp(*this, axes, keepdim, loc);
}
Tensor Tensor::norm(double p, const Sizes &axes, bool keepdim, Location loc) const {
    return lz::norm(*this, p, axes, keepdim, loc);
}
Tensor Tensor::softmax(int64_t axis, std::optional<DType> dtype, Location loc) const {
    return lz::softmax(*this, axis, dtype, loc);
}
Tensor Tensor::log_softmax(int64_t axis, std::optional<DType> dtype, Location loc) const {
    return lz::log_softmax(*this, axis, dtype, loc);
}
Tensor Tensor::cumsum(int64_t axis, std::optional<DType> dtype, Location loc) const {
    return lz::cumsum(*this, axis, dtype, loc);
}
Tensor Tensor::cumprod(int64_t axis, std::optional<DType> dtype, Location loc) const {
    return lz::cumprod(*this, axis, dtype, loc);
}
ValuesIndices Tensor::sort(int64_t axis, bool descending, Location loc) const {
    return lz::sort(*this, axis, descending, loc);
}
Tensor Tensor::argsort(int64_t axis, bool descending, Location loc) const {
    return lz::argsort(*this, axis, descending, loc);
}
ValuesIndices Tensor::topk(int64_t k, int64_t axis, bool largest, Location loc) const {
    return lz::topk(*this, k, axis, largest, loc);
}
Tensor Tensor::matmul(const Tensor &other, Location loc) const {
    return lz::matmul(*this, other, loc);
}
Tensor Tensor::mm(const Tensor &other, Location loc) const {
    return lz::mm(*this, other, loc);
}
Tensor Tensor::mv(const Tensor &other, Location loc) const {
    return lz::mv(*this, other, loc);
}
Tensor Tensor::dot(const Tensor &other, Location loc) const {
    return lz::dot(*this, other, loc);
}
Tensor Tensor::bmm(const Tensor &other, Location loc) const {
    return lz::bmm(*this, other, loc);
}

Tensor Tensor::contiguous(Location loc) const {
    return lz::to(*this, dtype(), loc);
}
Tensor Tensor::cpu(Location loc) const {
    return lz::to(*this, Device::cpu(), detail::in<"cpu">(loc));
}
Tensor Tensor::cuda(const Device &device, Location loc) const {
    if (device.is_cpu())
        throw DeviceError("cuda: the device given is cpu; cpu() moves there", loc);
    return lz::to(*this, device, detail::in<"cuda">(loc));
}
Tensor Tensor::cuda(int index, Location loc) const {
    return lz::to(*this, Device::cuda(index), detail::in<"cuda">(loc));
}

} // namespace lz
