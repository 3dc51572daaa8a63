#include "runtime/cuda/driver/libraries.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <functional>

namespace lz::runtime::cuda {
namespace {

namespace fs = std::filesystem;

std::string variable(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

/// What is looked for.
struct Kind {
    const char *name;     ///< for people
    const char *variable; ///< that can name it
    const char *file;     ///< without the version
    const char *wheel;    ///< its folder in the wheels of CUDA 12
    int oldest;
    /// Its version as 12010 for 12.1; 0 where the library lacks what tells it.
    int (*version)(const Library &);
};

std::string text_of(int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

template <class F>
F function(const Library &library, const char *name) {
    return reinterpret_cast<F>(library.find(name));
}

int driver_version(const Library &library) {
    const auto get = function<int (*)(int *)>(library, "cuDriverGetVersion");
    int version = 0;
    return get && get(&version) == 0 ? version : 0;
}

int nvrtc_version(const Library &library) {
    const auto get = function<int (*)(int *, int *)>(library, "nvrtcVersion");
    int major = 0, minor = 0;
    return get && get(&major, &minor) == 0 ? major * 1000 + minor * 10 : 0;
}

/// 130100 for 13.1, and 120103 for 12.1.3.
int cublaslt_version(const Library &library) {
    const auto get = function<size_t (*)()>(library, "cublasLtGetVersion");
    const auto version = get ? static_cast<int>(get()) : 0;
    return version / 10000 * 1000 + version / 100 % 100 * 10;
}

constexpr Kind kDriver{"CUDA driver", "LAZULI_CUDA_DRIVER", "libcuda",
                       nullptr,       kOldestDriver,        driver_version};
constexpr Kind kNvrtc{"NVRTC", "LAZULI_NVRTC", "libnvrtc", "cuda_nvrtc", kOldestLibrary, nvrtc_version};
constexpr Kind kCublasLt{"cuBLASLt", "LAZULI_CUBLASLT", "libcublasLt",
                         "cublas",   kOldestLibrary,    cublaslt_version};

/// Opens a file and asks for its version; `missing` says what is wrong with it.
Library open(const Kind &kind, const std::string &path) {
    Library library;
    library.path = path;
    library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library.handle) {
        const char *why = dlerror();
        library.missing = fmt::format("{} cannot be opened: {}.", path, why ? why : "no reason is given");
        return library;
    }
    library.version = kind.version(library);
    if (library.version == 0)
        library.missing =
            fmt::format("{} is no {}, or is damaged: it does not tell its version.", path, kind.name);
    else if (library.version < kind.oldest)
        library.missing = fmt::format("The {} at {} has version {}; {} is the oldest that does.", kind.name,
                                      path, text_of(library.version), text_of(kind.oldest));
    return library;
}

/// Files to try: those of the driver's major version and of older ones, the newest first, since a driver runs
/// what those make; then of newer ones, which are of no use, so that it is said that they are there.
std::vector<std::string> candidates(const Kind &kind, const Search &search, int drivers_major) {
    std::vector<std::string> files;
    if (kind.wheel == nullptr) { // the driver comes with the system, never with a toolkit
        for (const char *folder : {"", "/usr/lib/wsl/lib/", "/usr/local/nvidia/lib64/"})
            files.push_back(std::string(folder) + kind.file + ".so.1");
        return files;
    }
    std::vector<int> majors;
    for (int major = drivers_major; major >= kOldestLibrary / 1000; --major)
        majors.push_back(major);
    for (int newer = 1; newer <= 2; ++newer)
        majors.push_back(drivers_major + newer);
    const std::vector<std::string> wheels = search.wheels();
    for (const int major : majors) {
        const std::string file = fmt::format("{}.so.{}", kind.file, major);
        for (const std::string &toolkit : search.toolkits)
            for (const char *folder : {"lib64", "lib", "targets/x86_64-linux/lib"})
                files.push_back(toolkit + "/" + folder + "/" + file);
        files.push_back(file);
        for (const std::string &packages : wheels) {
            files.push_back(fmt::format("{}/nvidia/{}/lib/{}", packages, kind.wheel, file));
            files.push_back(fmt::format("{}/nvidia/cu{}/lib/{}", packages, major, file));
        }
    }
    return files;
}

/// The named file, or the first candidate that opens and that `fits` (its sentence is empty).
Library find(const Kind &kind, const std::string &named, const std::vector<std::string> &files,
             const std::function<std::string(const Library &)> &fits) {
    const auto check = [&](Library library) {
        if (library)
            library.missing = fits(library);
        return library;
    };
    if (!named.empty()) {
        Library library = check(open(kind, named));
        if (!library)
            library.missing = fmt::format("{} is set: {}", kind.variable, library.missing);
        return library;
    }
    Library wrong; // there, but of no use
    for (const std::string &file : files) {
        if (file.find('/') != std::string::npos && !fs::exists(file))
            continue;
        Library library = check(open(kind, file));
        if (library)
            return library;
        if (library.handle || (file.find('/') != std::string::npos && wrong.missing.empty()))
            wrong = std::move(library);
    }
    if (wrong.missing.empty())
        wrong.missing =
            fmt::format("No {} was found: neither {} nor the loader's and the system's folders have {}.so.",
                        kind.name, kind.variable, kind.file);
    return wrong;
}

/// What is said behind "there is no device" where that is what the user may have asked for.
std::string hidden_devices() {
    const char *const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible ? fmt::format("; CUDA_VISIBLE_DEVICES is \"{}\", which hides all others", visible) : "";
}

/// Whether the driver starts and has a device; else why not.
std::string start(const Library &driver) {
    const auto init = function<int (*)(unsigned)>(driver, "cuInit");
    const auto count = function<int (*)(int *)>(driver, "cuDeviceGetCount");
    if (!init || !count)
        return fmt::format("The CUDA driver at {} is damaged: it lacks {}.", driver.path,
                           init ? "cuDeviceGetCount" : "cuInit");
    int devices = 0;
    int failed = init(0);
    if (failed == 0)
        failed = count(&devices);
    if (failed == 0)
        return devices > 0
                   ? ""
                   : fmt::format("The CUDA driver at {} has no device{}.", driver.path, hidden_devices());
    const auto text = function<int (*)(int, const char **)>(driver, "cuGetErrorString");
    const char *why = nullptr;
    if (!text || text(failed, &why) != 0 || !why)
        why = "it gives no reason";
    constexpr int kNoDevice = 100, kInvalidDevice = 101; // of CUresult; this file needs no header of CUDA
    return fmt::format("The CUDA driver at {} does not start: {} (error {}){}.", driver.path, why, failed,
                       failed == kNoDevice || failed == kInvalidDevice ? hidden_devices() : "");
}

/// Where the Python that the user would start is installed: its file is in <prefix>/bin. Empty where there is
/// none.
fs::path prefix_of_python() {
    const std::string path = variable("PATH");
    for (size_t begin = 0; begin <= path.size();) {
        const size_t end = std::min(path.find(':', begin), path.size());
        const fs::path python = fs::path(path.substr(begin, end - begin)) / "python3";
        std::error_code none;
        if (python.is_absolute() && fs::is_regular_file(python, none)) // follows links, as canonical does
            return fs::canonical(python, none).parent_path().parent_path();
        begin = end + 1;
    }
    return {};
}

} // namespace

void *Library::find(const char *name) const {
    return handle ? dlsym(handle, name) : nullptr;
}

Search Search::from_environment() {
    Search s;
    s.driver = variable(kDriver.variable);
    s.nvrtc = variable(kNvrtc.variable);
    s.cublaslt = variable(kCublasLt.variable);
    for (const char *name : {"CUDA_HOME", "CUDA_PATH"})
        if (std::string folder = variable(name); !folder.empty())
            s.toolkits.push_back(std::move(folder));
    s.toolkits.emplace_back("/usr/local/cuda");
    s.python_prefixes = {variable("VIRTUAL_ENV"), variable("CONDA_PREFIX"), prefix_of_python()};
    if (const std::string home = variable("HOME"); !home.empty())
        s.python_prefixes.push_back(home + "/.local"); // pip install --user
    s.python_prefixes.insert(s.python_prefixes.end(), {"/usr/local", "/usr"});
    std::erase(s.python_prefixes, "");
    return s;
}

std::vector<std::string> Search::wheels() const {
    std::vector<std::string> folders;
    std::error_code none;
    for (const fs::path prefix : python_prefixes)
        for (const auto &python : fs::directory_iterator(prefix / "lib", none))
            if (python.path().filename().string().starts_with("python3"))
                for (const char *name : {"site-packages", "dist-packages"}) // Debian's own has the second
                    if (const fs::path folder = python.path() / name; fs::is_directory(folder, none))
                        if (std::ranges::find(folders, folder.string()) == folders.end())
                            folders.push_back(folder.string());
    return folders;
}

Library open_driver(const Search &search) {
    return find(kDriver, search.driver, candidates(kDriver, search, 0), start);
}

Library open_nvrtc(const Search &search, const Library &driver) {
    return find(
        kNvrtc, search.nvrtc, candidates(kNvrtc, search, driver.major()), [&](const Library &library) {
            if (library.major() <= driver.major())
                return std::string();
            return fmt::format("The NVRTC at {} is of CUDA {}, newer than the driver, which is of {}.",
                               library.path, text_of(library.version), text_of(driver.version));
        });
}

Library open_cublaslt(const Search &search, const Library &driver, const Library &nvrtc) {
    return find(
        kCublasLt, search.cublaslt, candidates(kCublasLt, search, driver.major()),
        [&](const Library &library) {
            if (library.major() == nvrtc.major() || (nvrtc.version == 0 && library.major() <= driver.major()))
                return std::string();
            if (nvrtc.version == 0)
                return fmt::format("The cuBLASLt at {} is of CUDA {}, newer than the driver, which is of {}.",
                                   library.path, library.major(), text_of(driver.version));
            return fmt::format("The cuBLASLt at {} is of CUDA {} and the NVRTC at {} of CUDA {}: they have "
                               "to be of one major version.",
                               library.path, library.major(), nvrtc.path, nvrtc.major());
        });
}

std::string availability(const Library &driver, const Library &nvrtc) {
    if (!driver)
        return driver.missing;
    if (!nvrtc)
        return nvrtc.missing;
    return fmt::format("CUDA is available: driver {} ({}), NVRTC {} ({}).", text_of(driver.version),
                       driver.path, text_of(nvrtc.version), nvrtc.path);
}

} // namespace lz::runtime::cuda
