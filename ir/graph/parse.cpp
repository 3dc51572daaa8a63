// The parser of Graph IR. It never recurses, allocates in proportion to the text only, and makes every graph
// through GraphBuilder, so that what it returns is well typed.
#include "ir/diagnostic.h"
#include "ir/graph/builder.h"
#include "ir/graph/parse_data.h"
#include "ir/graph/share_words.h"
#include "ir/graph/text.h"
#include "ir/graph/verify.h"
#include "ir/text/scanner.h"
#include "ir/text/text.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <unordered_map>

namespace lz::ir {

namespace {

class GraphParser {
public:
    explicit GraphParser(TextScanner &scanner) : s_(scanner) {}

    Graph run() {
        s_.expect_word("graph");
        s_.expect('@');
        b_.graph().name = s_.word("the graph's name");
        s_.expect('(');
        if (!s_.accept(')')) {
            do
                param();
            while (s_.accept(','));
            s_.expect(')');
        }
        s_.expect('{');
        while (s_.accept_word("cluster"))
            cluster();
        while (!s_.accept_word("return"))
            node();
        if (s_.peek() == '%') {
            do
                b_.graph().results.push_back(value());
            while (s_.accept(','));
        }
        s_.expect('}');
        return shared_.empty() ? b_.take() : share_words(b_.take(), shared_);
    }

private:
    struct Attribute {
        bool given = false;
        size_t position = 0;
        std::vector<int64_t> words; ///< as in AttrView, without the length of Ints
        std::string text;           ///< String
        std::string_view scalar;    ///< Scalar: its token, read when the dtype is known
    };

    std::string_view value_name() {
        s_.expect('%');
        return s_.name("a value's name");
    }

    ValueId value() {
        const size_t at = s_.position();
        const std::string_view name = value_name();
        const auto found = values_.find(name);
        if (found == values_.end())
            s_.fail_at(at, "%" + std::string(name) + " is not defined above");
        return found->second;
    }

    void define(size_t at, std::string_view name, ValueId id) {
        if (!values_.emplace(name, id).second)
            s_.fail_at(at, "%" + std::string(name) + " is defined twice");
    }

    Device device() {
        if (s_.accept_word("cpu"))
            return kCpu;
        s_.expect_word("cuda");
        s_.expect(':');
        return {DeviceKind::Cuda, static_cast<uint8_t>(s_.integer_in("a device index", 0, 255))};
    }

    DType dtype() {
        const size_t at = s_.position();
        const std::string_view text = s_.word("a dtype");
        const std::optional<DType> found = dtype_from_name(text);
        if (!found)
            s_.fail_at(at, "`" + std::string(text) + "` is no dtype");
        return *found;
    }

    TensorType type() {
        TensorType t;
        const size_t at = s_.position();
        t.dtype = dtype();
        s_.expect('[');
        int64_t bytes = size_of(t.dtype);
        if (!s_.accept(']')) {
            do {
                const int64_t extent = s_.integer_in("an extent", 0, INT64_MAX);
                if (t.shape.rank() == kMaxRank)
                    s_.fail_at(at, "a type has at most " + std::to_string(kMaxRank) + " axes");
                if (__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes))
                    s_.fail_at(at, "a tensor of this type has more bytes than fit a 64-bit number");
                t.shape.push_back(extent);
            } while (s_.accept(','));
            s_.expect(']');
        }
        if (s_.accept('@'))
            t.device = device();
        return t;
    }

    void param() {
        const size_t at = s_.position();
        s_.expect('%');
        const std::string_view name = s_.word("a parameter's name");
        s_.expect(':');
        const TensorType t = type();
        define(at, name, b_.param(t, std::string(name)));
        Param &p = b_.graph().params.back();
        const bool has_data = s_.accept('=');
        if (has_data)
            parse_data(s_, t, p);
        p.donated = s_.accept_word("donated");
        if (p.donated && s_.accept_word("to"))
            p.donated_to = static_cast<uint32_t>(s_.integer_in("the number of a result", 0, INT32_MAX));
        p.kept = s_.accept_word("kept");
        if (s_.accept_word("storage")) {
            s_.expect('(');
            p.storage = static_cast<int32_t>(s_.integer_in("a storage number", 0, INT32_MAX));
            s_.expect(')');
        }
        location([&](const Location &loc) { p.loc = loc; });
        if (!has_data && s_.accept('=')) // written by hand at the end of a dumped line
            parse_data(s_, t, p);
    }

    void cluster() {
        std::vector<Cluster> &clusters = b_.graph().clusters;
        const size_t at = s_.position();
        if (s_.integer("a cluster's number") != static_cast<int64_t>(clusters.size()))
            s_.fail_at(at, "clusters are numbered 0, 1, ...; expected " + std::to_string(clusters.size()));
        s_.expect('=');
        const size_t kind_at = s_.position();
        const std::string_view kind = s_.word("a kind of cluster");
        Cluster c;
        int k = 0;
        while (k <= static_cast<int>(ClusterKind::Effect) && ir::name(static_cast<ClusterKind>(k)) != kind)
            ++k;
        if (k > static_cast<int>(ClusterKind::Effect))
            s_.fail_at(kind_at, "`" + std::string(kind) + "` is no kind of cluster");
        c.kind = static_cast<ClusterKind>(k);
        if (s_.accept_word("group"))
            c.group = static_cast<int32_t>(parenthesised("a group's number", INT32_MAX));
        clusters.push_back(c);
    }

    int64_t parenthesised(std::string_view what, int64_t high) {
        s_.expect('(');
        const int64_t value = s_.integer_in(what, 0, high);
        s_.expect(')');
        return value;
    }

    struct Name {
        size_t position;
        std::string_view text;
    };

    void node() {
        const size_t at = s_.position();
        names_of_results_.clear();
        std::optional<Name> effect;
        if (s_.accept('!')) {
            effect = {at, s_.name("an effect's number")};
        } else if (s_.peek() == '%') {
            do {
                const size_t name_at = s_.position();
                names_of_results_.push_back({name_at, value_name()});
            } while (s_.accept(','));
        } else {
            s_.fail("expected `%`, `!`, `return` or, above the nodes, `cluster`");
        }
        s_.expect('=');
        const size_t op_at = s_.position();
        const std::string_view op_text = s_.word("an op's name");
        const std::optional<Op> op = op_from_name(op_text);
        if (!op)
            s_.fail_at(op_at, "`" + std::string(op_text) + "` is no op");
        operands_.clear();
        if (s_.peek() == '%') {
            do
                operands_.push_back(value());
            while (s_.accept(','));
        }
        const OpInfo &row = info(*op);
        if (static_cast<int>(operands_.size()) < row.min_operands ||
            (row.max_operands >= 0 && static_cast<int>(operands_.size()) > row.max_operands))
            s_.fail_at(op_at, std::string(row.name) + " does not take " + std::to_string(operands_.size()) +
                                  " operands");
        attributes(row);
        types_.clear();
        const size_t types_at = s_.position();
        if (s_.accept(':')) {
            do
                types_.push_back(type());
            while (s_.accept(','));
        }
        if (types_.size() != names_of_results_.size())
            s_.fail_at(types_at, "there are " + std::to_string(names_of_results_.size()) + " results and " +
                                     std::to_string(types_.size()) + " types");
        append(op_at, *op, row, types_at);
        const Node &n = b_.graph().node(b_.last_node());
        for (uint32_t k = 0; k < n.result_count; ++k)
            define(names_of_results_[k].position, names_of_results_[k].text, n.first_result + k);
        if (effect && !effects_.emplace(effect->text, b_.last_node()).second)
            s_.fail_at(effect->position, "!" + std::string(effect->text) + " is defined twice");
        annotations();
    }

    void append(size_t op_at, Op op, const OpInfo &row, size_t types_at) {
        if (row.results >= 0 && row.results != static_cast<int>(types_.size()))
            s_.fail_at(op_at, std::string(row.name) + " has " + std::to_string(row.results) + " results");
        words(row, op_at);
        try {
            b_.add(op, operands_, structural_, runtime_);
        } catch (const Failure &f) {
            s_.fail_at(op_at, f.message());
        }
        const Graph &g = b_.graph();
        const Node &n = g.node(b_.last_node());
        for (uint32_t k = 0; k < n.result_count; ++k)
            if (!(g.type(n.first_result + k) == types_[k]))
                s_.fail_at(types_at, std::string(row.name) + " gives " +
                                         to_string(g.type(n.first_result + k)) + " here, the text says " +
                                         to_string(types_[k]));
    }

    /// Reads `{name=value, ...}` into `attributes_`, one entry a row of the schema.
    void attributes(const OpInfo &row) {
        attributes_.assign(row.attrs.size(), {});
        if (!s_.accept('{'))
            return;
        do {
            const size_t at = s_.position();
            const std::string_view name = s_.word("an attribute's name");
            const auto found = std::ranges::find(row.attrs, name, &AttrInfo::name);
            if (found == row.attrs.end())
                s_.fail_at(at, std::string(row.name) + " has no attribute `" + std::string(name) + "`");
            if (implied(row, *found) != Implied::No)
                s_.fail_at(at, "`" + std::string(name) + "` is told by the type and not written");
            Attribute &a = attributes_[static_cast<size_t>(found - row.attrs.begin())];
            if (a.given)
                s_.fail_at(at, "`" + std::string(name) + "` is given twice");
            a.given = true;
            s_.expect('=');
            a.position = s_.position();
            attribute(found->type, a);
        } while (s_.accept(','));
        s_.expect('}');
    }

    void attribute(AttrType type, Attribute &a) {
        switch (type) {
        case AttrType::Int:
            a.words.push_back(s_.integer("an integer"));
            break;
        case AttrType::Ints:
            s_.expect('[');
            if (s_.accept(']'))
                break;
            do
                a.words.push_back(s_.integer("an integer"));
            while (s_.accept(','));
            s_.expect(']');
            break;
        case AttrType::Scalar:
            // `bits(n)` is a float by its bits; other texts mean what the dtype after the colon makes of
            // them.
            if (s_.accept_word("bits")) {
                s_.expect('(');
                a.words.push_back(static_cast<int64_t>(s_.unsigned_integer("the bits of a number")));
                s_.expect(')');
            } else {
                a.scalar = s_.number("a number");
            }
            break;
        case AttrType::DType:
            a.words.push_back(static_cast<int64_t>(dtype()));
            break;
        case AttrType::Device:
            a.words.push_back(device_word(device()));
            break;
        case AttrType::String:
            a.text = s_.string("a text");
            break;
        }
    }

    /// Puts the attributes, given and implied, into the two runs of words.
    void words(const OpInfo &row, size_t op_at) {
        structural_.clear();
        runtime_.clear();
        for (size_t i = 0; i < row.attrs.size(); ++i) {
            const AttrInfo &attr = row.attrs[i];
            Attribute &a = attributes_[i];
            if (implied(row, attr) != Implied::No)
                imply(implied(row, attr), a);
            else if (!a.given)
                s_.fail_at(op_at,
                           std::string(row.name) + " needs the attribute `" + std::string(attr.name) + "`");
            if (attr.type == AttrType::Scalar && a.words.empty())
                a.words.push_back(scalar(a));
            if (attr.type == AttrType::Ints)
                structural_.push_back(static_cast<int64_t>(a.words.size()));
            if (attr.type == AttrType::String) {
                structural_.push_back(static_cast<int64_t>(a.text.size()));
                a.words.resize((a.text.size() + 7) / 8);
                if (!a.text.empty())
                    std::memcpy(a.words.data(), a.text.data(), a.text.size());
            }
            std::vector<int64_t> &run = attr.marking == Marking::Runtime ? runtime_ : structural_;
            run.insert(run.end(), a.words.begin(), a.words.end());
        }
    }

    void imply(Implied what, Attribute &a) const {
        if (what == Implied::Results) {
            for (const TensorType &t : types_) {
                a.words.insert(a.words.end(),
                               {static_cast<int64_t>(t.dtype), device_word(t.device), t.shape.rank()});
                a.words.insert(a.words.end(), t.shape.begin(), t.shape.end());
            }
            return;
        }
        const TensorType &t = types_.front();
        if (what == Implied::DType)
            a.words.push_back(static_cast<int64_t>(t.dtype));
        else if (what == Implied::Device)
            a.words.push_back(device_word(t.device));
        else
            a.words.assign(t.shape.begin(), t.shape.end());
    }

    int64_t scalar(const Attribute &a) const {
        TextScanner token(a.scalar);
        try {
            if (is_float(types_.front().dtype))
                return scalar_word(token.real("a number"));
            return token.integer("an integer");
        } catch (const Failure &) {
            s_.fail_at(a.position, "`" + std::string(a.scalar) + "` is no value of dtype " +
                                       std::string(ir::name(types_.front().dtype)));
        }
    }

    void annotations() {
        if (s_.accept_word("stream"))
            b_.set_stream(static_cast<int32_t>(parenthesised("a stream's number", kMaxStreams - 1)));
        if (s_.accept_word("cause"))
            cause();
        if (s_.accept_word("cluster")) {
            const auto last = static_cast<int64_t>(b_.graph().clusters.size()) - 1;
            b_.set_cluster(static_cast<int32_t>(parenthesised("a cluster's number", last)));
        }
        if (s_.accept_word("after")) {
            std::vector<NodeId> before;
            s_.expect('(');
            do
                before.push_back(order_node());
            while (s_.accept(','));
            s_.expect(')');
            b_.add_order(before);
        }
        if (s_.accept_word("words")) {
            s_.expect('(');
            const size_t at = s_.position();
            const NodeId earlier = order_node();
            s_.expect(')');
            const Graph &g = b_.graph();
            if (!std::ranges::equal(g.attrs(g.node(earlier)).runtime,
                                    g.attrs(g.node(b_.last_node())).runtime))
                s_.fail_at(at, "these are other words");
            shared_.push_back({b_.last_node(), earlier});
        }
        if (s_.accept_word("rec"))
            b_.set_recorded(static_cast<uint32_t>(parenthesised("a recorded index", kNone - 1)));
        location([&](const Location &loc) { b_.set_location(loc); });
    }

    template <class Set>
    void location(Set set) {
        if (!s_.accept_word("loc"))
            return;
        s_.expect('(');
        const std::string file = s_.string("a file's name");
        if (file.find('\0') != std::string::npos)
            s_.fail("a file's name holds no zero byte");
        s_.expect(':');
        const auto line = static_cast<uint32_t>(s_.integer_in("a line", 1, UINT32_MAX));
        const uint16_t function = s_.accept_word("in") ? function_called() : uint16_t{0};
        s_.expect(')');
        set(Location{intern_file(file), line, function});
    }

    uint16_t function_called() {
        const std::string name = s_.string("a function's name");
        if (name.empty())
            s_.fail("a function's name is not empty");
        const uint16_t number = intern_function(name);
        if (number == 0)
            s_.fail("there are more names of functions than the 65535 that can be told apart");
        return number;
    }

    void cause() {
        s_.expect('(');
        const size_t at = s_.position();
        const std::string_view text = s_.word("a cause");
        for (int k = 0; k <= static_cast<int>(TransferCause::Return); ++k)
            if (ir::name(static_cast<TransferCause>(k)) == text) {
                b_.set_cause(static_cast<TransferCause>(k));
                return s_.expect(')');
            }
        s_.fail_at(at, "`" + std::string(text) + "` is no cause of a transfer");
    }

    NodeId order_node() {
        const size_t at = s_.position();
        if (!s_.accept('!')) {
            const NodeId producer = b_.graph().value(value()).producer;
            if (producer == kNone || producer == b_.last_node())
                s_.fail_at(at, "expected the result of an earlier node");
            return producer;
        }
        const auto found = effects_.find(s_.name("an effect's number"));
        if (found == effects_.end() || found->second == b_.last_node())
            s_.fail_at(at, "expected an earlier effect");
        return found->second;
    }

    TextScanner &s_;
    GraphBuilder b_;
    std::unordered_map<std::string_view, ValueId> values_;
    std::unordered_map<std::string_view, NodeId> effects_;
    // Of the node that is being read.
    std::vector<Name> names_of_results_;
    std::vector<ValueId> operands_;
    std::vector<TensorType> types_;
    std::vector<Attribute> attributes_;
    std::vector<int64_t> structural_, runtime_;
    std::vector<SharedWords> shared_;
};

} // namespace

Graph parse_graph(std::string_view text) {
    TextScanner s(text);
    if (s.accept_word("lazuli")) {
        const size_t at = s.position();
        if (const int64_t version = s.integer("a version"); version != 1)
            s.fail_at(at, "the text has version " + std::to_string(version) + "; version 1 is understood");
    }
    Graph graph = GraphParser(s).run();
    if (!s.at_end())
        s.fail("expected nothing after the graph");
    // What the builder cannot see, such as clusters, is the text's mistake and not ours.
    if (const std::string error = graph_error(graph); !error.empty())
        s.fail_at(0, "the graph is not well formed: " + error);
    return graph;
}

} // namespace lz::ir
