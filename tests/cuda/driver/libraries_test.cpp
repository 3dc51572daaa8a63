// How the engine finds NVIDIA's libraries, and the sentence that it says when one cannot be used; with the
// fake ones, damaged ones and none.

#include "driver/driver.h"

#include "runtime/cuda/driver/libraries.h"

#include <cublasLt.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace lz::test {
namespace {

using runtime::cuda::Library;
using runtime::cuda::Search;

class CudaLibraries : public testing::Test {
protected:
    void SetUp() override {
        folder_ = std::filesystem::temp_directory_path() / ("lazuli-cuda-" + std::to_string(getpid()));
        std::filesystem::create_directories(folder_);
        driver_library(); // with the settings of these tests
    }
    void TearDown() override {
        unsetenv("LAZULI_FAKE_CUBLASLT_VERSION");
        std::filesystem::remove_all(folder_);
    }
    std::string file(const std::string &name, const std::string &content) {
        const auto path = folder_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << content;
        return path.string();
    }
    static bool has(const Library &library, const std::string &part) {
        return library.missing.find(part) != std::string::npos;
    }
    /// A library that stands for NVRTC: only its version counts here.
    static Library compiler(int version) {
        Library l;
        l.path = "libnvrtc";
        l.version = version;
        return l;
    }

    std::filesystem::path folder_;
};

TEST_F(CudaLibraries, ANamedDriverIsOpenedAndStarted) {
    Search search;
    search.driver = LAZULI_FAKE_CUDA;
    const Library driver = open_driver(search);
    ASSERT_TRUE(driver) << driver.missing;
    EXPECT_EQ(driver.version, CUDA_VERSION);
    EXPECT_EQ(driver.path, LAZULI_FAKE_CUDA);
    EXPECT_TRUE(driver.find("cuMemAlloc_v2"));
    EXPECT_FALSE(driver.find("cuNothing"));
    EXPECT_EQ(availability(driver, compiler(13000)), "CUDA is available: driver " +
                                                         std::to_string(CUDA_VERSION / 1000) + "." +
                                                         std::to_string(CUDA_VERSION % 1000 / 10) +
                                                         " (" LAZULI_FAKE_CUDA "), NVRTC 13.0 (libnvrtc).");
}

TEST_F(CudaLibraries, WhatIsMissingOrDamagedIsOneSentence) {
    Search search;
    search.driver = (folder_ / "nowhere.so").string();
    Library driver = open_driver(search);
    EXPECT_TRUE(has(driver, "LAZULI_CUDA_DRIVER is set: ")) << driver.missing;
    EXPECT_TRUE(has(driver, "cannot be opened")) << driver.missing;
    search.driver = file("text.so", "this is no library");
    driver = open_driver(search);
    EXPECT_TRUE(has(driver, "cannot be opened")) << driver.missing;
    search.driver = "libdl.so.2";
    driver = open_driver(search);
    EXPECT_TRUE(has(driver, "is no CUDA driver, or is damaged")) << driver.missing;
    EXPECT_EQ(driver.missing.back(), '.');
    EXPECT_EQ(availability(driver, compiler(13000)), driver.missing);
    search.driver = LAZULI_FAKE_CUDA;
    driver = open_driver(search);
    search.nvrtc = LAZULI_FAKE_CUDA;
    const Library nvrtc = open_nvrtc(search, driver);
    EXPECT_TRUE(has(nvrtc, "LAZULI_NVRTC is set: ")) << nvrtc.missing;
    EXPECT_TRUE(has(nvrtc, "is no NVRTC")) << nvrtc.missing;
    EXPECT_EQ(availability(driver, nvrtc), nvrtc.missing);
}

TEST_F(CudaLibraries, ToolkitsAndWheelsAreSearched) {
    Search search;
    search.driver = LAZULI_FAKE_CUDA;
    const Library driver = open_driver(search);
    ASSERT_TRUE(driver) << driver.missing;
    const auto link = [&](const std::string &name) {
        const auto path = folder_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::filesystem::create_symlink(LAZULI_FAKE_CUBLASLT, path);
        return path.string();
    };
    // Of wheels, where the loader has none itself; a damaged one of the toolkit is passed over.
    search.toolkits = {(folder_ / "toolkit").string()};
    search.python_prefixes = {folder_.string()};
    const std::string wheel = link("lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13");
    file("toolkit/lib64/libcublasLt.so.13", "damaged");
    Library found = open_cublaslt(search, driver, compiler(13000));
    ASSERT_TRUE(found) << found.missing;
    if (found.path != "libcublasLt.so.13") {
        EXPECT_EQ(found.path, wheel);
    }
    const std::string toolkit = link("toolkit/lib/libcublasLt.so.13");
    found = open_cublaslt(search, driver, compiler(13000));
    EXPECT_EQ(found.path, toolkit);
    EXPECT_EQ(found.version, CUBLAS_VERSION / 10000 * 1000 + CUBLAS_VERSION / 100 % 100 * 10);
}

TEST_F(CudaLibraries, WheelsAreThoseOfEveryPythonThatIsFound) {
    const auto packages = [&](const std::string &prefix, const char *name) {
        const auto path = folder_ / prefix / "lib/python3.12" / name;
        std::filesystem::create_directories(path);
        return path.string();
    };
    const std::vector<std::string> expected{
        packages("venv", "site-packages"), packages("conda", "site-packages"),
        packages("python", "site-packages"), packages("home/.local", "site-packages")};
    // A python3 of PATH that is a link to where Python is, as package managers make them.
    file("python/bin/python3.12", "a program");
    std::filesystem::create_directories(folder_ / "links");
    std::filesystem::create_symlink(folder_ / "python/bin/python3.12", folder_ / "links/python3");
    const EnvironmentVariables environment{
        {"VIRTUAL_ENV", folder_ / "venv"},
        {"CONDA_PREFIX", folder_ / "conda"},
        {"HOME", folder_ / "home"},
        {"PATH", "relative::" + (folder_ / "empty").string() + ":" + (folder_ / "links").string()}};
    std::vector<std::string> found = Search::from_environment().wheels();
    ASSERT_GE(found.size(), expected.size());
    for (size_t i = expected.size(); i < found.size(); ++i)
        EXPECT_TRUE(found[i].starts_with("/usr/")) << found[i];
    found.resize(expected.size());
    EXPECT_EQ(found, expected);
}

TEST_F(CudaLibraries, ToolkitsAreThoseOfTheEnvironmentThenTheSystems) {
    const auto toolkits = [](const char *home, const char *path) {
        const EnvironmentVariables environment{{"CUDA_HOME", home}, {"CUDA_PATH", path}};
        return Search::from_environment().toolkits;
    };
    const std::string system = "/usr/local/cuda";
    EXPECT_EQ(toolkits("/of/home", "/of/path"), (std::vector<std::string>{"/of/home", "/of/path", system}));
    EXPECT_EQ(toolkits("", "/of/path"), (std::vector<std::string>{"/of/path", system}));
    EXPECT_EQ(toolkits("/of/home", ""), (std::vector<std::string>{"/of/home", system}));
    EXPECT_EQ(toolkits("", ""), std::vector<std::string>{system});
}

TEST_F(CudaLibraries, ANewerCompilerThanTheDriversIsSaidWhereverItIs) {
    Search search;
    search.driver = LAZULI_FAKE_CUDA;
    Library driver = open_driver(search);
    driver.version = 12080;
    // Only its version counts here.
    std::filesystem::create_directories(folder_ / "toolkit/lib64");
    const std::string path = folder_ / "toolkit/lib64/libnvrtc.so.13";
    std::filesystem::create_symlink(LAZULI_NVRTC_WITHOUT_COMPILER, path);
    search.toolkits = {(folder_ / "toolkit").string()};
    const Library found = open_nvrtc(search, driver);
    if (found) { // the loader has one that the driver takes: that is as good
        EXPECT_EQ(found.major(), 12) << found.path;
    } else {
        EXPECT_TRUE(has(found, " is of CUDA 13.")) << found.missing;
        EXPECT_TRUE(has(found, ", newer than the driver, which is of 12.8.")) << found.missing;
    }
}

TEST_F(CudaLibraries, VersionsHaveToGoTogether) {
    Search search;
    search.driver = LAZULI_FAKE_CUDA;
    const Library driver = open_driver(search);
    search.cublaslt = LAZULI_FAKE_CUBLASLT;
    EXPECT_TRUE(open_cublaslt(search, driver, compiler(13000)));
    EXPECT_TRUE(open_cublaslt(search, driver, Library())) << "no compiler is asked for";
    Library driver_of_12 = driver;
    driver_of_12.version = 12080;
    Library lt = open_cublaslt(search, driver_of_12, Library());
    EXPECT_TRUE(has(lt, "is of CUDA 13, newer than the driver, which is of 12.8")) << lt.missing;
    lt = open_cublaslt(search, driver, compiler(12040));
    EXPECT_TRUE(has(lt, "is of CUDA 13 and the NVRTC at libnvrtc of CUDA 12")) << lt.missing;
    setenv("LAZULI_FAKE_CUBLASLT_VERSION", "120003", 1);
    lt = open_cublaslt(search, driver, compiler(12040));
    EXPECT_TRUE(has(lt, "has version 12.0; 12.1 is the oldest that does")) << lt.missing;
    setenv("LAZULI_FAKE_CUBLASLT_VERSION", "120402", 1);
    lt = open_cublaslt(search, driver, compiler(12040));
    EXPECT_TRUE(lt) << lt.missing;
    EXPECT_EQ(lt.version, 12040);
    if (!why_no_nvrtc().empty())
        GTEST_SKIP() << why_no_nvrtc();
    Library old = driver;
    old.version = 12080;
    search = Search::from_environment();
    search.nvrtc = search.nvrtc.empty() ? "/usr/local/cuda/lib64/libnvrtc.so.13" : search.nvrtc;
    const Library nvrtc = open_nvrtc(search, old);
    if (nvrtc.major() == 13) {
        EXPECT_TRUE(has(nvrtc, "newer than the driver, which is of 12.8")) << nvrtc.missing;
    }
    EXPECT_TRUE(open_nvrtc(Search::from_environment(), driver));
}

TEST_F(CudaChild, DISABLED_TheDriverIsTooOld) {
    Search search;
    search.driver = LAZULI_FAKE_CUDA;
    const Library driver = open_driver(search);
    EXPECT_NE(driver.missing.find("has version 11.8; 12.0 is the oldest that does"), std::string::npos)
        << driver.missing;
}

TEST_F(CudaChild, DISABLED_TheDriverHasNoDevice) {
    Search search;
    search.driver = LAZULI_FAKE_CUDA;
    const Library driver = open_driver(search);
    EXPECT_NE(driver.missing.find("does not start: no CUDA-capable device is detected (error 100); "
                                  "CUDA_VISIBLE_DEVICES is \"\", which hides all others."),
              std::string::npos)
        << driver.missing;
}

TEST_F(CudaLibraries, AnOldDriverAndHiddenDevicesAreSaid) {
    EXPECT_TRUE(run_child("TheDriverIsTooOld", {{"LAZULI_FAKE_CUDA_VERSION", "11080"}}));
    EXPECT_TRUE(run_child("TheDriverHasNoDevice", {{"CUDA_VISIBLE_DEVICES", ""}}));
}

} // namespace
} // namespace lz::test
