#include "db/clickhouse/http.h"

#include <curl/curl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "common/shared_library.h"
#include "common/stop_signal.h"

namespace greta::clickhouse {
namespace {

#define GRETA_LIBCURL_FUNCTIONS(apply)                                                      \
  apply(global_init) apply(free) apply(easy_init) apply(easy_cleanup) apply(easy_reset)     \
      apply(easy_setopt) apply(easy_perform) apply(easy_getinfo) apply(easy_header)         \
          apply(easy_escape) apply(easy_strerror) apply(slist_append) apply(slist_free_all) \
              apply(mime_init) apply(mime_addpart) apply(mime_name) apply(mime_data)        \
                  apply(mime_filename) apply(mime_free)

struct Libcurl {
#define GRETA_DECLARE(name) decltype(&curl_##name) name = nullptr;
  GRETA_LIBCURL_FUNCTIONS(GRETA_DECLARE)
#undef GRETA_DECLARE
};

Libcurl load_libcurl() {
  const SharedLibrary library("libcurl.so.4");
  Libcurl curl;
#define GRETA_FIND(name) library.find("curl_" #name, curl.name);
  GRETA_LIBCURL_FUNCTIONS(GRETA_FIND)
#undef GRETA_FIND
  const CURLcode begun = curl.global_init(CURL_GLOBAL_DEFAULT);
  if (begun != CURLE_OK) throw std::runtime_error(curl.easy_strerror(begun));
  return curl;
}

const Libcurl& libcurl() {
  try {
    static const Libcurl curl = load_libcurl();
    return curl;
  } catch (const std::runtime_error& error) {
    throw Error(std::string("libcurl: ") + error.what());
  }
}

template <class Pointer>
Pointer not_null(Pointer pointer) {
  if (pointer == nullptr) throw Error("libcurl: out of memory");
  return pointer;
}

/// An answer that has neither header ends where its connection does: half of it would look whole.
bool says_its_end(CURL* handle) {
  curl_header* found = nullptr;
  for (const char* name : {"Content-Length", "Transfer-Encoding"}) {
    if (libcurl().easy_header(handle, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK) return true;
  }
  return false;
}

int stop_if_asked(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return stop_signal() != 0 ? 1 : 0;
}

/// A server that sends fewer bytes a second for all of the patience is away.
constexpr long kLeastBytesASecond = 1000;
constexpr long kConnectMs = 10'000;

void require_file(bool is_done) {
  if (!is_done) throw Error(std::string("a temporary file for an answer: ") + std::strerror(errno));
}

}  // namespace

HttpBody::HttpBody() {
  std::string name = (std::filesystem::temp_directory_path() / "greta-answer-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  file_ = descriptor < 0 ? nullptr : fdopen(descriptor, "w+b");
  require_file(file_ != nullptr);
  unlink(name.c_str());
}

HttpBody::~HttpBody() {
  unmap();
  std::fclose(file_);
}

void HttpBody::unmap() {
  if (mapped_ != nullptr) munmap(mapped_, size_);
  mapped_ = nullptr;
}

void HttpBody::clear() {
  unmap();
  std::rewind(file_);
  require_file(ftruncate(fileno(file_), 0) == 0);
}

std::string_view HttpBody::bytes() {
  unmap();
  require_file(std::fflush(file_) == 0);
  size_ = static_cast<size_t>(std::ftell(file_));
  if (size_ == 0) return {};
  void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fileno(file_), 0);
  require_file(mapped != MAP_FAILED);
  mapped_ = mapped;
  return {static_cast<const char*>(mapped_), size_};
}

HttpConnection::HttpConnection(std::string where, std::string ca_file, int64_t patience_ms)
    : where_(std::move(where)),
      ca_file_(std::move(ca_file)),
      patience_ms_(patience_ms),
      handle_(not_null(libcurl().easy_init())) {}

HttpConnection::~HttpConnection() { libcurl().easy_cleanup(handle_); }

std::string HttpConnection::escaped(const std::string& text) {
  const std::unique_ptr<char, decltype(libcurl().free)> bytes(
      not_null(libcurl().easy_escape(handle_, text.data(), static_cast<int>(text.size()))),
      libcurl().free);
  return bytes.get();
}

long HttpConnection::post(const HttpRequest& request, HttpBody& answer) {
  const auto set = [this](CURLoption option, auto value) {
    libcurl().easy_setopt(handle_, option, value);
  };
  libcurl().easy_reset(handle_);
  std::array<char, CURL_ERROR_SIZE> message{};
  set(CURLOPT_ERRORBUFFER, message.data());
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROXY, "");  // rows go where they were sent, and nowhere else
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  set(CURLOPT_LOW_SPEED_LIMIT, kLeastBytesASecond);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(patience_ms_ / 1000));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, stop_if_asked);
  if (!ca_file_.empty()) set(CURLOPT_CAINFO, ca_file_.c_str());
  set(CURLOPT_WRITEDATA, answer.file());

  std::unique_ptr<curl_slist, decltype(libcurl().slist_free_all)> headers(nullptr,
                                                                          libcurl().slist_free_all);
  for (const std::string& line : request.headers) {
    curl_slist* longer = not_null(libcurl().slist_append(headers.get(), line.c_str()));
    headers.release();
    headers.reset(longer);
  }
  set(CURLOPT_HTTPHEADER, headers.get());
  std::unique_ptr<curl_mime, decltype(libcurl().mime_free)> form(nullptr, libcurl().mime_free);
  if (request.form.empty()) {
    set(CURLOPT_POSTFIELDS, request.body.data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  } else {
    form.reset(not_null(libcurl().mime_init(handle_)));
    for (const HttpRequest::Part& part : request.form) {
      curl_mimepart* one = not_null(libcurl().mime_addpart(form.get()));
      libcurl().mime_name(one, part.name.c_str());
      libcurl().mime_data(one, part.data.data(), part.data.size());
      if (part.is_file) libcurl().mime_filename(one, part.name.c_str());
    }
    set(CURLOPT_MIMEPOST, form.get());
  }

  const CURLcode done = libcurl().easy_perform(handle_);
  throw_if_stopped();
  long status = 0;
  libcurl().easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  // A server that refuses rows closes the connection before it has read the rest.
  if (status != 0 && status != 200 && !answer.bytes().empty()) return status;
  const std::string why =
      where_ + ": " + (message[0] != 0 ? message.data() : libcurl().easy_strerror(done));
  if (done == CURLE_PEER_FAILED_VERIFICATION || done == CURLE_SSL_CACERT_BADFILE ||
      done == CURLE_SSL_CONNECT_ERROR) {
    throw Error(why +
                " (TLS: is this machine's clock right, and the certificate's authority known:"
                " $GRETA_FLEET_CA names its file?)");
  }
  if (done == CURLE_WRITE_ERROR) throw Error(why + " (the temporary folder is full?)");
  if (done != CURLE_OK) throw Unavailable(why);
  if (status == 200 && !says_its_end(handle_))
    throw Error(where_ + ": an answer does not say where it ends, it may be half of one");
  return status;
}

}  // namespace greta::clickhouse
