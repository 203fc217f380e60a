#pragma once
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

// Requests to a ClickHouse server over HTTP.

namespace greta::clickhouse {

/// A server that cannot be reached, refuses, or gives an answer that is not believed. what() is one
/// line without the password.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An Error that may pass: the connection broke, a shard or ZooKeeper is away, too many queries.
struct Unavailable : Error {
  using Error::Error;
};

/// The body of an answer, in a temporary file: it is read when all of it is there.
class HttpBody {
 public:
  HttpBody();  ///< throws Error
  ~HttpBody();
  HttpBody(const HttpBody&) = delete;
  HttpBody& operator=(const HttpBody&) = delete;

  void clear();
  std::string_view bytes();  ///< until the next clear()
  std::FILE* file() { return file_; }

 private:
  void unmap();

  std::FILE* file_;
  void* mapped_ = nullptr;
  size_t size_ = 0;
};

/// A request by POST.
struct HttpRequest {
  struct Part {
    std::string name;
    std::string_view data;
    bool is_file = false;
  };
  std::string url;
  std::vector<std::string> headers;
  std::vector<Part> form;  ///< sent in the place of `body` unless empty
  std::string_view body;
};

/// A connection by libcurl, which is loaded when the first one is made: loading it takes a sixth of
/// the time of a short command over a file.
class HttpConnection {
 public:
  /// `where` begins every message; `ca_file` "" the system's; `patience_ms` is for one answer.
  HttpConnection(std::string where, std::string ca_file, int64_t patience_ms);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  std::string escaped(const std::string& text);  ///< for a URL

  /// Returns the HTTP status. Redirects are not followed. Throws Unavailable, Error or Stopped
  /// where `answer` is not whole, unless it is a refusal.
  long post(const HttpRequest& request, HttpBody& answer);

 private:
  const std::string where_, ca_file_;
  const int64_t patience_ms_;
  void* handle_;
};

}  // namespace greta::clickhouse
