#pragma once
/// Which barriers the threads of a row need. For this folder alone.
///
/// The emitter says, in the order of its text, what the threads do to memory that they share, and where a
/// barrier may stand. A barrier is needed where without it two accesses to one array by different threads,
/// one of which writes, have no barrier between them, in the row itself or in the row that the same threads
/// take next: they would be ordered by nothing (shuffles order no memory). Of a row with two reductions, say,
///
///     parts0[t] = ...   barrier A   ... = parts0[*]   parts1[t] = ...   barrier B   ... = parts1[*]
///
/// the next row may write parts0 at once: whoever has passed B has read parts0; and nobody writes parts1
/// before A of that row, which all threads reach only when they have read it. With one reduction there has to
/// be a barrier at the end of the row. What each thread reads of what it wrote itself needs none.

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace lz::codegen::cuda {

class RowBarriers {
public:
    struct Array {
        std::string name;
        bool of_cluster = false; ///< other blocks write it, too: only a barrier of the cluster orders that
        /// Rows have parts of their own (memory that is not reused for the next row).
        bool of_row = false;
    };
    /// `owners` says which thread has which element: accesses with one such name touch elements of their own.
    /// Empty: any thread touches any element. One that begins with ~ is of a row's length.
    void read(const Array &array, const std::string &owners = {}) { touch(array, owners, false); }
    void write(const Array &array, const std::string &owners = {}) { touch(array, owners, true); }

    /// A barrier that can be left out; its number. Where either of two would do, the one with the lower rank
    /// is.
    size_t place(int rank, bool of_cluster = false);
    /// The same barrier, come to once more.
    void repeat(size_t barrier);
    /// One of the cluster that stands in any case.
    void barrier() { events_.push_back({.kind = Event::Always, .of_cluster = true}); }

    // What is between these is done any number of times, or once or not at all.
    void open_loop() { events_.push_back({.kind = Event::Loop}); }
    void open_branch() { events_.push_back({.kind = Event::Branch}); }
    void close() { events_.push_back({.kind = Event::Close}); }

    /// Whether each barrier is needed, by its number. `lengths_differ`: rows of one launch have several
    /// lengths.
    std::vector<bool> needed(bool lengths_differ) const;

private:
    struct Event {
        enum Kind : uint8_t { Access, Place, Always, Loop, Branch, Close } kind = Access;
        Array array = {};
        std::string owners = {};
        bool writes = false;
        size_t barrier = 0;
        bool of_cluster = false; ///< Place, Always
    };
    /// Accesses, by the number of their event, after which no barrier has come; whether in an earlier row.
    using Pending = std::set<std::pair<size_t, bool>>;
    using Races = std::set<std::pair<size_t, size_t>>;

    class Walk;
    void touch(const Array &array, const std::string &owners, bool writes) {
        events_.push_back({.kind = Event::Access, .array = array, .owners = owners, .writes = writes});
    }
    Races races(const std::vector<bool> &standing, bool lengths_differ) const;

    std::vector<Event> events_;
    std::vector<int> ranks_; ///< by barrier
};

} // namespace lz::codegen::cuda
