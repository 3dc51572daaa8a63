#pragma once
/// The table of calls: for each one how a user writes it, what it has to give, and how the generator makes
/// one that is (mostly) legal. The expression in a row is both what is executed and what is printed.

#include "program.h"

#include <lazuli/lazuli.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace lz::test::calls {

// ---------------------------------------------------------------------------------------------- the oracle

/// What aliases share: `b = a` is one cell with two handles (S24).
struct Cell {
    Array now;
};

/// The second implementation of a program's state. Every call is computed at once.
class Oracle {
public:
    explicit Oracle(int handles) : cells_(static_cast<size_t>(handles)) {}

    bool defined(int handle) const { return cells_[static_cast<size_t>(handle)] != nullptr; }
    /// Throws Mistake(State) for an empty handle.
    const Array &value(int handle) const;
    const Array &value(const Arg &arg) const { return value(arg.handle); }
    /// A new tensor in the handle.
    void set(int handle, Array value);
    /// In place: all aliases see it.
    void change(int handle, Array value);
    void alias(int to, int from) { cells_[static_cast<size_t>(to)] = cells_[static_cast<size_t>(from)]; }
    void drop(int handle) { cells_[static_cast<size_t>(handle)] = nullptr; }
    void swap(int a, int b) { std::swap(cells_[static_cast<size_t>(a)], cells_[static_cast<size_t>(b)]); }
    bool same(int a, int b) const { return cells_[static_cast<size_t>(a)] == cells_[static_cast<size_t>(b)]; }
    int handles() const { return static_cast<int>(cells_.size()); }
    /// The same aliases of other cells.
    Oracle copy() const;
    /// Takes so many words of the default generator.
    std::vector<uint32_t> draw(int64_t words);

    DType default_dtype = DType::F32;
    /// Where the default generator stands: its seed and the blocks of four words that were drawn.
    uint64_t random_seed = 0, random_offset = 0;
    std::set<std::pair<int, int>> peers; ///< (reads, is read)

private:
    std::vector<std::shared_ptr<Cell>> cells_;
};

// ------------------------------------------------------------------------------------------------ execution

/// What a program holds while Lazuli runs it.
struct World {
    std::vector<Tensor> x;
    const Oracle *oracle = nullptr;
    std::string problem; ///< the first thing that was wrong
    uint64_t bits = 0;   ///< of what was looked at
    int gpus = 0;
    static constexpr int kStreams = 5;
    std::array<std::optional<Stream>, kStreams> streams;
    std::optional<Event> event;
    std::vector<std::unique_ptr<StreamGuard>> guards; ///< the last one ends first

    World() = default;
    World(const World &) = delete;
    World &operator=(const World &) = delete;
    ~World() {
        while (!guards.empty())
            guards.pop_back();
    }
};

/// A statement while it is executed.
class Call {
public:
    Call(World &world, const Statement &statement, Location loc)
        : loc(loc), world_(world), statement_(statement) {}

    Tensor &tensor(size_t k) { return world_.x[static_cast<size_t>(statement_.args[k].handle)]; }
    Operand operand(size_t k) {
        const Arg &arg = statement_.args[k];
        if (arg.handle < 0)
            return Operand(arg.number, loc);
        return Operand(std::as_const(tensor(k)), loc);
    }
    Operand temporary(size_t k) { return Operand(std::move(tensor(k)), loc); }
    const Scalar &number(size_t k) const { return statement_.numbers[k]; }
    int64_t integer(size_t k) const { return statement_.ints[k]; }
    Sizes sizes(size_t k) const { return Sizes(std::span<const int64_t>(statement_.sizes[k])); }
    DType dtype() const { return statement_.dtype; }
    Device device() const { return statement_.device < 0 ? Device::cpu() : Device::cuda(statement_.device); }
    std::vector<Index> index() const;
    Part part() const;
    std::vector<Tensor> tensors() const;
    Tensor &result(size_t k) { return world_.x[static_cast<size_t>(statement_.out[k])]; }
    const Statement &statement() const { return statement_; }
    World &world() { return world_; }

    void out(Tensor &&made) { result(0) = std::move(made); }
    void out(Tensor &) {} // an in-place form
    void out(ValuesIndices &&made) {
        result(0) = std::move(made.values);
        result(1) = std::move(made.indices);
    }
    void out(std::vector<Tensor> &&made);

    /// Compares what the handle holds with what the oracle says.
    void observe(int handle, const std::string &how);
    void fail(const std::string &what) {
        if (world_.problem.empty())
            world_.problem = what;
    }

    Location loc;

private:
    World &world_;
    const Statement &statement_;
};

/// What a tensor holds, as the oracle holds it. A sync point.
Array array_of(const Tensor &t, Location loc);

// ---------------------------------------------------------------------------------------------- generation

/// Random choices over what the oracle says is there.
class Maker {
public:
    Maker(uint64_t seed, Oracle &oracle);

    uint64_t word() { return random_(); }
    /// From 0 to n - 1.
    int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
    int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
    bool once_in(int64_t n) { return below(n) == 0; }
    template <class T>
    const T &pick(const std::vector<T> &from) {
        return from[static_cast<size_t>(below(static_cast<int64_t>(from.size())))];
    }

    /// A handle that `fits`, of those that hold something; nothing where there is none.
    std::optional<int> any(const std::function<bool(const Array &)> &fits);
    std::optional<int> any();
    /// A handle for a result: an empty one, or one whose value is given up.
    int target();
    Scalar number();
    /// A number that is exact in small dtypes.
    Scalar small();
    DType dtype();
    Extents shape();
    int64_t extent();

    Oracle &oracle;
    int gpus = 0;

private:
    std::mt19937_64 random_;
    Extents master_;            ///< most shapes are an end of it, so that they broadcast
    std::vector<DType> dtypes_; ///< most dtypes of the program
};

// ------------------------------------------------------------------------------------------------- the table

struct Row {
    std::string text; ///< with P0, T0, M0, N0, I0, S0 ... for what the statement holds (printing.cpp)
    std::function<void(Call &)> run;
    std::function<void(Oracle &, const Statement &)> expect;
    /// Fills operands and results; false where there is nothing to call it with.
    std::function<bool(Maker &, Statement &)> make;
    int weight = 10;
    bool empties = false; ///< operand 0 is moved from: empty when the call has not thrown
    bool list = false;    ///< the results are a vector
    bool now = false;     ///< what only running reveals is thrown by this statement
    bool threads = true;  ///< another thread may do it as well
    /// Other integers with which the call is compiled alike; the oracle is as before the call.
    std::function<void(Maker &, Statement &)> vary = {};
};

const std::vector<Row> &table();
/// torch.result_type.
DType result_type(const Oracle &o, const std::vector<Arg> &args);
/// The binary function of this name.
Array computed(const Oracle &o, const std::string &name, const std::vector<Arg> &args);
/// In place: `value` becomes that of the handle, in its dtype and shape.
void assign(Oracle &o, int handle, const Array &value);
/// The axis, counted from 0; throws Mistake(Index).
size_t axis_of(int64_t axis, size_t rank);
bool make_one(Maker &m, Statement &s);
/// An operand and a result.
bool make_one_to_one(Maker &m, Statement &s);
/// LAZULI_TRANSFER=automatic: operands on different devices are brought together (S05).
bool automatic_transfers();
/// Whether both are where one call may take them.
bool meets(const Array &x, const Array &y);
/// Whether y may stand beside x in an elementwise call.
bool fits_beside(const Array &x, const Array &y);
/// The elements of a statement that makes a tensor of data.
Array elements_of(const Statement &s);
void add_elementwise_rows(std::vector<Row> &rows);
void add_handle_rows(std::vector<Row> &rows);
void add_new_rows(std::vector<Row> &rows);
void add_view_rows(std::vector<Row> &rows);
void add_index_rows(std::vector<Row> &rows);
void add_reduction_rows(std::vector<Row> &rows);
void add_device_rows(std::vector<Row> &rows);
void add_call_rows(std::vector<Row> &rows);
void add_composed_rows(std::vector<Row> &rows);
void add_gather_rows(std::vector<Row> &rows);
void add_statistics_rows(std::vector<Row> &rows);
void add_random_rows(std::vector<Row> &rows);
void add_order_rows(std::vector<Row> &rows);
/// Integers from `low` up to but without `low + range`, as lz::randint draws them.
Array drawn_integers(Oracle &o, int64_t low, uint64_t range, const Extents &shape, DType dtype);
/// The extreme along axes and where it is: amax and argmax, amin and argmin.
enum class Find : uint8_t { Max, Min };
std::pair<Array, Array> extreme(const Array &x, const Extents &axes, bool keepdim, Find find);
/// The first `k` of the axis in order, and where they were.
std::pair<Array, Array> sorted(const Array &x, int64_t axis, bool descending, std::optional<int64_t> k);

} // namespace lz::test::calls
