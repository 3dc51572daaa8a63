#pragma once
/// The frame of a program file: header, table of sections, sections. For this folder alone.

#include "ir/saved/saved_program.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lz::ir {

enum class SectionKind : uint32_t { Manifest, Text, Code, Constant };
inline constexpr uint32_t kSectionKinds = 4;

struct Section {
    SectionKind kind = SectionKind::Manifest;
    std::span<const std::byte> bytes;
};

struct Container {
    uint32_t version = kProgramFileVersion;
    std::vector<Section> sections; ///< the manifest first
};

/// A file of these sections. Each begins at a multiple of 64 bytes.
std::vector<std::byte> write_container(const Container &container);
/// Throws Failure(Io) unless the file is whole, unchanged, and laid out as `write_container` does.
Container read_container(std::span<const std::byte> file);

} // namespace lz::ir
