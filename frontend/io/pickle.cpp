// Python's Lib/pickletools.py describes the opcodes; torch/serialization.py and torch/_utils.py what PyTorch
// says with them. Values are numbers of nodes in one array, so that those which contain themselves leak
// nothing.
#include "frontend/io/pickle.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <unordered_map>

namespace lz::io {

namespace {

enum class Is : uint8_t { None, Bool, Int, Float, Text, Tuple, List, Dict, Global, Storage, Tensor, Mark };
constexpr std::array<const char *, 12> kNames = {"None",   "a bool",    "an int",   "a float",
                                                 "a str",  "a tuple",   "a list",   "a dict",
                                                 "a name", "a storage", "a tensor", "a mark"};

/// What a name of Python stands for.
enum class Means : uint8_t {
    RebuildTensor,
    RebuildParameter,
    OrderedDict,
    Counter,
    Size,
    Device,
    StorageType,
    DTypeName
};

struct Global {
    std::string_view name;
    Means means;
    DType dtype = DType::F32;
};
constexpr Global kGlobals[] = {
    {"torch._utils._rebuild_tensor_v2", Means::RebuildTensor},
    {"torch._utils._rebuild_parameter", Means::RebuildParameter},
    {"collections.OrderedDict", Means::OrderedDict},
    {"collections.Counter", Means::Counter}, // of a MultiStepLR's milestones
    {"torch.Size", Means::Size},
    {"torch.device", Means::Device},
    {"torch.BoolStorage", Means::StorageType, DType::Bool},
    {"torch.ByteStorage", Means::StorageType, DType::U8},
    {"torch.CharStorage", Means::StorageType, DType::I8},
    {"torch.ShortStorage", Means::StorageType, DType::I16},
    {"torch.IntStorage", Means::StorageType, DType::I32},
    {"torch.LongStorage", Means::StorageType, DType::I64},
    {"torch.HalfStorage", Means::StorageType, DType::F16},
    {"torch.BFloat16Storage", Means::StorageType, DType::BF16},
    {"torch.FloatStorage", Means::StorageType, DType::F32},
    {"torch.DoubleStorage", Means::StorageType, DType::F64},
    {"torch.bool", Means::DTypeName},
    {"torch.uint8", Means::DTypeName},
    {"torch.int8", Means::DTypeName},
    {"torch.int16", Means::DTypeName},
    {"torch.int32", Means::DTypeName},
    {"torch.int64", Means::DTypeName},
    {"torch.float16", Means::DTypeName},
    {"torch.bfloat16", Means::DTypeName},
    {"torch.float32", Means::DTypeName},
    {"torch.float64", Means::DTypeName},
};

using Ref = uint32_t;

constexpr int64_t kMostCounted = int64_t{1} << 20;

struct Node {
    Is is = Is::None;
    int64_t number = 0; ///< of a storage: its elements; of a global: its row; of a tensor: its place
    double real = 0;
    DType dtype = DType::F32; ///< of a storage
    std::string text;         ///< of a storage: its key
    std::vector<Ref> items;   ///< of a dict: keys and values in turn
};

class Machine {
public:
    Machine(const Source &source, const std::function<Tensor(const PickledTensor &)> &make)
        : source_(source), make_(make) {}

    PickleValue run() {
        while (step()) {
        }
        const Ref root = pop();
        if (!stack_.empty())
            fail("leaves more than one value");
        values_.resize(nodes_.size());
        states_.resize(nodes_.size());
        return value_of(root, 0);
    }

private:
    [[noreturn]] void fail(const std::string &what) const {
        source_.fail(fmt::format("its pickle {} (byte {})", what, begun_));
    }

    // --- bytes
    template <class T>
    T number() {
        if (source_.bytes.size() - at_ < sizeof(T))
            fail("is cut short");
        const T value = source_.number<T>(at_);
        at_ += sizeof(T);
        return value;
    }
    std::string_view text(uint64_t size) {
        if (source_.bytes.size() - at_ < size)
            fail("is cut short");
        at_ += size;
        return source_.text(at_ - size, size);
    }
    std::string_view line() {
        const std::string_view rest = source_.text(at_, source_.bytes.size() - at_);
        const size_t end = rest.find('\n');
        if (end == std::string_view::npos)
            fail("is cut short");
        at_ += end + 1;
        return rest.substr(0, end);
    }

    // --- values
    Ref add(Node node) {
        nodes_.push_back(std::move(node));
        return static_cast<Ref>(nodes_.size() - 1);
    }
    void push(Node node) { stack_.push_back(add(std::move(node))); }
    Ref pop() {
        if (stack_.empty() || nodes_[stack_.back()].is == Is::Mark)
            fail("takes a value that is not there");
        const Ref top = stack_.back();
        stack_.pop_back();
        return top;
    }
    Node &top(Is is, const char *doing) {
        if (stack_.empty() || nodes_[stack_.back()].is != is)
            fail(fmt::format("{} what is not {}", doing, kNames[static_cast<size_t>(is)]));
        return nodes_[stack_.back()];
    }
    std::vector<Ref> pop_to_mark() {
        size_t mark = stack_.size();
        while (mark > 0 && nodes_[stack_[mark - 1]].is != Is::Mark)
            --mark;
        if (mark == 0)
            fail("goes back to a mark that is not there");
        std::vector<Ref> out(stack_.begin() + static_cast<std::ptrdiff_t>(mark), stack_.end());
        stack_.resize(mark - 1);
        return out;
    }
    const Node &expect(Ref ref, Is is, const char *what) const {
        if (nodes_[ref].is != is)
            fail(fmt::format("has {} where {} is expected: {}", kNames[static_cast<size_t>(nodes_[ref].is)],
                             kNames[static_cast<size_t>(is)], what));
        return nodes_[ref];
    }
    void push_items(Is is, std::vector<Ref> items) {
        Node node;
        node.is = is;
        node.items = std::move(items);
        push(std::move(node));
    }
    void push_int(int64_t value) {
        Node node;
        node.is = Is::Int;
        node.number = value;
        push(std::move(node));
    }
    void push_text(std::string_view value) {
        Node node;
        node.is = Is::Text;
        node.text = value;
        push(std::move(node));
    }
    void push_bool(bool value) {
        Node node;
        node.is = Is::Bool;
        node.number = value;
        push(std::move(node));
    }
    void get(uint64_t place) {
        const auto found = memo_.find(place);
        if (found == memo_.end())
            fail(fmt::format("uses value {}, which it has not remembered", place));
        stack_.push_back(found->second);
    }
    void put(uint64_t place) {
        const Ref top = pop();
        memo_[place] = top;
        stack_.push_back(top);
    }
    void tuple(size_t size) {
        std::vector<Ref> items(size);
        for (size_t i = size; i > 0; --i)
            items[i - 1] = pop();
        push_items(Is::Tuple, std::move(items));
    }

    // --- opcodes
    bool step() {
        begun_ = at_;
        const auto op = number<uint8_t>();
        switch (op) {
        case 0x80: // PROTO
            if (const auto version = number<uint8_t>(); version < 2 || version > 5)
                fail(fmt::format("is of protocol {}; 2 to 5 are read", version));
            return true;
        case 0x95: // FRAME
            number<uint64_t>();
            return true;
        case '.': // STOP
            return false;
        case 'N': // NONE
            push({});
            return true;
        case 0x88: // NEWTRUE
        case 0x89: // NEWFALSE
            push_bool(op == 0x88);
            return true;
        case 'J': // BININT
            push_int(number<int32_t>());
            return true;
        case 'K': // BININT1
            push_int(number<uint8_t>());
            return true;
        case 'M': // BININT2
            push_int(number<uint16_t>());
            return true;
        case 0x8a: // LONG1
            push_int(long_number(number<uint8_t>()));
            return true;
        case 'G': { // BINFLOAT, big-endian
            Node node;
            node.is = Is::Float;
            node.real = std::bit_cast<double>(__builtin_bswap64(number<uint64_t>()));
            push(std::move(node));
            return true;
        }
        case 'X': // BINUNICODE
            push_text(text(number<uint32_t>()));
            return true;
        case 0x8c: // SHORT_BINUNICODE
            push_text(text(number<uint8_t>()));
            return true;
        case 0x8d: // BINUNICODE8
            push_text(text(number<uint64_t>()));
            return true;
        case '(': { // MARK
            Node node;
            node.is = Is::Mark;
            push(std::move(node));
            return true;
        }
        case ')': // EMPTY_TUPLE
            push_items(Is::Tuple, {});
            return true;
        case 0x85: // TUPLE1
        case 0x86: // TUPLE2
        case 0x87: // TUPLE3
            tuple(op - 0x84U);
            return true;
        case 't': // TUPLE
            push_items(Is::Tuple, pop_to_mark());
            return true;
        case ']': // EMPTY_LIST
            push_items(Is::List, {});
            return true;
        case '}': // EMPTY_DICT
            push_items(Is::Dict, {});
            return true;
        default:
            return step_with_values(op);
        }
    }
    bool step_with_values(uint8_t op) {
        switch (op) {
        case 'a': { // APPEND
            const Ref item = pop();
            top(Is::List, "appends to").items.push_back(item);
            return true;
        }
        case 'e': { // APPENDS
            const std::vector<Ref> items = pop_to_mark();
            auto &list = top(Is::List, "appends to").items;
            list.insert(list.end(), items.begin(), items.end());
            return true;
        }
        case 's': { // SETITEM
            const Ref value = pop(), key = pop();
            auto &items = top(Is::Dict, "sets an item of").items;
            items.insert(items.end(), {key, value});
            return true;
        }
        case 'u': { // SETITEMS
            const std::vector<Ref> items = pop_to_mark();
            if (items.size() % 2 != 0)
                fail("sets a key without a value");
            auto &dict = top(Is::Dict, "sets items of").items;
            dict.insert(dict.end(), items.begin(), items.end());
            return true;
        }
        case 'q': // BINPUT
            put(number<uint8_t>());
            return true;
        case 'r': // LONG_BINPUT
            put(number<uint32_t>());
            return true;
        case 0x94: // MEMOIZE
            put(memo_.size());
            return true;
        case 'h': // BINGET
            get(number<uint8_t>());
            return true;
        case 'j': // LONG_BINGET
            get(number<uint32_t>());
            return true;
        case 'c': { // GLOBAL
            const std::string_view module = line(), name = line();
            global(module, name);
            return true;
        }
        case 0x93: { // STACK_GLOBAL
            const Ref name = pop(), module = pop();
            global(expect(module, Is::Text, "a module").text, expect(name, Is::Text, "a name").text);
            return true;
        }
        case 'Q': // BINPERSID
            storage(pop());
            return true;
        case 'R': { // REDUCE
            const Ref arguments = pop(), function = pop();
            reduce(function, expect(arguments, Is::Tuple, "arguments").items);
            return true;
        }
        case 'b': // BUILD: attributes; an OrderedDict's are the versions of modules
            pop();
            top(Is::Dict, "sets attributes of");
            return true;
        default:
            fail(fmt::format("has the opcode {:#04x}, which state dicts do not need", op));
        }
    }
    int64_t long_number(size_t size) {
        const std::string_view bytes = text(size);
        if (size > sizeof(int64_t))
            fail(fmt::format("has an int of {} bytes; 8 are read", size));
        uint64_t value = size > 0 && (bytes.back() & 0x80) ? ~uint64_t{0} : 0;
        for (size_t i = size; i > 0; --i)
            value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
        return static_cast<int64_t>(value);
    }
    void global(std::string_view module, std::string_view name) {
        const std::string full = fmt::format("{}.{}", module, name);
        for (size_t row = 0; row < std::size(kGlobals); ++row)
            if (kGlobals[row].name == full) {
                Node node;
                node.is = Is::Global;
                node.number = static_cast<int64_t>(row);
                push(std::move(node));
                return;
            }
        fail(fmt::format("names {}: only tensors, dicts, lists, numbers and text are read. Save a state dict",
                         in_quotes(full)));
    }
    const Global &global_of(Ref ref, const char *what) const {
        return kGlobals[static_cast<size_t>(expect(ref, Is::Global, what).number)];
    }
    /// ('storage', torch.FloatStorage, key, location, elements)
    void storage(Ref id) {
        const std::vector<Ref> &parts = expect(id, Is::Tuple, "what a storage is").items;
        if (parts.size() != 5 || expect(parts[0], Is::Text, "a kind").text != "storage")
            fail("has something from outside that is no storage");
        const Global &type = global_of(parts[1], "the type of a storage");
        if (type.means != Means::StorageType)
            fail(fmt::format("has a storage of the type {}", in_quotes(type.name)));
        Node node;
        node.is = Is::Storage;
        node.dtype = type.dtype;
        node.text = expect(parts[2], Is::Text, "the key of a storage").text;
        node.number = expect(parts[4], Is::Int, "the size of a storage").number;
        push(std::move(node));
    }
    Sizes sizes(Ref ref, const char *what) const {
        Sizes out;
        for (const Ref item : expect(ref, Is::Tuple, what).items)
            out.push_back(expect(item, Is::Int, what).number);
        return out;
    }
    void reduce(Ref function, const std::vector<Ref> &arguments) {
        const Global &called = global_of(function, "what is called");
        const auto check = [&](bool right) {
            if (!right)
                fail(fmt::format("calls {} with {} arguments", in_quotes(called.name), arguments.size()));
        };
        switch (called.means) {
        case Means::RebuildTensor: {
            check(arguments.size() >= 6);
            const Node &storage = expect(arguments[0], Is::Storage, "a tensor's storage");
            const PickledTensor tensor{storage.dtype,
                                       storage.text,
                                       storage.number,
                                       expect(arguments[1], Is::Int, "a tensor's offset").number,
                                       sizes(arguments[2], "a tensor's sizes"),
                                       sizes(arguments[3], "a tensor's strides")};
            Node node;
            node.is = Is::Tensor;
            node.number = static_cast<int64_t>(tensors_.size());
            tensors_.push_back(make_(tensor));
            push(std::move(node));
            return;
        }
        case Means::RebuildParameter:
            check(arguments.size() == 3);
            expect(arguments[0], Is::Tensor, "a parameter's tensor");
            stack_.push_back(arguments[0]);
            return;
        case Means::OrderedDict:
            check(arguments.empty());
            push_items(Is::Dict, {});
            return;
        case Means::Counter: { // as the list of what it counts
            check(arguments.size() == 1);
            const std::vector<Ref> counts = expect(arguments[0], Is::Dict, "a Counter's counts").items;
            std::vector<Ref> counted;
            for (size_t i = 0; i < counts.size(); i += 2) {
                const int64_t times = expect(counts[i + 1], Is::Int, "a Counter's count").number;
                if (times < 0 || times > kMostCounted - static_cast<int64_t>(counted.size()))
                    fail(fmt::format("has a Counter with the count {}; {} are read in all", times,
                                     kMostCounted));
                counted.insert(counted.end(), static_cast<size_t>(times), counts[i]);
            }
            push_items(Is::List, std::move(counted));
            return;
        }
        case Means::Size:
            check(arguments.size() == 1);
            sizes(arguments[0], "a Size");
            stack_.push_back(arguments[0]);
            return;
        case Means::Device:
            check(!arguments.empty() && arguments.size() <= 2);
            push_text(std::string(expect(arguments[0], Is::Text, "a device").text));
            return;
        case Means::StorageType:
        case Means::DTypeName:
            check(false);
        }
    }

    // --- what it leaves
    PickleValue value_of(Ref ref, int depth) {
        constexpr int kMaxDepth = 100;
        if (states_[ref] == kDone)
            return values_[ref];
        if (states_[ref] == kOpen || depth > kMaxDepth)
            fail(fmt::format("has a value that contains itself, or more than {} levels", kMaxDepth));
        states_[ref] = kOpen;
        const Node &node = nodes_[ref];
        auto data = std::make_shared<PickleValue::Data>();
        using Kind = PickleValue::Kind;
        data->number = node.number;
        data->real = node.real;
        data->text = node.text;
        switch (node.is) {
        case Is::None:
            break;
        case Is::Bool:
            data->kind = Kind::Bool;
            break;
        case Is::Int:
            data->kind = Kind::Int;
            break;
        case Is::Float:
            data->kind = Kind::Float;
            break;
        case Is::Text:
            data->kind = Kind::Text;
            break;
        case Is::Tensor:
            data->kind = Kind::Tensor;
            data->tensor = tensors_[static_cast<size_t>(node.number)];
            break;
        case Is::Tuple:
        case Is::List:
            data->kind = Kind::List;
            for (const Ref item : node.items)
                data->list.push_back(value_of(item, depth + 1));
            break;
        case Is::Dict:
            data->kind = Kind::Dict;
            for (size_t i = 0; i < node.items.size(); i += 2)
                data->items.emplace_back(value_of(node.items[i], depth + 1),
                                         value_of(node.items[i + 1], depth + 1));
            break;
        case Is::Global:
            if (kGlobals[static_cast<size_t>(node.number)].means != Means::DTypeName)
                fail(fmt::format("has {} as a value",
                                 in_quotes(kGlobals[static_cast<size_t>(node.number)].name)));
            data->kind = Kind::Text;
            data->text = kGlobals[static_cast<size_t>(node.number)].name;
            break;
        case Is::Storage:
        case Is::Mark:
            fail(fmt::format("has {} as a value", kNames[static_cast<size_t>(node.is)]));
        }
        states_[ref] = kDone;
        return values_[ref] = PickleValue(std::move(data));
    }

    static constexpr uint8_t kOpen = 1, kDone = 2;

    const Source &source_;
    const std::function<Tensor(const PickledTensor &)> &make_;
    size_t at_ = 0, begun_ = 0;
    std::vector<Node> nodes_;
    std::vector<Ref> stack_;
    std::unordered_map<uint64_t, Ref> memo_;
    std::vector<Tensor> tensors_;
    std::vector<PickleValue> values_;
    std::vector<uint8_t> states_;
};

} // namespace

PickleValue unpickle(const Source &source, const std::function<Tensor(const PickledTensor &)> &make) {
    return Machine(source, make).run();
}

} // namespace lz::io
