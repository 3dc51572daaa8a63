#include "ir/host/calls.h"

#include "ir/host/float_environment.h"

#include <array>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace lz::ir {

namespace {

constexpr size_t kErrorsKept = 256;

struct Registry {
    std::mutex mutex;
    std::map<std::string, RegisteredCall, std::less<>> calls; // entries stay where they are
    std::map<std::string, CudaCall, std::less<>> cuda_calls;  // likewise
    std::array<std::string, kErrorsKept> errors;
    int64_t errors_seen = 0;

    /// Never destroyed: programs run while the process ends.
    static Registry &get() {
        static Registry *const registry = new Registry;
        return *registry;
    }
};

Failure taken(const std::string &name) {
    return {ErrorKind::State,
            "A call named `" + name + "` is registered already; give this one another name."};
}

/// What `f` throws, as a sentence about what is registered under this name, or nothing.
template <class F>
std::string told(const std::string &name, F &&f) {
    // Messages begin with the name of what failed; who says it himself need not hear it twice.
    const auto threw = [&](std::string_view what) {
        const std::string head = name + ": ";
        if (what.starts_with(head))
            what.remove_prefix(head.size());
        return head + "the registered function threw: " + std::string(what);
    };
    // It runs as kernels do, and what it changes of its thread's environment ends with it.
    const FloatEnvironment environment;
    try {
        f();
    } catch (const std::bad_alloc &) {
        throw;
    } catch (const std::exception &error) {
        return threw(error.what());
    } catch (...) {
        return threw("something that is no exception.");
    }
    return {};
}

} // namespace

void register_call(std::string name, CallFn function) {
    if (name.empty())
        throw Failure(ErrorKind::State, "A call is registered by a name; an empty one was given.");
    if (!function)
        throw Failure(ErrorKind::State, "The call `" + name + "` was registered without a function.");
    Registry &registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    if (registry.calls.contains(name) || registry.cuda_calls.contains(name))
        throw taken(name);
    RegisteredCall call{name, std::move(function)};
    registry.calls.emplace(std::move(name), std::move(call));
}

const RegisteredCall *find_call(std::string_view name) {
    Registry &registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    const auto found = registry.calls.find(name);
    return found == registry.calls.end() ? nullptr : &found->second;
}

Failure unknown_call(std::string_view name) {
    Registry &registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    if (registry.cuda_calls.contains(name))
        return {ErrorKind::State,
                "The call `" + std::string(name) +
                    "` is registered for CUDA devices only, and its operands are elsewhere; register_call "
                    "gives it a function for the CPU and for virtual GPUs."};
    std::string names;
    const auto add = [&](const std::string &known) { names += (names.empty() ? "`" : ", `") + known + "`"; };
    for (const auto &[known, call] : registry.calls)
        add(known);
    for (const auto &[known, call] : registry.cuda_calls)
        if (!registry.calls.contains(known))
            add(known);
    return {ErrorKind::State,
            "No call is registered as `" + std::string(name) + "`; " +
                (names.empty() ? "none is registered at all." : "those that are: " + names + ".")};
}

void register_cuda_call(CudaCall call, bool beside) {
    if (call.name.empty())
        throw Failure(ErrorKind::State, "A call is registered by a name; an empty one was given.");
    if (!call.function && (call.source.empty() || call.entry.empty() || !call.grid))
        throw Failure(ErrorKind::State,
                      "The call `" + call.name +
                          "` was registered for CUDA devices without a function, and without a kernel: its "
                          "source, its entry, and a function that says how it is launched.");
    Registry &registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    if (registry.cuda_calls.contains(call.name) || (!beside && registry.calls.contains(call.name)))
        throw taken(call.name);
    if (beside && !registry.calls.contains(call.name))
        throw Failure(ErrorKind::State, "No call is registered as `" + call.name +
                                            "`; what CUDA devices alone do is registered with a function "
                                            "for the types of its results.");
    std::string name = call.name;
    registry.cuda_calls.emplace(std::move(name), std::move(call));
}

const CudaCall *find_cuda_call(std::string_view name) {
    Registry &registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    const auto found = registry.cuda_calls.find(name);
    return found == registry.cuda_calls.end() ? nullptr : &found->second;
}

std::string run_call(const RegisteredCall &call, std::span<const CallTensor> operands,
                     std::span<const CallTensor> results) {
    return told(call.name, [&] { call.function(operands, results); });
}

std::string run_cuda_call(const CudaCall &call, std::span<const CallTensor> operands,
                          std::span<const CallTensor> results, int device, void *stream, CudaGrid &grid) {
    return told(call.name, [&] {
        if (call.function)
            call.function(operands, results, device, stream);
        else
            grid = call.grid(operands, results);
    });
}

int64_t keep_call_error(std::string text) {
    Registry &registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    registry.errors[static_cast<size_t>(registry.errors_seen) % kErrorsKept] = std::move(text);
    return registry.errors_seen++;
}

std::string call_error(int64_t number) {
    Registry &registry = Registry::get();
    const std::lock_guard lock(registry.mutex);
    if (number < 0 || number >= registry.errors_seen ||
        registry.errors_seen - number > static_cast<int64_t>(kErrorsKept))
        return "A registered call threw; what it said is forgotten, because many others did since.";
    return registry.errors[static_cast<size_t>(number) % kErrorsKept];
}

} // namespace lz::ir
