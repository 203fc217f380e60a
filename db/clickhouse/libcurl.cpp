#include "db/clickhouse/libcurl.h"

#include <string>

#include "common/shared_library.h"
#include "db/clickhouse/error.h"

namespace greta::clickhouse {
namespace {

/// The name that the library has had since 7.16, when its functions last changed.
constexpr const char* kFile = "libcurl.so.4";

Libcurl load() {
  const SharedLibrary library(kFile);
  Libcurl curl{};
  library.find("curl_global_init", curl.global_init);
  library.find("curl_free", curl.free);
  library.find("curl_easy_init", curl.easy_init);
  library.find("curl_easy_cleanup", curl.easy_cleanup);
  library.find("curl_easy_reset", curl.easy_reset);
  library.find("curl_easy_setopt", curl.easy_setopt);
  library.find("curl_easy_perform", curl.easy_perform);
  library.find("curl_easy_getinfo", curl.easy_getinfo);
  library.find("curl_easy_escape", curl.easy_escape);
  library.find("curl_easy_strerror", curl.easy_strerror);
  library.find("curl_slist_append", curl.slist_append);
  library.find("curl_slist_free_all", curl.slist_free_all);
  library.find("curl_mime_init", curl.mime_init);
  library.find("curl_mime_addpart", curl.mime_addpart);
  library.find("curl_mime_name", curl.mime_name);
  library.find("curl_mime_data", curl.mime_data);
  library.find("curl_mime_filename", curl.mime_filename);
  library.find("curl_mime_free", curl.mime_free);
  // to be done once, before there are threads that use it
  const CURLcode begun = curl.global_init(CURL_GLOBAL_DEFAULT);
  if (begun != CURLE_OK) throw Error(std::string("libcurl: ") + curl.easy_strerror(begun));
  return curl;
}

}  // namespace

const Libcurl& libcurl() {
  try {
    static const Libcurl curl = load();
    return curl;
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw Error(std::string("libcurl: ") + error.what());
  }
}

}  // namespace greta::clickhouse
