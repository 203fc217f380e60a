#include "common/shared_library.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace greta {

SharedLibrary::SharedLibrary(const char* file)
    : file_(file), handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) throw std::runtime_error(dlerror());
}

void* SharedLibrary::address_of(const char* name) const {
  void* const address = dlsym(handle_, name);
  if (address == nullptr) throw std::runtime_error(std::string(file_) + " has no " + name);
  return address;
}

}  // namespace greta
