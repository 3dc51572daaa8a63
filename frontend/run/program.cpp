#include "lazuli/run.h"

#include "frontend/run/call.h"
#include "frontend/run/devices.h"
#include "frontend/run/throw_kind.h"
#include "ir/host/float_environment.h"
#include "ir/op.h"
#include "ir/saved/saved_program.h"
#include "runtime/api/parallel.h"
#include "runtime/saved/load.h"
#include "runtime/saved/program_file.h"
#include "runtime/saved/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

namespace lz::run {
namespace {

/// Public to internal and back (equal by static_assert in frontend/tensor/dtype.cpp).
ir::DType to_ir(DType dtype) {
    return static_cast<ir::DType>(dtype);
}
DType from_ir(ir::DType dtype) {
    return static_cast<DType>(dtype);
}
Location from_ir(const ir::Location &loc) {
    Location out(loc.file, loc.line);
    out.function = loc.function;
    return out;
}

template <class F>
decltype(auto) translated(Location loc, F &&f) {
    try {
        return f();
    } catch (const ir::Failure &failure) {
        const bool known = failure.loc().known();
        detail::throw_kind(failure.kind(), failure.message(), known ? from_ir(failure.loc()) : loc);
    }
}

/// With its owner's counts in one piece.
std::shared_ptr<void> new_memory(int64_t bytes) {
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    const size_t lines = (static_cast<size_t>(bytes) + sizeof(Line) - 1) / sizeof(Line);
    try {
        auto memory = std::make_shared_for_overwrite<Line[]>(std::max<size_t>(lines, 1));
        void *const first = memory.get();
        return {std::move(memory), first};
    } catch (const std::bad_alloc &) {
        throw ir::Failure(ir::ErrorKind::OutOfMemory,
                          fmt::format("there is no memory for a result of {} bytes", bytes));
    }
}

bool same_bits(double a, double b) {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

/// An element as the runtime word of a constant (ir/op.h).
int64_t word_of(const void *element, ir::DType dtype) {
    const auto read = [&]<class T>(T value) {
        std::memcpy(&value, element, sizeof value);
        return value;
    };
    switch (dtype) {
    case ir::DType::Bool:
        return read(uint8_t{}) != 0;
    case ir::DType::U8:
        return read(uint8_t{});
    case ir::DType::I8:
        return read(int8_t{});
    case ir::DType::I16:
        return read(int16_t{});
    case ir::DType::I32:
        return read(int32_t{});
    case ir::DType::I64:
        return read(int64_t{});
    case ir::DType::F16:
        return ir::scalar_word(ir::half_to_float(read(uint16_t{})));
    case ir::DType::BF16:
        return ir::scalar_word(ir::bfloat_to_float(read(uint16_t{})));
    case ir::DType::F32:
        return ir::scalar_word(read(float{}));
    case ir::DType::F64:
        return ir::scalar_word(read(double{}));
    }
    return 0;
}

std::string text_of(const View &view) {
    std::string extents;
    for (const int64_t extent : view.shape)
        extents += fmt::format("{}{}", extents.empty() ? "" : ",", extent);
    return fmt::format("{}[{}]", lz::name(view.dtype), extents);
}

bool fits(const View &view, const ir::TensorType &type) {
    return to_ir(view.dtype) == type.dtype && std::ranges::equal(view.shape, type.shape.extents());
}

ProgramTensor to_public(const ir::SavedTensor &tensor) {
    return {tensor.name,
            from_ir(tensor.type.dtype),
            {tensor.type.shape.begin(), tensor.type.shape.end()},
            ir::to_string(tensor.type.device)};
}

} // namespace

struct Program::Impl {
    std::vector<std::byte> file; ///< which constants are a part of
    ir::SavedProgram saved;
    std::vector<std::shared_ptr<const void>> weights;  ///< memory of constants that are no part of it
    std::vector<std::optional<DeviceBlock>> constants; ///< on GPUs; nothing of those on the host
    std::vector<std::shared_ptr<const runtime::LoadedProgram>> programs; ///< one a plan
    std::vector<ProgramSignature> signatures;
    std::atomic<uint64_t> seed{67280421310721}; ///< as Generator::kDefaultSeed
    std::atomic<uint64_t> offset{0};

    size_t find(std::span<const View> inputs, std::span<const double> numbers, Location loc) const;
    [[noreturn]] void refuse(const ir::SavedTensor &expected, const View &given, Location loc) const;
    std::vector<int64_t> words_of(const ir::SavedPlan &plan, std::span<const View> inputs,
                                  std::span<const double> numbers);
    std::vector<std::shared_ptr<void>> run(size_t plan, std::span<const View> inputs,
                                           std::span<const double> numbers);
    void put_constants();
};

Program::Impl &Program::impl() const {
    if (!impl_)
        throw StateError("this Program is empty: load_program gives one", {});
    return *impl_;
}
const std::vector<ProgramSignature> &Program::signatures() const {
    return impl().signatures;
}
const std::string &Program::name() const {
    return impl().saved.name;
}
void Program::manual_seed(uint64_t seed) const {
    impl().seed = seed;
    impl().offset = 0;
}

void Array::check(DType wanted, Location loc) const {
    if (defined() && wanted != dtype_)
        throw DTypeError(fmt::format("values: the elements are {}, and {} are asked for", lz::name(dtype_),
                                     lz::name(wanted)),
                         loc);
}

void Program::Impl::refuse(const ir::SavedTensor &expected, const View &given, Location loc) const {
    const std::string wanted = ir::to_string(expected.type);
    const std::string text =
        fmt::format("{}: its input `{}` is {}, and has to be {}{}", saved.name, expected.name, text_of(given),
                    wanted.substr(0, wanted.find(" @")),
                    saved.plans.size() == 1
                        ? std::string()
                        : fmt::format(", or what one of its {} signatures takes", saved.plans.size()));
    if (to_ir(given.dtype) != expected.type.dtype)
        throw DTypeError(text, loc);
    throw ShapeError(text, loc);
}

/// The plan that takes these.
size_t Program::Impl::find(std::span<const View> inputs, std::span<const double> numbers,
                           Location loc) const {
    size_t closest = 0, most = 0;
    bool count = false, tensors = false;
    for (size_t p = 0; p < saved.plans.size(); ++p) {
        const ir::SavedPlan &plan = saved.plans[p];
        if (plan.arguments.size() != inputs.size())
            continue;
        size_t i = 0;
        while (i < inputs.size() && fits(inputs[i], plan.arguments[i].type))
            ++i;
        if (!count || i > most) {
            closest = p;
            most = i;
        }
        count = true;
        if (i < inputs.size())
            continue;
        tensors = true;
        const auto takes = [](const ir::SavedNumber &known, double given) {
            return known.any || same_bits(known.value, given);
        };
        if (std::ranges::equal(plan.numbers, numbers, takes))
            return p;
    }
    const ir::SavedPlan &plan = saved.plans[closest];
    if (!count)
        throw StateError(fmt::format("{}: it takes {} tensors, and got {}", saved.name, plan.arguments.size(),
                                     inputs.size()),
                         loc);
    if (!tensors)
        refuse(plan.arguments[most], inputs[most], loc);
    if (plan.numbers.size() != numbers.size())
        throw StateError(fmt::format("{}: it takes {} numbers, and got {}", saved.name, plan.numbers.size(),
                                     numbers.size()),
                         loc);
    throw StateError(
        fmt::format("{}: it was recorded with other numbers, with which it computes on the host", saved.name),
        loc);
}

std::vector<int64_t> Program::Impl::words_of(const ir::SavedPlan &plan, std::span<const View> inputs,
                                             std::span<const double> numbers) {
    std::vector<int64_t> words = plan.words;
    std::vector<uint64_t> begins;
    for (const int64_t draw : plan.draws)
        begins.push_back(offset.fetch_add((static_cast<uint64_t>(draw) + 3) / 4));
    for (const ir::SavedWord &word : plan.again)
        words[word.at] = [&] {
            switch (word.kind) {
            case ir::SavedWord::Kind::Seed:
                return static_cast<int64_t>(seed.load());
            case ir::SavedWord::Kind::Offset:
                return static_cast<int64_t>(begins[word.of]);
            case ir::SavedWord::Kind::Number:
                return ir::scalar_word(ir::in_form(numbers[word.of], word.form));
            case ir::SavedWord::Kind::Element:
                return word_of(inputs[word.of].data, to_ir(inputs[word.of].dtype));
            }
            return int64_t{0};
        }();
    return words;
}

/// Constants of GPUs, where they belong.
void Program::Impl::put_constants() {
    std::vector<ir::Point> points;
    points.reserve(saved.constants.size());
    try {
        for (const ir::SavedConstant &constant : saved.constants) {
            std::optional<DeviceBlock> &block = constants.emplace_back();
            if (constant.type.device == ir::kCpu)
                continue;
            block.emplace(ir::StreamRef{constant.type.device, ir::kDefaultStream}, constant.type.bytes());
            points.push_back(block->fill(constant.bytes.data(), constant.type.bytes()));
        }
    } catch (...) { // copies are on their way
        wait_quietly(points);
        throw;
    }
    for (const ir::Point &point : points)
        RunDevices::get().slot(point.stream.device).backend->synchronize(point.stream.stream, point.tick);
    for (size_t c = 0; c < constants.size(); ++c)
        if (constants[c]) { // what it was copied from is not needed any more
            saved.constants[c].bytes = {};
            weights[c].reset();
        }
}

/// The memory of the Program's results.
std::vector<std::shared_ptr<void>> Program::Impl::run(size_t p, std::span<const View> inputs,
                                                      std::span<const double> numbers) {
    const ir::SavedPlan &plan = saved.plans[p];
    Call call(*programs[p], plan.inputs.size(), plan.results.size());
    for (const ir::SavedInput &input : plan.inputs)
        if (input.argument != ir::kNothing)
            call.add_input(inputs[input.argument].data, plan.arguments[input.argument].type);
        else if (const auto &constant = constants[input.constant])
            call.add_input(constant->data());
        else
            call.add_input(saved.constants[input.constant].bytes.data(),
                           saved.constants[input.constant].type);
    std::vector<std::shared_ptr<void>> memory;
    memory.reserve(plan.results.size());
    for (const ir::TensorType &type : plan.results)
        call.add_result(memory.emplace_back(new_memory(type.bytes())).get(), type);
    const std::vector<int64_t> words = words_of(plan, inputs, numbers);
    const ir::FloatEnvironment environment;
    const ir::RunReport report = call.run(words);
    if (report.failures.empty())
        return memory;
    const ir::Failure &failure = report.failures.front().failure;
    if (failure.node() >= plan.operations.size() || failure.kind() == ir::ErrorKind::Internal)
        throw failure;
    const ir::SavedOperation &operation = plan.operations[failure.node()];
    const ir::Failure called = ir::called_as(failure, *ir::op_from_name(operation.op), operation.loc);
    throw ir::Failure(called.kind(), called.message(), operation.loc);
}

std::vector<Array> Program::operator()(std::span<const View> inputs, std::span<const double> numbers,
                                       Location loc) const {
    Impl &program = impl();
    const size_t p = program.find(inputs, numbers, loc);
    const ir::SavedPlan &plan = program.saved.plans[p];
    for (size_t i = 0; i < inputs.size(); ++i) {
        const ir::SavedTensor &argument = plan.arguments[i];
        const auto needed = static_cast<size_t>(argument.type.bytes());
        if (inputs[i].bytes < needed)
            throw ShapeError(fmt::format("{}: its input `{}` is {}, and has {} bytes", program.saved.name,
                                         argument.name, text_of(inputs[i]), inputs[i].bytes),
                             loc);
        if (!inputs[i].data && needed > 0)
            throw StateError(
                fmt::format("{}: its input `{}` is at a null pointer", program.saved.name, argument.name),
                loc);
    }
    return translated(loc, [&] {
        const std::vector<std::shared_ptr<void>> memory = program.run(p, inputs, numbers);
        std::vector<Array> out;
        out.reserve(plan.outputs.size());
        for (const ir::SavedOutput &output : plan.outputs) {
            if (output.output != ir::kNothing) {
                out.push_back(Array(out[output.output]));
                continue;
            }
            Array &array = out.emplace_back();
            uint32_t argument = output.argument;
            if (output.value != ir::kNothing)
                argument = plan.values[output.value].argument;
            else if (argument == ir::kNothing)
                continue;
            array.dtype_ = from_ir(output.tensor.type.dtype);
            array.shape_.assign(output.tensor.type.shape.begin(), output.tensor.type.shape.end());
            array.bytes_ = static_cast<size_t>(output.tensor.type.bytes());
            if (argument == ir::kNothing) {
                array.memory_ = memory[plan.values[output.value].result];
                continue;
            }
            array.memory_ = new_memory(output.tensor.type.bytes());
            if (array.bytes_ > 0)
                std::memcpy(array.memory_.get(), inputs[argument].data, array.bytes_);
        }
        return out;
    });
}

Program load_program(const std::string &path, const LoadProgramOptions &options, Location loc) {
    return translated(loc, [&] {
        try {
            auto impl = std::make_shared<Program::Impl>();
            impl->file = runtime::read_program_file(path, options.from_anybody);
            impl->saved = ir::read_saved(impl->file);
            impl->weights = runtime::find_weights(
                impl->saved, {path, options.weights, options.check_weights, options.map_weights});
            runtime::ProgramLoader loader(impl->saved, RunDevices::get().place_of(impl->saved));
            impl->put_constants();
            for (const ir::SavedPlan &plan : impl->saved.plans) {
                impl->programs.push_back(loader.load(plan));
                ProgramSignature &signature = impl->signatures.emplace_back();
                for (const ir::SavedTensor &argument : plan.arguments)
                    signature.inputs.push_back(to_public(argument));
                for (const ir::SavedOutput &output : plan.outputs)
                    signature.outputs.push_back(to_public(output.tensor));
                for (const ir::SavedNumber &number : plan.numbers)
                    signature.numbers.push_back(number.any ? std::nullopt : std::optional(number.value));
            }
            Program program;
            program.impl_ = std::move(impl);
            return program;
        } catch (const ir::Failure &failure) {
            throw ir::Failure(failure.kind(),
                              fmt::format("load_program: \"{}\" {}", path, failure.message()));
        }
    });
}

void set_num_threads(int threads, Location loc) {
    translated(loc, [&] { runtime::set_num_threads(threads); });
}

} // namespace lz::run
