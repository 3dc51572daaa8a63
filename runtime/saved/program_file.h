#pragma once
/// Files that hold machine code: how they are written, and whose are read.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace lz::runtime {

/// Writes beside `path` and renames when all of it is on the disk: whatever fails, what was there stays.
/// Nobody but the owner may write the new file. Throws Failure(Io), a sentence that goes on after the path.
void write_program_file(const std::string &path, std::span<const std::byte> content);

/// All of a file. Throws Failure(Io) likewise where it cannot be read, and, unless `from_anybody`, where
/// somebody else than this user or root owns it or may write it. What was looked at is what is read.
std::vector<std::byte> read_program_file(const std::string &path, bool from_anybody);

} // namespace lz::runtime
