#pragma once
/// NVIDIA's libraries, opened at run time: the driver, the compiler NVRTC and cuBLASLt. Where each is looked
/// for, which versions do, and one sentence where none was found.

#include <string>
#include <vector>

namespace lz::runtime::cuda {

/// Where to look, in this order: a path that the user named, and then nowhere else; folders of the toolkit;
/// the loader's own; the system's; Python's wheels.
struct Search {
    std::string driver, nvrtc, cublaslt; ///< LAZULI_CUDA_DRIVER, LAZULI_NVRTC, LAZULI_CUBLASLT
    std::vector<std::string> toolkits;   ///< CUDA_HOME, CUDA_PATH, /usr/local/cuda
    /// Where Pythons are installed: VIRTUAL_ENV, CONDA_PREFIX, that of the python3 that PATH has, the user's
    /// own packages and the system's.
    std::vector<std::string> python_prefixes;

    static Search from_environment();
    /// Folders of those Pythons' packages.
    std::vector<std::string> wheels() const;
};

/// An open library; it stays open as long as the process lives.
struct Library {
    void *handle = nullptr;
    std::string path;    ///< as it was opened
    int version = 0;     ///< 12010: 12.1
    std::string missing; ///< why it cannot be used, a sentence; empty where it can

    explicit operator bool() const { return missing.empty(); }
    int major() const { return version / 1000; }
    /// The address of a function; null where the library lacks it.
    void *find(const char *name) const;
};

constexpr int kOldestDriver = 12000; ///< graphs' functions have their present forms from 12.0 on
constexpr int kOldestLibrary = 12010;

/// The driver, initialized, with at least one device.
Library open_driver(const Search &search);
/// A compiler whose output the driver takes: no newer major version than the driver's.
Library open_nvrtc(const Search &search, const Library &driver);
/// cuBLASLt of NVRTC's major version, or, where there is no NVRTC (its version is 0), of none newer than the
/// driver's. Opening it can take a second: only where a product needs it.
Library open_cublaslt(const Search &search, const Library &driver, const Library &nvrtc);

/// "CUDA is available: driver 13.0 (libcuda.so.1), ..." or why it is not, one sentence.
std::string availability(const Library &driver, const Library &nvrtc);

} // namespace lz::runtime::cuda
