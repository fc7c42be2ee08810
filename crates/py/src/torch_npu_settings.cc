// SPDX-License-Identifier: MIT OR Apache-2.0
// Lets torch_npu be loaded beside a CUDA build of torch.
//
// Either registers the names of its allocator's settings, and a function that reads them, with one class of libc10.so. That class refuses a
// name that it has already ("Duplicated key"), which ends the process, and keeps one function only. This library defines what torch_npu
// calls to register; loaded into the global scope before torch_npu, it is found before libc10.so. Names that both have are fine, and
// both functions read the settings, so that those of either package keep working. torch_npu's function raises at settings that only
// torch's CUDA allocator has: it does not see those.
//
// Used by _torch_npu.py, around the load. Calls that torch_npu makes later are passed on.
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <stdexcept>
#include <string>
#include <unordered_set>

using Hook = std::function<void(const std::string &)>;
using Keys = std::unordered_set<std::string>;

#define EXPORTED __attribute__((visibility("default")))

// Something of a library that is loaded, or null.
static void *of(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    return handle != nullptr ? dlsym(handle, name) : nullptr;
}

// What a function of libc10.so returns. Whoever registers settings has loaded it, and it stays.
template <typename T> static T &of_libc10(const char *name)
{
    void *function = of("libc10.so", name);
    if (function == nullptr) {
        throw std::runtime_error(std::string("ferry: libc10.so has no ") + name);
    }
    return reinterpret_cast<T &(*)()>(function)();
}

static Keys &all_keys()
{
    return of_libc10<Keys>("_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig14getMutableKeysB5cxx11Ev");
}

static Hook &the_hook()
{
    return of_libc10<Hook>("_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig19getConfigParserHookB5cxx11Ev");
}

// The names that torch's CUDA allocator has registered; there are none in a build of torch without it.
static Keys keys_of_cuda()
{
    void *keys = of("libc10_cuda.so", "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig7getKeysB5cxx11EvE4keys");
    return keys != nullptr ? *static_cast<Keys *>(keys) : Keys();
}

// `name:value,name:[value,value]` without the settings of some names.
static std::string without(const Keys &names, const std::string &settings)
{
    std::string rest;
    for (size_t start = 0; start < settings.size();) {
        size_t end = start;
        for (int depth = 0; end < settings.size() && (depth > 0 || settings[end] != ','); end++) {
            depth += (settings[end] == '[') - (settings[end] == ']');
        }
        std::string one = settings.substr(start, end - start), name = one.substr(0, one.find(':'));
        name.erase(std::remove_if(name.begin(), name.end(), [](unsigned char c) { return std::isspace(c); }), name.end());
        if (names.count(name) == 0) {
            rest += (rest.empty() ? "" : ",") + one;
        }
        start = end + 1;
    }
    return rest;
}

// Whether torch_npu is still to be loaded.
static bool is_loading = true;
// Names that were registered before, while the set is empty for torch_npu to fill.
static Keys *kept;
// Where torch_npu puts its function.
static Hook *theirs;

namespace c10 {
namespace CachingAllocator {

// As torch has declared it since 2.9; the names decide.
class AcceleratorAllocatorConfig {
public:
    EXPORTED static Keys &getMutableKeys();
    EXPORTED static Hook &getConfigParserHook();
};

Keys &AcceleratorAllocatorConfig::getMutableKeys()
{
    Keys &all = all_keys();
    if (is_loading && kept == nullptr) {
        kept = new Keys();
        kept->swap(all);
    }
    return all;
}

Hook &AcceleratorAllocatorConfig::getConfigParserHook()
{
    if (!is_loading) {
        return the_hook();
    }
    if (theirs == nullptr) {
        theirs = new Hook();
    }
    return *theirs;
}

} // namespace CachingAllocator
} // namespace c10

// Called when torch_npu is loaded, or has failed to be: puts together what both have registered.
extern "C" EXPORTED void ferry_torch_npu_loaded()
{
    is_loading = false;
    Keys only_cuda = keys_of_cuda();
    if (kept != nullptr) {
        for (const auto &name : all_keys()) {
            only_cuda.erase(name);
        }
        all_keys().insert(kept->begin(), kept->end());
        delete kept;
        kept = nullptr;
    }
    if (theirs != nullptr && *theirs) {
        Hook &hook = the_hook();
        Hook first = hook, second;
        second.swap(*theirs);
        hook = [first, second, only_cuda](const std::string &settings) {
            if (first) {
                first(settings);
            }
            second(without(only_cuda, settings));
        };
    }
}
