#include "runtime/saved/weights.h"

#include "ir/diagnostic.h"
#include "runtime/api/parallel.h"
#include "runtime/saved/weights_file.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

namespace lz::runtime {
namespace {

namespace fs = std::filesystem;
using Hash = std::array<std::byte, 16>;

Hash hash_of(std::span<const std::byte> elements) {
    XXH128_canonical_t sum;
    XXH128_canonicalFromHash(&sum, XXH3_128bits(elements.data(), elements.size()));
    Hash hash;
    static_assert(sizeof sum == sizeof hash);
    std::memcpy(hash.data(), &sum, sizeof sum);
    return hash;
}

/// Does job(0) to job(count - 1), all of them, on threads of their own where there are `bytes` enough to look
/// at; the first that threw throws. Not on the pool: a process may load programs and fork then (S65).
template <class F>
void do_all(size_t count, uint64_t bytes, F &&job) {
    constexpr uint64_t kForOne = 16 << 20; // some milliseconds
    constexpr size_t kMost = 16;           // more do not read memory faster
    std::vector<std::exception_ptr> errors(count);
    std::atomic<size_t> next{0};
    const auto work = [&] {
        for (size_t i; (i = next.fetch_add(1)) < count;)
            try {
                job(i);
            } catch (...) {
                errors[i] = std::current_exception();
            }
    };
    size_t threads = std::min<size_t>({count, bytes / kForOne, kMost});
    if (threads > 1)
        threads = std::min(threads, static_cast<size_t>(num_threads()));
    {
        std::vector<std::jthread> others;
        try {
            while (others.size() + 1 < threads)
                others.emplace_back(work);
        } catch (const std::system_error &) { // those that there are do it
        }
        work();
    }
    for (const std::exception_ptr &error : errors)
        if (error)
            std::rethrow_exception(error);
}

// --- saving

/// A tensor that a constant may be.
struct Candidate {
    size_t file;
    const WeightsTensor *tensor;
    std::span<const std::byte> elements;
    bool taken = false;
};

/// The safetensors files by their paths: the one, or those that it is an index of.
std::vector<std::string> files_of(const std::string &weights) {
    const std::optional<std::vector<std::string>> names = read_weights_index(weights);
    if (!names)
        return {weights};
    std::vector<std::string> paths;
    for (const std::string &name : *names)
        paths.push_back((fs::path(weights).parent_path() / name).string());
    return paths;
}

/// A folder's path without links, so that `..` is what it seems.
fs::path folder_of(const std::string &path) {
    const fs::path folder = fs::path(path).parent_path();
    return fs::canonical(folder.empty() ? fs::path(".") : folder);
}

/// What the program file calls it. The names of both files are as given: where they are links, they have
/// those names beside each other, and what they lead to may not.
std::string relative_name(const std::string &weights, const std::string &path) {
    try {
        return (folder_of(weights) / fs::path(weights).filename())
            .lexically_relative(folder_of(path))
            .string();
    } catch (const fs::filesystem_error &error) {
        fail_io("could not be written: " + error.code().message());
    }
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

using CandidatesByType = std::map<std::pair<ir::DType, std::vector<int64_t>>, std::vector<Candidate>>;

/// Those that equal the constant, one that is not taken first; null: there is none.
Candidate *find(CandidatesByType &candidates, const ir::SavedConstant &constant) {
    const std::span<const int64_t> extents = constant.type.shape.extents();
    const auto of_type = candidates.find({constant.type.dtype, {extents.begin(), extents.end()}});
    if (of_type == candidates.end())
        return nullptr;
    Candidate *found = nullptr;
    for (Candidate &candidate : of_type->second)
        if ((!found || !candidate.taken) && same_bytes(candidate.elements, constant.bytes)) {
            found = &candidate;
            if (!candidate.taken)
                break;
        }
    return found;
}

// --- loading

/// Where a file that the program names may be.
std::string path_of(const std::string &name, const WeightsPlace &place, size_t files) {
    std::error_code none;
    const auto there = [&](const fs::path &path) { return fs::exists(path, none); };
    if (!place.weights.empty()) {
        if (!fs::is_directory(place.weights, none)) {
            if (files == 1 || !there(place.weights))
                return place.weights;
            fail_io(
                fmt::format("refers to {} safetensors files, and LoadProgramOptions::weights, \"{}\", is one "
                            "file: name the folder that they are in",
                            files, place.weights));
        }
        const fs::path folder = place.weights;
        return (there(folder / name) ? folder / name : folder / fs::path(name).filename()).string();
    }
    const fs::path beside = fs::path(place.program).parent_path() / name;
    if (there(beside))
        return beside.string();
    const fs::path real = fs::canonical(place.program, none); // of a link
    return !none && there(real.parent_path() / name) ? (real.parent_path() / name).string() : beside.string();
}

/// A file that the program names, and its pages.
struct Weights {
    std::string path;
    std::unique_ptr<const WeightsFile> file;
    std::shared_ptr<const std::byte> pages; ///< null: it is not mapped
};

Weights open(const std::string &name, const WeightsPlace &place, size_t files) {
    std::error_code none;
    Weights weights;
    weights.path = path_of(name, place, files);
    try {
        weights.file = std::make_unique<const WeightsFile>(weights.path);
        if (place.map)
            weights.pages = weights.file->map();
    } catch (const ir::Failure &failure) {
        throw ir::Failure(failure.kind(),
                          fmt::format("refers to \"{}\", which {}{}", weights.path, failure.message(),
                                      place.weights.empty() && !fs::exists(weights.path, none)
                                          ? " (LoadProgramOptions::weights says where it is, if elsewhere)"
                                          : ""));
    }
    return weights;
}

std::shared_ptr<std::byte> new_block(uint64_t bytes) {
    constexpr std::align_val_t kAlignment{64};
    return {static_cast<std::byte *>(::operator new(std::max<size_t>(bytes, 1), kAlignment)),
            [](std::byte *p) { ::operator delete(p, kAlignment); }};
}

/// The elements of one tensor, which several constants may be.
struct Elements {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
};

bool is_bool_of_each(std::span<const std::byte> bytes) {
    return std::ranges::all_of(bytes, [](std::byte b) { return static_cast<uint8_t>(b) <= 1; });
}

Elements elements_of(const Weights &weights, const WeightsTensor &tensor, const ir::SavedReference &reference,
                     bool check) {
    Elements elements;
    const auto fail = [&](const std::string &what) {
        fail_io(fmt::format("refers to tensor {} of \"{}\", {}", in_quotes(reference.tensor), weights.path,
                            what));
    };
    if (weights.pages)
        elements = {{weights.pages.get() + tensor.begin, tensor.bytes}, weights.pages};
    const auto alignment = static_cast<uintptr_t>(ir::size_of(*tensor.dtype));
    if (!weights.pages || reinterpret_cast<uintptr_t>(elements.bytes.data()) % alignment != 0) {
        const std::shared_ptr<std::byte> block = new_block(tensor.bytes);
        try {
            weights.file->read(tensor, {block.get(), tensor.bytes});
        } catch (const ir::Failure &failure) {
            fail("which " + failure.message());
        }
        elements = {{block.get(), tensor.bytes}, block};
    }
    if (check && hash_of(elements.bytes) != reference.hash)
        fail("and its elements are not those that the program was saved with: bring that file back, or save "
             "the program again");
    if (!check && tensor.dtype == ir::DType::Bool && !is_bool_of_each(elements.bytes))
        fail("which is of bools and has a byte that is neither 0 nor 1");
    return elements;
}

/// The tensor that a constant is. Throws where it is not there or is of another type.
const WeightsTensor &tensor_of(const Weights &weights, const ir::SavedConstant &constant) {
    const WeightsTensor *const tensor = weights.file->find(constant.from.tensor);
    if (!tensor)
        fail_io(fmt::format("refers to tensor {} of \"{}\", which has none of that name",
                            in_quotes(constant.from.tensor), weights.path));
    if (tensor->dtype != constant.type.dtype ||
        !std::ranges::equal(tensor->extents, constant.type.shape.extents())) {
        const std::string type = ir::to_string(constant.type);
        fail_io(fmt::format(
            "refers to tensor {} of \"{}\", which is {}, and was {} when the program was saved",
            in_quotes(constant.from.tensor), weights.path, tensor->type, type.substr(0, type.find(" @"))));
    }
    return *tensor;
}

} // namespace

void refer_to_weights(ir::SavedProgram &program, const std::string &path, const std::string &weights) {
    std::error_code none;
    std::vector<std::string> paths;
    std::deque<WeightsFile> files;
    std::vector<std::shared_ptr<const std::byte>> pages;
    CandidatesByType candidates;
    std::string reading = weights;
    try {
        paths = files_of(weights);
        for (const std::string &file : paths) {
            reading = file;
            files.emplace_back(file);
            pages.push_back(files.back().map());
        }
    } catch (const ir::Failure &failure) {
        fail_io(fmt::format("cannot refer to \"{}\", which {}", reading, failure.message()));
    }
    for (size_t f = 0; f < files.size(); ++f) {
        if (fs::equivalent(paths[f], path, none))
            throw ir::Failure(
                ir::ErrorKind::State,
                fmt::format("\"{}\" would be written over the weights that it is to refer to", path));
        for (const WeightsTensor &tensor : files[f].tensors())
            if (tensor.dtype)
                candidates[{*tensor.dtype, tensor.extents}].push_back(
                    {f, &tensor, {pages[f].get() + tensor.begin, tensor.bytes}});
    }
    std::vector<Candidate *> found;
    uint64_t bytes = 0;
    for (const ir::SavedConstant &constant : program.constants)
        if (Candidate *const candidate = found.emplace_back(find(candidates, constant))) {
            candidate->taken = true;
            bytes += constant.bytes.size();
        }
    if (!found.empty() && std::ranges::count(found, nullptr) == std::ssize(found))
        throw ir::Failure(
            ir::ErrorKind::State,
            fmt::format(
                "none of the {} tensors that {} captures is in \"{}\", with the dtype, shape and elements "
                "that it has now: save them there (lz::save) before the program",
                found.size(), program.name, weights));
    std::vector<ir::SavedReference> references(found.size());
    do_all(found.size(), bytes, [&](size_t c) {
        if (found[c])
            references[c].hash = hash_of(program.constants[c].bytes);
    });
    std::vector<std::string> names;
    std::vector<uint32_t> numbers(files.size(), ir::kNothing); // of files that something refers to
    for (size_t c = 0; c < found.size(); ++c) {
        if (!found[c])
            continue;
        uint32_t &number = numbers[found[c]->file];
        if (number == ir::kNothing) {
            number = static_cast<uint32_t>(names.size());
            names.push_back(relative_name(paths[found[c]->file], path));
        }
        references[c].file = number;
        references[c].tensor = found[c]->tensor->name;
    }
    program.weights = std::move(names);
    for (size_t c = 0; c < found.size(); ++c)
        if (found[c]) {
            program.constants[c].from = std::move(references[c]);
            program.constants[c].bytes = {};
        }
}

std::vector<std::shared_ptr<const void>> find_weights(ir::SavedProgram &program, const WeightsPlace &place) {
    std::vector<Weights> files;
    for (const std::string &name : program.weights)
        files.push_back(open(name, place, program.weights.size()));
    std::map<const WeightsTensor *, std::vector<size_t>> constants; // that are one tensor
    for (size_t c = 0; c < program.constants.size(); ++c)
        if (const ir::SavedConstant &constant = program.constants[c]; constant.from.file != ir::kNothing) {
            std::vector<size_t> &of_it = constants[&tensor_of(files[constant.from.file], constant)];
            of_it.push_back(c);
            if (program.constants[of_it.front()].from.hash != constant.from.hash)
                fail_io(fmt::format("is damaged: tensor {} has two hashes", in_quotes(constant.from.tensor)));
        }
    struct Job {
        const WeightsTensor *tensor;
        size_t constant; ///< the first
    };
    std::vector<Job> jobs;
    uint64_t bytes = 0;
    for (const auto &[tensor, of_it] : constants) {
        jobs.push_back({tensor, of_it.front()});
        bytes += place.check || !place.map ? tensor->bytes : 0;
    }
    // In the order of the program, so that errors are the same each time.
    std::ranges::sort(jobs, {}, &Job::constant);
    std::vector<Elements> elements(jobs.size());
    do_all(jobs.size(), bytes, [&](size_t j) {
        const ir::SavedReference &reference = program.constants[jobs[j].constant].from;
        elements[j] = elements_of(files[reference.file], *jobs[j].tensor, reference, place.check);
    });
    std::vector<std::shared_ptr<const void>> owners(program.constants.size());
    for (size_t j = 0; j < jobs.size(); ++j)
        for (const size_t c : constants[jobs[j].tensor]) {
            program.constants[c].bytes = elements[j].bytes;
            owners[c] = elements[j].owner;
        }
    return owners;
}

} // namespace lz::runtime
