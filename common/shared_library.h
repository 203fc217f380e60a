#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace greta {

/// A shared library that a program loads when it first needs it, and keeps: with the libraries that
/// it needs itself it may take longer to load than a short command takes.
class SharedLibrary {
 public:
  /// Throws std::runtime_error, which says why, where it cannot be loaded.
  explicit SharedLibrary(const char* file)
      : file_(file), handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }

  /// A function of it by its name. Throws std::runtime_error when it has none of that name.
  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(address_of(name));
  }

 private:
  void* address_of(const char* name) const {
    void* const address = dlsym(handle_, name);
    if (address == nullptr) throw std::runtime_error(std::string(file_) + " has no " + name);
    return address;
  }

  const char* file_;
  void* handle_;
};

}  // namespace greta
