#include "ir/saved/saved_program.h"

#include "ir/kernel/phase_fields.h"
#include "ir/op.h"
#include "ir/saved/bytes.h"
#include "ir/saved/container.h"

#include <fmt/format.h>

#include <algorithm>

namespace lz::ir {
namespace {

// --- writing

/// Sections in order, and the manifest that names them.
class Sections {
public:
    Sections() : file_{kProgramFileVersion, {{}}} {} // with the manifest's place
    /// The number of the new section.
    uint32_t add(SectionKind kind, std::span<const std::byte> bytes) {
        file_.sections.push_back({kind, bytes});
        return static_cast<uint32_t>(file_.sections.size() - 1);
    }
    uint32_t add(const std::string &text) { return add(SectionKind::Text, std::as_bytes(std::span(text))); }
    std::vector<std::byte> finish(std::span<const std::byte> manifest) {
        file_.sections[0] = {SectionKind::Manifest, manifest};
        return write_container(file_);
    }

private:
    Container file_;
};

void put(ByteWriter &to, const SavedConstant &constant, Sections &sections) {
    to.put(constant.type);
    if (constant.from.file == kNothing) {
        to.put(sections.add(SectionKind::Constant, constant.bytes));
        return;
    }
    to.put(kNothing);
    to.put(constant.from.file);
    to.put(constant.from.tensor);
    to.put(std::span<const std::byte>(constant.from.hash));
}

void put(ByteWriter &to, const SavedTensor &tensor) {
    to.put(tensor.name);
    to.put(tensor.type);
}

void put(ByteWriter &to, const std::vector<uint32_t> &code) {
    to.put_each(code, [&](uint32_t c) { to.put(c); });
}

void put(ByteWriter &to, const SavedPlan &plan, Sections &sections) {
    to.put_each(plan.arguments, [&](const SavedTensor &t) { put(to, t); });
    to.put_each(plan.numbers, [&](const SavedNumber &n) {
        to.put(n.value);
        to.put(n.any);
    });
    to.put_each(plan.inputs, [&](const SavedInput &i) {
        to.put(i.argument);
        to.put(i.constant);
    });
    to.put_each(plan.results, [&](const TensorType &t) { to.put(t); });
    to.put_each(plan.values, [&](const SavedValue &v) {
        to.put(v.result);
        to.put(v.argument);
        to.put(v.type);
        to.put(v.loc);
    });
    to.put_each(plan.outputs, [&](const SavedOutput &o) {
        to.put(o.value);
        to.put(o.argument);
        to.put(o.output);
        put(to, o.tensor);
    });
    to.put_each(plan.words, [&](int64_t w) { to.put(w); });
    to.put_each(plan.again, [&](const SavedWord &w) {
        to.put(w.at);
        to.put(w.kind);
        to.put(w.of);
        to.put(w.form);
    });
    to.put_each(plan.draws, [&](int64_t w) { to.put(w); });
    to.put_each(plan.operations, [&](const SavedOperation &o) {
        to.put(o.op);
        to.put(o.loc);
    });
    to.put(sections.add(plan.graph));
    to.put_each(plan.variants, [&](const SavedVariant &v) {
        to.put(v.level);
        to.put(v.any_processor);
        to.put(sections.add(v.program));
        to.put_each(v.code, [&](const std::vector<uint32_t> &of_kernel) { put(to, of_kernel); });
    });
}

void put(ByteWriter &to, const SavedCode &kernel, Sections &sections) {
    to.put(kernel.name);
    to.put(kernel.format);
    to.put(kernel.sm);
    to.put(kernel.unaligned);
    to.put_each(kernel.phases, [&](const CompiledPhase &phase) {
        to.put_count(phase.alignments.size());
        to.put_count(phase.parameters.size());
        for_stored_fields(phase, [&](const auto &value) { to.put(value); });
    });
    to.put(sections.add(SectionKind::Code, kernel.object));
}

// --- reading

class SavedReader {
public:
    explicit SavedReader(std::span<const std::byte> file)
        : file_(read_container(file)), from_(sections()[0].bytes), used_(sections().size(), false) {}

    SavedProgram read() {
        SavedProgram program;
        from_.get(program.name);
        from_.get(program.made_by);
        from_.get_each(program.weights, 4, [&](std::string &path) { from_.get(path); });
        from_.get_each(program.constants, 8, [&](SavedConstant &c) { get(c); });
        from_.get_each(program.devices, 12, [&](SavedDevice &d) { get(d); });
        from_.get_each(program.code, 21, [&](SavedCode &k) { get(k); });
        from_.get_each(program.library, 16, [&](SavedLibraryKernel &k) { get(k); });
        from_.get_each(program.plans, 40, [&](SavedPlan &p) { get(p); });
        if (!from_.at_end())
            damaged("there is something behind its manifest");
        used_[0] = true;
        if (std::ranges::count(used_, false) != 0)
            damaged("it has a section that nothing refers to");
        if (program.plans.empty())
            damaged("it has no program");
        check(program);
        for (const SavedPlan &plan : program.plans)
            check(plan, program);
        return program;
    }

private:
    const std::vector<Section> &sections() const { return file_.sections; }

    std::span<const std::byte> section(SectionKind kind) { return section(kind, from_.get_as<uint32_t>()); }
    std::span<const std::byte> section(SectionKind kind, uint32_t s) {
        if (s >= sections().size() || sections()[s].kind != kind || used_[s])
            damaged(fmt::format("section {} is referred to, and is another one", s));
        used_[s] = true;
        return sections()[s].bytes;
    }
    std::string text() {
        const auto bytes = section(SectionKind::Text);
        return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
    }

    void get(SavedConstant &constant) {
        from_.get(constant.type);
        const auto s = from_.get_as<uint32_t>();
        if (s == kNothing) {
            from_.get(constant.from.file);
            from_.get(constant.from.tensor);
            for (std::byte &byte : constant.from.hash)
                byte = static_cast<std::byte>(from_.get_as<uint8_t>());
            need(constant.from.file != kNothing, "a constant is in no file");
            return;
        }
        constant.bytes = section(SectionKind::Constant, s);
        if (static_cast<uint64_t>(constant.type.bytes()) != constant.bytes.size())
            damaged(fmt::format("a constant is {} and has {} bytes", to_string(constant.type),
                                constant.bytes.size()));
    }

    void get(SavedDevice &device) {
        device.device.kind = from_.get_enum<DeviceKind>(2);
        from_.get(device.device.index);
        from_.get(device.is_virtual);
        from_.get(device.sm);
        from_.get(device.name);
    }

    void get(std::vector<uint32_t> &code) {
        from_.get_each(code, 4, [&](uint32_t &c) { from_.get(c); });
    }

    void get(SavedLibraryKernel &kernel) {
        from_.get(kernel.name);
        from_.get(kernel.source);
        get(kernel.code);
    }

    void get(SavedCode &kernel) {
        from_.get(kernel.name);
        kernel.format = from_.get_enum<CodeFormat>(4);
        from_.get(kernel.sm);
        from_.get(kernel.unaligned);
        from_.get_each(kernel.phases, 36, [&](CompiledPhase &phase) {
            phase.alignments.resize(from_.count(4));
            phase.parameters.resize(from_.count(8));
            for_stored_fields(phase, [&]<class T>(T &value) {
                if constexpr (std::is_same_v<T, LaunchAlignment::Kind>)
                    value = from_.get_enum<T>(2);
                else if constexpr (std::is_same_v<T, LaunchParameter::Kind>)
                    value = from_.get_enum<T>(5);
                else
                    from_.get(value);
            });
        });
        const auto code = section(SectionKind::Code);
        kernel.object.assign(code.begin(), code.end());
    }

    void get(SavedTensor &tensor) {
        from_.get(tensor.name);
        from_.get(tensor.type);
    }

    void get(SavedPlan &plan) {
        from_.get_each(plan.arguments, 8, [&](SavedTensor &t) { get(t); });
        from_.get_each(plan.numbers, 9, [&](SavedNumber &n) {
            from_.get(n.value);
            from_.get(n.any);
        });
        from_.get_each(plan.inputs, 8, [&](SavedInput &i) {
            from_.get(i.argument);
            from_.get(i.constant);
        });
        from_.get_each(plan.results, 4, [&](TensorType &t) { from_.get(t); });
        from_.get_each(plan.values, 24, [&](SavedValue &v) {
            from_.get(v.result);
            from_.get(v.argument);
            from_.get(v.type);
            from_.get(v.loc);
        });
        from_.get_each(plan.outputs, 20, [&](SavedOutput &o) {
            from_.get(o.value);
            from_.get(o.argument);
            from_.get(o.output);
            get(o.tensor);
        });
        from_.get_each(plan.words, 8, [&](int64_t &w) { from_.get(w); });
        from_.get_each(plan.again, 10, [&](SavedWord &w) {
            from_.get(w.at);
            w.kind = from_.get_enum<SavedWord::Kind>(4);
            from_.get(w.of);
            w.form = from_.get_enum<NumberForm>(kNumberForms);
        });
        from_.get_each(plan.draws, 8, [&](int64_t &w) { from_.get(w); });
        from_.get_each(plan.operations, 16, [&](SavedOperation &o) {
            from_.get(o.op);
            from_.get(o.loc);
        });
        plan.graph = text();
        from_.get_each(plan.variants, 10, [&](SavedVariant &v) {
            v.level = from_.get_enum<IsaLevel>(kIsaLevels);
            from_.get(v.any_processor);
            v.program = text();
            from_.get_each(v.code, 4, [&](std::vector<uint32_t> &of_kernel) { get(of_kernel); });
        });
    }

    // --- what refers to what

    static void need(bool good, const char *what) {
        if (!good)
            damaged(what);
    }

    static void check(const SavedProgram &program) {
        for (size_t d = 0; d < program.devices.size(); ++d) {
            const SavedDevice &device = program.devices[d];
            need(device.device.kind == DeviceKind::Cuda &&
                     (d == 0 || program.devices[d - 1].device.index < device.device.index) &&
                     device.is_virtual == (device.sm == 0) && device.sm < kNoSm,
                 "a device is none that there can be");
        }
        for (const SavedCode &code : program.code) {
            need(is_cuda(code.format) == (code.sm != 0) && code.sm < kNoSm, "code is for no device");
            need((code.unaligned != kNothing) == needs_alignment(code.phases),
                 "code for aligned addresses alone is not what a device takes");
            if (code.unaligned == kNothing)
                continue;
            need(code.unaligned < program.code.size(), "code for unaligned addresses is not there");
            const SavedCode &other = program.code[code.unaligned];
            need(other.format == code.format && other.sm == code.sm && other.unaligned == kNothing &&
                     std::ranges::equal(other.phases, code.phases, {}, described, described),
                 "code for unaligned addresses is of another kernel");
        }
        for (const SavedLibraryKernel &kernel : program.library)
            for (const uint32_t code : kernel.code)
                need(code < program.code.size() && is_cuda(program.code[code].format),
                     "a kernel of the library has no code");
        check_weights(program);
    }

    static void check_weights(const SavedProgram &program) {
        for (const std::string &path : program.weights)
            need(!path.empty() && !path.starts_with('/') && path.find('\0') == std::string::npos,
                 "a safetensors file is none that can be beside it");
        std::vector<bool> used(program.weights.size(), false);
        for (const SavedConstant &constant : program.constants) {
            need_device(constant.type, program);
            const uint32_t file = constant.from.file;
            need(file == kNothing || file < used.size(), "a constant is in a file that it does not name");
            if (file != kNothing)
                used[file] = true;
        }
        need(std::ranges::count(used, false) == 0, "it names a safetensors file that it does not need");
    }

    /// All of a phase's launch in which code for unaligned addresses does not differ.
    static CompiledPhase described(CompiledPhase phase) {
        phase.symbol.clear();
        phase.alignments.clear();
        phase.shared_bytes = 0;
        return phase;
    }

    static constexpr uint32_t kNoSm = 10000;
    /// The tensor is where a GPU of the file is, or on the host.
    static void need_device(const TensorType &type, const SavedProgram &program) {
        need(type.device == kCpu || std::ranges::find(program.devices, type.device, &SavedDevice::device) !=
                                        program.devices.end(),
             "a tensor is on a device that it does not name");
    }

    static void check(const SavedPlan &plan, const SavedProgram &program) {
        for (const SavedTensor &argument : plan.arguments)
            need_device(argument.type, program);
        for (const TensorType &result : plan.results)
            need_device(result, program);
        for (const SavedInput &input : plan.inputs)
            need(input.argument != kNothing
                     ? input.constant == kNothing && input.argument < plan.arguments.size()
                     : input.constant < program.constants.size(),
                 "an input of a Program is no argument and no constant");
        for (const SavedValue &value : plan.values) {
            if (value.argument != kNothing)
                need(value.result == kNothing && value.argument < plan.arguments.size() &&
                         plan.arguments[value.argument].type.bytes() == value.type.bytes() &&
                         plan.arguments[value.argument].type.device == value.type.device,
                     "a value is no argument");
            else
                need(value.result < plan.results.size() && plan.results[value.result] == value.type,
                     "a value is no result of a Program");
        }
        for (size_t i = 0; i < plan.outputs.size(); ++i)
            check(plan.outputs[i], i, plan);
        for (const SavedWord &word : plan.again)
            check(word, plan);
        for (const int64_t draw : plan.draws)
            need(draw >= 0, "it draws fewer than no numbers");
        for (const SavedOperation &operation : plan.operations)
            need(op_from_name(operation.op).has_value(), "an operation is unknown");
        need(!plan.variants.empty(), "a signature has no Program");
        for (const SavedVariant &variant : plan.variants)
            for (const std::vector<uint32_t> &of_kernel : variant.code)
                for (const uint32_t code : of_kernel) {
                    need(code < program.code.size(), "a kernel has no code");
                    need(!variant.any_processor || is_cuda(program.code[code].format),
                         "a kernel is for a processor that its Program does not name");
                }
    }

    static void check(const SavedOutput &output, size_t index, const SavedPlan &plan) {
        const int set =
            (output.value != kNothing) + (output.argument != kNothing) + (output.output != kNothing);
        need(set <= 1, "a result of a call is several values");
        if (output.value != kNothing)
            need(output.value < plan.values.size() && plan.values[output.value].type == output.tensor.type,
                 "a result of a call is no value");
        if (output.argument != kNothing)
            need(output.argument < plan.arguments.size() &&
                     plan.arguments[output.argument].type == output.tensor.type,
                 "a result of a call is no argument");
        if (output.output != kNothing)
            need(output.output < index && plan.outputs[output.output].value != kNothing &&
                     plan.outputs[output.output].tensor.type == output.tensor.type,
                 "a result of a call is no earlier one");
    }

    static void check(const SavedWord &word, const SavedPlan &plan) {
        need(word.at < plan.words.size(), "a word of a Program is not there");
        const size_t known = word.kind == SavedWord::Kind::Number    ? plan.numbers.size()
                             : word.kind == SavedWord::Kind::Element ? plan.arguments.size()
                                                                     : plan.draws.size();
        need(word.of < known, "a word of a Program is of nothing");
        if (word.kind == SavedWord::Kind::Element)
            need(plan.arguments[word.of].type.numel() == 1 && plan.arguments[word.of].type.device == kCpu,
                 "a word of a Program is of an argument of several elements");
    }

    Container file_;
    ByteReader from_;
    std::vector<bool> used_;
};

} // namespace

std::vector<std::byte> write_saved(const SavedProgram &program) {
    ByteWriter manifest;
    Sections sections;
    manifest.put(program.name);
    manifest.put(program.made_by);
    manifest.put_each(program.weights, [&](const std::string &path) { manifest.put(path); });
    manifest.put_each(program.constants, [&](const SavedConstant &c) { put(manifest, c, sections); });
    manifest.put_each(program.devices, [&](const SavedDevice &d) {
        manifest.put(d.device.kind);
        manifest.put(d.device.index);
        manifest.put(d.is_virtual);
        manifest.put(d.sm);
        manifest.put(d.name);
    });
    manifest.put_each(program.code, [&](const SavedCode &k) { put(manifest, k, sections); });
    manifest.put_each(program.library, [&](const SavedLibraryKernel &k) {
        manifest.put(k.name);
        manifest.put(k.source);
        put(manifest, k.code);
    });
    manifest.put_each(program.plans, [&](const SavedPlan &p) { put(manifest, p, sections); });
    const std::vector<std::byte> bytes = manifest.take();
    return sections.finish(bytes);
}

SavedProgram read_saved(std::span<const std::byte> file) {
    return SavedReader(file).read();
}

const SavedVariant *best_variant(const SavedPlan &plan) {
    const SavedVariant *best = nullptr;
    for (const SavedVariant &variant : plan.variants)
        if ((!best || variant.level > best->level) && (variant.any_processor || runs_here(variant.level)))
            best = &variant;
    return best;
}

const SavedCode *best_code(std::span<const SavedCode *const> code, uint32_t sm) {
    // A device runs machine code of its generation (9.0's of 9.x) up to its own, and finishes PTX of any
    // older one.
    const auto is_cubin = [](const SavedCode *c) { return c->format == CodeFormat::Cubin; };
    const SavedCode *best = nullptr;
    for (const SavedCode *const c : code) {
        if (!is_cuda(c->format) || c->sm > sm || (is_cubin(c) && c->sm / 10 != sm / 10))
            continue;
        if (!best || is_cubin(c) > is_cubin(best) || (is_cubin(c) == is_cubin(best) && c->sm > best->sm))
            best = c;
    }
    return best;
}

} // namespace lz::ir
