#include "codegen/cuda/emitter.h"

#include "codegen/cuda/prelude.h"

#include <algorithm>

namespace lz::codegen::cuda {

using namespace ir;

namespace {

/// Bytes of all parameters of a launch.
constexpr uint32_t kTableBytes = 4096, kLargeTableBytes = 32764;

std::string joined(const std::vector<std::string> &all) {
    std::string text;
    for (const std::string &one : all)
        text += (text.empty() ? "" : ", ") + one;
    return text;
}

struct Parameter {
    LaunchParameter rule;
    std::string type, name;

    std::string declared() const { return type + name; }
};

/// Writes the function of a phase and its entry.
class EntryWriter {
public:
    EntryWriter(const Kernel &kernel, size_t phase, std::string prefix)
        : kernel_(kernel), number_(phase), prefix_(std::move(prefix)),
          schedule_(kernel.phases[phase].cuda()) {}

    /// Both ways to access packets are written, though one becomes the text: what either of them uses is a
    /// parameter of both, so that launches are described alike but for their shared memory.
    CompiledPhase run(std::string &text) {
        PhaseEmitter aligned(kernel_, number_, Entry::Aligned);
        aligned.write();
        const bool both = aligned.has_aligned_packets();
        PhaseEmitter any(kernel_, number_, both ? Entry::Any : Entry::Only);
        any.write();
        used_ = any.used();
        if (both)
            join(aligned.used());
        list_parameters();

        const bool takes_aligned = both && schedule_.aligned;
        const PhaseEmitter &function = takes_aligned ? aligned : any;
        CompiledPhase rules;
        rules.symbol = fmt::format("{}phase{}{}", prefix_, number_, schedule_.aligned ? "" : "_unaligned");
        rules.threads = static_cast<uint32_t>(schedule_.threads);
        rules.shared_bytes = function.shared_bytes();
        rules.most_blocks = static_cast<uint32_t>(schedule_.most_blocks);
        rules.cluster_blocks = static_cast<uint32_t>(schedule_.cluster_blocks);
        if (takes_aligned)
            rules.alignments = aligned.alignments();
        for (const Parameter &p : parameters_)
            rules.parameters.push_back(p.rule);
        declare_table(rules);
        write_function(rules.symbol, function, rules);
        text += w_.take();
        return rules;
    }

private:
    std::string_view index_type() const { return index_type_of(schedule_); }
    /// What the assembler is told of a launch. Where threads keep long rows, or few of them have rows of f64
    /// in a temporary, it is also told that one block on an SM will do: else NVRTC 13.0 aims at 64 registers
    /// and spills one (RMS norm of 4096 bf16 on sm_90, softmax of 30000 f64 on sm_120).
    std::string bounds() const {
        const bool in_memory = schedule_.tier == RowTier::Memory && schedule_.scratch_bytes != kNoArg;
        const bool keeps =
            schedule_.shape == CudaShape::Rows && schedule_.row_threads > 32 &&
            (schedule_.tier == RowTier::Registers || (in_memory && schedule_.row_threads <= 256));
        return fmt::format("{}__launch_bounds__({}{})",
                           schedule_.cluster_blocks > 1
                               ? fmt::format("__cluster_dims__({}, 1, 1) ", schedule_.cluster_blocks)
                               : "",
                           schedule_.threads, keeps ? ", 1" : "");
    }
    /// The loop over the items of a block, or of a cluster.
    std::string each_item() const {
        const std::string scale =
            schedule_.cluster_blocks > 1 ? fmt::format(" / {}", schedule_.cluster_blocks) : "";
        return fmt::format("for ({0} item = blockIdx.x{1}; item < items; item += gridDim.x{1})", index_type(),
                           scale);
    }

    void join(const Used &more) {
        used_.buffers.insert(more.buffers.begin(), more.buffers.end());
        used_.args.insert(more.args.begin(), more.args.end());
        used_.scalars.insert(more.scalars.begin(), more.scalars.end());
        used_.faults = used_.faults || more.faults;
    }

    void add(LaunchParameter::Kind kind, uint32_t bytes, uint16_t index, std::string type, std::string name) {
        const uint32_t at = (record_ + bytes - 1) / bytes * bytes;
        parameters_.push_back(
            {{kind, static_cast<uint8_t>(bytes), index, at}, std::move(type), std::move(name)});
        record_ = at + bytes;
    }

    void list_parameters() {
        const uint32_t index_bytes = schedule_.index32 ? 4 : 8;
        const std::string type = std::string(index_type()) + " ";
        for (const uint16_t b : used_.buffers)
            add(LaunchParameter::Buffer, 8, b,
                fmt::format("{}{} *", kernel_.buffers[b].mode == BufferMode::In ? "const " : "",
                            c_type(kernel_.buffers[b].dtype)),
                PhaseEmitter::buffer_name(kernel_, b));
        for (const uint16_t a : used_.args)
            add(LaunchParameter::Arg, index_bytes, a, type, PhaseEmitter::arg_name(kernel_, a));
        for (const uint16_t s : used_.scalars) {
            const DType t = info(kernel_.scalars[s].dtype).compute;
            const DType slot = t == DType::F32 || t == DType::F64 ? t : DType::I64;
            add(LaunchParameter::Scalar, t == DType::F32 ? 4 : 8, s, std::string(c_type(slot)) + " ",
                fmt::format("scalar{}", s));
        }
        if (used_.faults)
            add(LaunchParameter::Fault, 8, 0, "Fault *", "faults");
        add(LaunchParameter::Items, index_bytes, 0, type, "items");
    }

    void declare_table(CompiledPhase &rules) {
        if (schedule_.segments == SegmentTier::One)
            return;
        rules.record_bytes = (record_ + 7) / 8 * 8;
        w_.open("struct alignas(8) Segment{}", number_);
        for (const Parameter &p : parameters_)
            w_.line("{};", p.declared());
        w_.close(";");
        if (schedule_.segments == SegmentTier::Memory)
            return;
        const uint32_t bytes = schedule_.segments == SegmentTier::Table ? kTableBytes : kLargeTableBytes;
        const uint32_t most = (bytes - 8) / rules.record_bytes;
        rules.table_bytes = most * rules.record_bytes;
        w_.line("struct Segments{0} {{ Segment{0} segment[{1}]; }};", number_, most);
        w_.plain("");
    }

    /// What takes one item, and the entry that walks those of a block.
    void write_function(const std::string &symbol, const PhaseEmitter &function, const CompiledPhase &rules) {
        std::vector<std::string> declared, item, arguments;
        for (const Parameter &p : parameters_) {
            const bool items = p.rule.kind == LaunchParameter::Items;
            declared.push_back(p.declared());
            item.push_back(items ? fmt::format("{} {}", index_type(), function.item()) : p.declared());
            arguments.push_back(items ? "item" : p.name);
        }
        w_.line("__device__ __forceinline__ void {}_item({}) {{", symbol, joined(item));
        w_.plain(function.body() + "}\n");
        if (schedule_.segments != SegmentTier::One)
            return write_table_entry(symbol, rules);
        w_.open("extern \"C\" __global__ void {} {}({})", bounds(), symbol, joined(declared));
        w_.line("{}", each_item());
        w_.indent();
        w_.line("{}_item({});", symbol, joined(arguments));
        w_.outdent();
        w_.close();
        w_.plain("");
    }

    void write_table_entry(const std::string &symbol, const CompiledPhase &rules) {
        const bool by_value = rules.table_bytes > 0;
        w_.open("extern \"C\" __global__ void {} {}(const {}{}, unsigned segments)", bounds(), symbol,
                by_value ? "__grid_constant__ Segments" : "Segment",
                fmt::format("{}{}", number_, by_value ? " table" : " *segment"));
        if (by_value)
            w_.line("const Segment{} *const segment = table.segment;", number_);
        w_.line("const {} items = segment[segments - 1].items;", index_type());
        w_.open("{}", each_item());
        w_.line("unsigned low = 0, high = segments - 1; // the first segment that ends beyond the item");
        w_.open("while (low < high)");
        w_.line("const unsigned middle = (low + high) / 2;");
        w_.line("if (segment[middle].items <= item)");
        w_.indent();
        w_.line("low = middle + 1;");
        w_.outdent();
        w_.line("else");
        w_.indent();
        w_.line("high = middle;");
        w_.outdent();
        w_.close();
        w_.line("const Segment{} &of = segment[low];", number_);
        w_.line("const {} before = low == 0 ? 0 : segment[low - 1].items;", index_type());
        std::vector<std::string> arguments;
        for (const Parameter &p : parameters_)
            arguments.push_back(p.rule.kind == LaunchParameter::Items ? "item - before" : "of." + p.name);
        w_.line("{}_item({});", symbol, joined(arguments));
        w_.close();
        w_.close();
        w_.plain("");
    }

    const Kernel &kernel_;
    const size_t number_;
    const std::string prefix_; ///< of symbols
    const CudaSchedule schedule_;
    Used used_;
    std::vector<Parameter> parameters_;
    uint32_t record_ = 0;
    Writer w_;
};

} // namespace

void PhaseEmitter::write() {
    w_.indent();
    switch (schedule_.shape) {
    case CudaShape::Points:
        return write_points();
    case CudaShape::Rows:
        return write_rows();
    case CudaShape::Tiles:
        return write_tiles();
    case CudaShape::Product:
        return write_product();
    }
}

namespace {

void append_phases(const Kernel &kernel, const std::string &prefix, Source &source) {
    for (size_t p = 0; p < kernel.phases.size(); ++p) {
        if (!std::holds_alternative<CudaSchedule>(kernel.phases[p].schedule))
            fail(kernel, "a phase of it has no schedule for CUDA devices");
        source.phases.push_back(EntryWriter(kernel, p, prefix).run(source.text));
    }
}

} // namespace

Source make_source(const Kernel &kernel) {
    Source source;
    append_phases(kernel, "", source);
    source.text = prelude_for(source.text) + "\n" + source.text;
    return source;
}

Source make_source(std::span<const Kernel *const> kernels) {
    Source source;
    for (size_t k = 0; k < kernels.size(); ++k) {
        source.text += fmt::format("namespace kernel{} {{\n", k);
        append_phases(*kernels[k], fmt::format("kernel{}_", k), source);
        source.text += "}\n";
    }
    source.text = prelude_for(source.text) + "\n" + source.text;
    return source;
}

} // namespace lz::codegen::cuda
