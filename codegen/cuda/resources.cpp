#include "codegen/cuda/resources.h"

#include "codegen/cuda/source.h"
#include "codegen/cuda/unit.h"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace lz::codegen {

namespace {

constexpr int kBlocksOfAnSm = 32, kRegisterStep = 8, kWarp = 32;
constexpr int64_t kSystemShared = 1024;

/// Calls f(line) for each line.
template <class F>
void for_each_line(std::string_view text, F &&f) {
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        f(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

/// The number that stands before `what` in the line; 0 where it does not say it.
int number_before(std::string_view line, std::string_view what) {
    const size_t at = line.find(what);
    if (at == std::string_view::npos)
        return 0;
    size_t first = at;
    while (first > 0 && std::isdigit(static_cast<unsigned char>(line[first - 1])))
        --first;
    int number = 0;
    std::from_chars(line.data() + first, line.data() + at, number);
    return number;
}

bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$';
}

/// The registers in a text, as `%f12`.
std::vector<std::string_view> registers_in(std::string_view text) {
    std::vector<std::string_view> all;
    for (size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
        size_t end = at + 1;
        while (end < text.size() && is_name(text[end]))
            ++end;
        all.push_back(text.substr(at, end - at));
    }
    return all;
}

/// Bytes of a load: `ld.global.nc.v4.f32` has 16.
int bytes_of_load(std::string_view operation) {
    const size_t type = operation.rfind('.');
    int bits = 0;
    std::from_chars(operation.data() + type + 2, operation.data() + operation.size(), bits);
    const int count = operation.find(".v4.") != std::string_view::npos   ? 4
                      : operation.find(".v2.") != std::string_view::npos ? 2
                                                                         : 1;
    return count * bits / 8;
}

/// Loads under way on a path through the code, the oldest first.
class Loads {
public:
    int bytes() const { return bytes_; }
    int loaded() const { return loaded_; } ///< with those that nobody waits for any more
    void begin(std::vector<std::string_view> results, int bytes) {
        loads_.push_back({std::move(results), bytes});
        bytes_ += bytes;
        loaded_ += bytes;
    }
    /// Who uses a result waits for it; older ones have come by then.
    void use(std::string_view name) {
        const auto at = std::ranges::find_if(
            loads_, [&](const Load &l) { return std::ranges::find(l.results, name) != l.results.end(); });
        if (at == loads_.end())
            return;
        for (auto l = loads_.begin(); l <= at; ++l)
            bytes_ -= l->bytes;
        loads_.erase(loads_.begin(), at + 1);
    }

private:
    struct Load {
        std::vector<std::string_view> results;
        int bytes;
    };
    std::vector<Load> loads_;
    int bytes_ = 0, loaded_ = 0;
};

/// Instructions that run one after the other, and where it goes on from there.
struct Block {
    std::vector<std::string_view> instructions, targets; ///< without predicates; labels
    bool goes_on = true;                                 ///< with the block behind it
};

} // namespace

std::map<std::string, Assembled, std::less<>> read_assembler_log(std::string_view log) {
    std::map<std::string, Assembled, std::less<>> found;
    Assembled *entry = nullptr;
    for_each_line(log, [&](std::string_view line) {
        constexpr std::string_view kEntry = "Compiling entry function '";
        if (const size_t at = line.find(kEntry); at != std::string_view::npos) {
            const std::string_view name = line.substr(at + kEntry.size());
            entry = &found[std::string(name.substr(0, name.find('\'')))];
        } else if (entry) {
            entry->spilled_bytes +=
                number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
            entry->registers = std::max(entry->registers, number_before(line, " registers"));
            entry->shared_bytes = std::max(entry->shared_bytes, number_before(line, " bytes smem"));
        }
    });
    return found;
}

namespace {

/// What an instruction reads: all but what it writes, which is its first operand. What another path writes to
/// a register, where this one loads it, waits for no load.
std::string_view sources(std::string_view operation, std::string_view operands) {
    if (operation.starts_with("st.") || operation.starts_with("red."))
        return operands;
    const size_t brace = operands.find('{'), comma = operands.find(',');
    const size_t end = brace < comma ? operands.find(',', operands.find('}')) : comma;
    return operands.substr(std::min(end, operands.size()));
}

/// The blocks of an entry.
std::vector<Block> blocks_of(std::string_view ptx, std::string_view entry,
                             std::map<std::string_view, size_t> &labels) {
    std::vector<Block> blocks(1);
    bool inside = false;
    for_each_line(ptx, [&](std::string_view line) {
        constexpr std::string_view kEntry = ".entry ";
        if (const size_t at = line.find(kEntry); at != std::string_view::npos) {
            const std::string_view name = line.substr(at + kEntry.size());
            inside = name.substr(0, name.find('(')) == entry;
            return;
        }
        if (inside && line.ends_with(':')) {
            labels[line.substr(0, line.size() - 1)] = blocks.size();
            blocks.emplace_back();
        }
        const size_t first = line.find_first_not_of(" \t{}");
        if (!inside || first == std::string_view::npos || line.find(';') == std::string_view::npos)
            return;
        line.remove_prefix(first);
        if (line.starts_with('.')) // declares registers or shared memory
            return;
        const bool maybe = line.starts_with('@');
        if (maybe)
            line.remove_prefix(std::min(line.find_first_of(" \t") + 1, line.size()));
        Block &block = blocks.back();
        block.instructions.push_back(line);
        const bool ends = line.starts_with("ret") || line.starts_with("exit");
        if (!ends && !line.starts_with("bra"))
            return;
        block.goes_on = maybe;
        if (const size_t label = line.find('$'); !ends && label != std::string_view::npos)
            block.targets.push_back(line.substr(label, line.find(';') - label));
        blocks.emplace_back();
    });
    return blocks;
}

/// The most bytes under way while a block runs that begins with these loads under way.
int run_block(const Block &block, Loads &loads) {
    int most = 0;
    for (const std::string_view line : block.instructions) {
        const size_t space = std::min(line.find_first_of(" \t"), line.size());
        const std::string_view operation = line.substr(0, space), operands = line.substr(space);
        if (!operation.starts_with("ld.global")) {
            for (const std::string_view name : registers_in(sources(operation, operands)))
                loads.use(name);
            continue;
        }
        const size_t address = std::min(operands.find('['), operands.size());
        for (const std::string_view name : registers_in(operands.substr(address)))
            loads.use(name);
        loads.begin(registers_in(operands.substr(0, address)), bytes_of_load(operation));
        most = std::max(most, loads.bytes());
    }
    return most;
}

} // namespace

/// Of the paths that meet in a block the one that has loaded most goes on: packets that are whole, and not
/// the elements of the last one. A loop is passed through once.
PtxCounts count_ptx(std::string_view ptx, std::string_view entry) {
    std::map<std::string_view, size_t> labels;
    const std::vector<Block> blocks = blocks_of(ptx, entry, labels);
    std::vector<std::vector<size_t>> next(blocks.size());
    PtxCounts counts;
    for (size_t b = 0; b < blocks.size(); ++b) {
        counts.instructions += static_cast<int>(blocks[b].instructions.size());
        if (blocks[b].goes_on && b + 1 < blocks.size())
            next[b].push_back(b + 1);
        for (const std::string_view target : blocks[b].targets)
            if (const auto found = labels.find(target); found != labels.end())
                next[b].push_back(found->second);
    }
    // Before a block stand all those from which it is reached, but by a loop's way back.
    std::vector<size_t> order, open{0}, taken(blocks.size());
    std::vector<bool> seen(blocks.size());
    for (seen[0] = true; !open.empty();) {
        const size_t b = open.back();
        if (taken[b] == next[b].size()) {
            order.push_back(b);
            open.pop_back();
        } else if (const size_t to = next[b][taken[b]++]; !seen[to]) {
            seen[to] = true;
            open.push_back(to);
        }
    }
    std::ranges::reverse(order);
    std::vector<Loads> before(blocks.size());
    for (const size_t b : order) {
        Loads loads = std::move(before[b]);
        counts.loaded_bytes = std::max(counts.loaded_bytes, run_block(blocks[b], loads));
        for (const size_t to : next[b])
            if (std::pair(loads.loaded(), loads.bytes()) > std::pair(before[to].loaded(), before[to].bytes()))
                before[to] = loads;
    }
    return counts;
}

int resident_threads(int threads, int registers, int64_t shared_bytes, const ir::CudaLimits &limits) {
    if (threads <= 0)
        return 0;
    const int warps = (threads + kWarp - 1) / kWarp;
    const int own = (std::max(registers, 1) + kRegisterStep - 1) / kRegisterStep * kRegisterStep;
    const int64_t blocks = std::min({int64_t{kBlocksOfAnSm}, int64_t{limits.threads_per_sm / (kWarp * warps)},
                                     int64_t{limits.registers_per_sm / (own * kWarp * warps)},
                                     limits.shared_per_sm / (shared_bytes + kSystemShared)});
    return static_cast<int>(blocks) * threads;
}

namespace {

/// One text for both kernels: NVRTC takes 20 ms before it begins with one.
cuda::Source source_of(const ir::Kernel &kernel, Addresses addresses) {
    cuda::Source source = cuda::make_source(kernel);
    if (addresses == Addresses::Aligned || !ir::needs_alignment(source.phases))
        return source;
    const ir::Kernel unaligned = ir::any_address(kernel);
    const ir::Kernel *const both[] = {&kernel, &unaligned};
    return cuda::make_source(both);
}

} // namespace

std::vector<CudaResources> cuda_resources(const Nvrtc &nvrtc, int sm, const ir::Kernel &kernel,
                                          const ir::CudaLimits &limits, std::string *warnings,
                                          Addresses addresses) {
    const cuda::Source source = source_of(kernel, addresses);
    const cuda::Unit unit(nvrtc, kernel.name, source.text, "--gpu-architecture=sm_" + std::to_string(sm), {});
    const std::string log = unit.log();
    const auto assembled = read_assembler_log(log);
    if (warnings)
        for_each_line(log, [&](std::string_view line) {
            if (line.find("warning #") != std::string_view::npos)
                warnings->append(line) += '\n';
        });
    const std::string ptx = unit.ptx_text();
    std::vector<CudaResources> all;
    for (const ir::CompiledPhase &phase : source.phases) {
        const std::string &entry = phase.symbol;
        const auto found = assembled.find(entry);
        if (found == assembled.end())
            continue;
        CudaResources r;
        r.entry = entry.substr(entry.find("phase")); // without the number of the kernel in the text
        r.registers = found->second.registers;
        r.spilled_bytes = found->second.spilled_bytes;
        r.shared_bytes = found->second.shared_bytes + static_cast<int>(phase.shared_bytes);
        r.threads = static_cast<int>(phase.threads);
        const PtxCounts counts = count_ptx(ptx, entry);
        r.instructions = counts.instructions;
        r.loaded_bytes = counts.loaded_bytes;
        r.resident_threads = resident_threads(r.threads, r.registers, r.shared_bytes, limits);
        all.push_back(std::move(r));
    }
    return all;
}

} // namespace lz::codegen
