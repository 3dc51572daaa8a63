#pragma once
/// What a network is made of: a row for each of its modules, of one call that is recorded and never computed.
///
///     std::cout << lz::nn::summary(net, lz::zeros({32, 784}));

#include "lazuli/nn/module_holder.h"

#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lz {
namespace nn {

/// A module in a Summary.
struct ModuleSummary {
    std::string name;         ///< in its parent; empty for the whole
    std::string type;         ///< `Linear`
    int depth = 0;            ///< of the whole 0
    int64_t calls = 0;        ///< through a holder or a container; what is called by `forward` is not seen
    Sizes output;             ///< of the last call, its first result
    DType dtype = DType::F32; ///< of that
    Device device = Device::cpu(); ///< of that
    int64_t parameters = 0;        ///< elements of its own, without those of modules inside or listed before
    int64_t trainable = 0;         ///< those of them that require grad
    double flops = 0;              ///< scalar operations of all calls, those of modules inside included
    int64_t bytes = 0;             ///< of the outputs of all calls
};

/// What `summary` returns.
struct LZ_API Summary {
    std::vector<ModuleSummary> modules; ///< the whole first, others behind what they are inside of
    int64_t parameters = 0;             ///< elements, each parameter once
    int64_t trainable = 0;              ///< those of them that require grad
    int64_t parameter_bytes = 0;        ///< as they are stored
    int64_t buffer_bytes = 0;           ///< as they are stored
    int64_t input_bytes = 0;            ///< of the tensors that were given
    int64_t output_bytes = 0;           ///< of the outputs of modules with no modules inside
    double flops = 0;                   ///< of the whole call, as pending_flops counts them

    /// A table.
    std::string str() const;
};
/// Prints `str()`.
LZ_API std::ostream &operator<<(std::ostream &out, const Summary &summary);

namespace detail {

/// Looks at one call of a module, which is in evaluation mode meanwhile, without gradients, and draws no
/// numbers of the generator that anybody misses.
class LZ_API SummaryCall {
public:
    /// From here on its calls are seen.
    explicit SummaryCall(Module &module);
    ~SummaryCall();
    SummaryCall(const SummaryCall &) = delete;
    SummaryCall &operator=(const SummaryCall &) = delete;
    /// What the call gets in place of an argument: a tensor of the same value, which may be changed in place.
    Tensor input(const Tensor &tensor);
    /// Others as they are.
    template <class A>
    const A &input(const A &argument) {
        return argument;
    }
    /// After the call.
    Summary finish();

private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace detail

/// Calls the module with these arguments and tells what there is. Nothing is computed: inputs may be
/// `zeros` of any size, which take no memory. The module is in evaluation mode meanwhile, and what it changes
/// in its inputs does not show. Throws what forward throws.
template <class M, class... A>
    requires std::derived_from<M, Module>
Summary summary(M &module, const A &...arguments) {
    detail::SummaryCall call(module);
    (void)call_module(module, Location(), call.input(arguments)...);
    return call.finish();
}
/// The same of what the holder holds.
template <class M, class... A>
Summary summary(const ModuleHolder<M> &holder, const A &...arguments) {
    return summary(*holder, arguments...);
}

} // namespace nn
} // namespace lz
