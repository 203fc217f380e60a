#pragma once
#include <stdexcept>
#include <string>

namespace greta::clickhouse {

/// A server that cannot be reached, refuses, or says something that is not believed: what() is one
/// line, with no password in it.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One that may go away by itself: nobody listens, the connection broke, a shard or ZooKeeper is
/// away, too many queries at once.
struct Unavailable : Error {
  using Error::Error;
};

/// Any other answer of the server; `code` is ClickHouse's number of it.
struct Refused : Error {
  Refused(const std::string& what, int code_) : Error(what), code(code_) {}
  int code;
};

}  // namespace greta::clickhouse
