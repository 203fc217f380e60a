#include "db/clickhouse/libcurl.h"

#include <dlfcn.h>

#include <string>

#include "db/clickhouse/error.h"

namespace greta::clickhouse {
namespace {

/// The name that the library has had since 7.16, when its functions last changed.
constexpr const char* kFile = "libcurl.so.4";

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw Error(std::string("libcurl: ") + kFile + " has no " + name);
}

Libcurl load() {
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(std::string("libcurl: ") + dlerror());
  Libcurl curl{};
  find(library, "curl_global_init", curl.global_init);
  find(library, "curl_free", curl.free);
  find(library, "curl_easy_init", curl.easy_init);
  find(library, "curl_easy_cleanup", curl.easy_cleanup);
  find(library, "curl_easy_reset", curl.easy_reset);
  find(library, "curl_easy_setopt", curl.easy_setopt);
  find(library, "curl_easy_perform", curl.easy_perform);
  find(library, "curl_easy_getinfo", curl.easy_getinfo);
  find(library, "curl_easy_escape", curl.easy_escape);
  find(library, "curl_easy_strerror", curl.easy_strerror);
  find(library, "curl_slist_append", curl.slist_append);
  find(library, "curl_slist_free_all", curl.slist_free_all);
  find(library, "curl_mime_init", curl.mime_init);
  find(library, "curl_mime_addpart", curl.mime_addpart);
  find(library, "curl_mime_name", curl.mime_name);
  find(library, "curl_mime_data", curl.mime_data);
  find(library, "curl_mime_filename", curl.mime_filename);
  find(library, "curl_mime_free", curl.mime_free);
  // to be done once, before there are threads that use it
  const CURLcode begun = curl.global_init(CURL_GLOBAL_DEFAULT);
  if (begun != CURLE_OK) throw Error(std::string("libcurl: ") + curl.easy_strerror(begun));
  return curl;
}

}  // namespace

const Libcurl& libcurl() {
  static const Libcurl curl = load();
  return curl;
}

}  // namespace greta::clickhouse
