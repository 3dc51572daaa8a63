#pragma once
/// The textual form of the three IRs: `parse(print(x)) == x` for every verified module.
///
/// A file is a header line `lazuli 1` and one or more `graph`, `kernel` and `program` blocks. The grammar is
/// in docs/ir.md. Parsers throw Failure(Parse) with line and column and the offending text.

#include "ir/graph/graph.h"

#include <string>
#include <string_view>
#include <vector>

namespace lz::ir {

struct Kernel;
struct Program;

struct PrintOptions {
    bool locations = true;
    bool header = true; ///< the `lazuli 1` line
    /// Events and callbacks as 0, 1, .. in the order in which a graph names them first: in what a process
    /// records their words are addresses.
    bool number_effects = false;
};

std::string print(const Graph &graph, const PrintOptions &options = {});
std::string print(const Kernel &kernel, const PrintOptions &options = {});
std::string print(const Program &program, const PrintOptions &options = {});

Graph parse_graph(std::string_view text);
Kernel parse_kernel(std::string_view text);
Program parse_program(std::string_view text);
/// Structural equality: everything that the text form shows.
bool equal(const Graph &a, const Graph &b);

/// A Graphviz picture: nodes as boxes with op, type and line, clusters as frames, transfers as bold edges.
std::string to_dot(const Graph &graph);

} // namespace lz::ir
