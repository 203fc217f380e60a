#include "db/clickhouse/client.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <set>

#include "common/stop_signal.h"
#include "db/clickhouse/answer.h"
#include "db/clickhouse/compressed.h"
#include "db/clickhouse/libcurl.h"
#include "db/clickhouse/quote.h"
#include "db/clickhouse/refusal.h"

namespace greta::clickhouse {
namespace {

/// Under other values of these a server drops rows of an answer, or of an insert, without a word,
/// asks a replica that has not yet what another was given, or reads NULL or an empty group
/// otherwise than the queries mean it. Those that a server does not know are not asked for.
constexpr std::array<std::pair<const char*, const char*>, 34> kSettings = {{
    {"skip_unavailable_shards", "0"},
    {"read_overflow_mode", "throw"},
    {"read_overflow_mode_leaf", "throw"},
    {"group_by_overflow_mode", "throw"},
    {"sort_overflow_mode", "throw"},
    {"result_overflow_mode", "throw"},
    {"timeout_overflow_mode", "throw"},
    {"timeout_overflow_mode_leaf", "throw"},
    {"set_overflow_mode", "throw"},
    {"join_overflow_mode", "throw"},
    {"transfer_overflow_mode", "throw"},
    {"distinct_overflow_mode", "throw"},
    {"fallback_to_stale_replicas_for_distributed_queries", "0"},
    {"max_parallel_replicas", "1"},
    {"load_balancing", "in_order"},
    {"insert_distributed_sync", "1"},
    {"distributed_foreground_insert", "1"},
    {"insert_deduplicate", "1"},
    {"async_insert", "0"},
    {"join_use_nulls", "1"},
    {"join_default_strictness", "ALL"},
    {"transform_null_in", "0"},
    {"aggregate_functions_null_for_empty", "0"},
    {"enable_optimize_predicate_expression", "0"},
    {"prefer_column_name_to_alias", "0"},
    {"limit", "0"},
    {"offset", "0"},
    {"extremes", "0"},
    {"distributed_ddl_task_timeout", "60"},
    {"max_query_size", "16777216"},
    {"max_ast_elements", "1000000"},
    {"max_expanded_ast_elements", "1000000"},
    {"input_format_skip_unknown_fields", "0"},
    {"http_native_compression_disable_checksumming_on_decompress", "1"},
}};

/// A server that has sent fewer bytes a second all the time that one has patience for is away.
constexpr long kLeastBytesASecond = 1000;

std::string escaped(CURL* handle, const std::string& text) {
  char* bytes = libcurl().easy_escape(handle, text.data(), static_cast<int>(text.size()));
  if (bytes == nullptr) throw Error("libcurl: out of memory");
  std::string all = bytes;
  libcurl().free(bytes);
  return all;
}

}  // namespace

struct Client::Curl {
  Curl() : handle(libcurl().easy_init()) {
    if (handle == nullptr) throw Error("libcurl: out of memory");
  }
  ~Curl() { libcurl().easy_cleanup(handle); }
  CURL* handle;
};

/// One exchange: what is sent, and what becomes of the answer.
struct Client::Request {
  std::string parameters;  ///< of the URL
  const std::string* body = nullptr;
  const std::vector<ExternalTable>* tables = nullptr;
  const std::function<std::string_view()>* next = nullptr;  ///< rows to send
  const std::function<void(std::string_view)>* sink = nullptr;

  std::string block;  ///< compressed, on its way
  size_t sent = 0;
  bool all_sent = false;
  bool has_end = false;  ///< the answer says where it ends: a part of it does not look whole
  std::string refusal;
  std::exception_ptr thrown;  ///< by what libcurl called
  CURL* handle = nullptr;

  static size_t read(char* to, size_t, size_t room, void* context) {
    auto& self = *static_cast<Request*>(context);
    try {
      if (stop_signal() != 0) return CURL_READFUNC_ABORT;
      while (self.sent == self.block.size() && !self.all_sent) {
        self.block.clear();
        self.sent = 0;
        const std::string_view rows = (*self.next)();
        if (rows.empty()) {
          self.all_sent = true;
        } else {
          append_compressed(self.block, rows);
        }
      }
      const size_t n = std::min(room, self.block.size() - self.sent);
      std::memcpy(to, self.block.data() + self.sent, n);
      self.sent += n;
      return n;
    } catch (...) {
      self.thrown = std::current_exception();
      return CURL_READFUNC_ABORT;
    }
  }

  static size_t write(char* bytes, size_t, size_t n, void* context) {
    auto& self = *static_cast<Request*>(context);
    try {
      long status = 0;
      libcurl().easy_getinfo(self.handle, CURLINFO_RESPONSE_CODE, &status);
      if (status != 200 || self.sink == nullptr) {
        if (self.refusal.size() < 8192) self.refusal.append(bytes, std::min<size_t>(n, 8192));
      } else {
        (*self.sink)({bytes, n});
      }
      return n;
    } catch (...) {
      self.thrown = std::current_exception();
      return n + 1;  // ends the transfer
    }
  }

  static size_t header(char* bytes, size_t, size_t n, void* context) {
    auto& self = *static_cast<Request*>(context);
    std::string line(bytes, std::min<size_t>(n, 64));
    for (char& c : line) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
    if (line.starts_with("http/")) self.has_end = line.starts_with("http/2");
    if (line.starts_with("content-length:") || line.starts_with("transfer-encoding:"))
      self.has_end = true;
    return n;
  }

  static int progress(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    return stop_signal() != 0 ? 1 : 0;
  }
};

Client::Client(Address address, ClientOptions options)
    : address_(std::move(address)), options_(std::move(options)) {
  curl_ = std::make_unique<Curl>();
}

Client::~Client() = default;

std::string Client::parameters(bool reads) const {
  // which is always there: statements name the database themselves
  std::string all = "database=system";
  for (const auto& [name, value] : settings_) all += "&" + name + "=" + value;
  // The answer begins when the last row of it is there: an error in between has a status of its
  // own.
  if (reads) all += "&wait_end_of_query=1";
  return all;
}

void Client::perform(Request& request) {
  CURL* handle = curl_->handle;
  libcurl().easy_reset(handle);
  request.handle = handle;
  const std::string url = address_.url() + "?" + request.parameters;
  std::array<char, CURL_ERROR_SIZE> message{};
  curl_slist* headers = nullptr;
  curl_mime* mime = nullptr;
  const auto header = [&](const std::string& line) {
    curl_slist* more = libcurl().slist_append(headers, line.c_str());
    if (more == nullptr) throw Error("libcurl: out of memory");
    headers = more;
  };
  const auto set = [handle](CURLoption option, auto value) {
    libcurl().easy_setopt(handle, option, value);
  };
  struct Cleanup {
    curl_slist*& headers;
    curl_mime*& mime;
    ~Cleanup() {
      libcurl().slist_free_all(headers);
      libcurl().mime_free(mime);
    }
  } cleanup{headers, mime};
  header("X-ClickHouse-User: " + address_.user);
  if (!options_.password.empty()) header("X-ClickHouse-Key: " + options_.password);
  header("Expect:");
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_ERRORBUFFER, message.data());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROXY, "");  // rows go where they were sent, and nowhere else
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  set(CURLOPT_FOLLOWLOCATION, 0L);
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
#endif
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_ms));
  set(CURLOPT_LOW_SPEED_LIMIT, kLeastBytesASecond);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.patience_ms / 1000));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, Request::progress);
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options_.ca_file.empty()) set(CURLOPT_CAINFO, options_.ca_file.c_str());
  set(CURLOPT_WRITEFUNCTION, Request::write);
  set(CURLOPT_WRITEDATA, &request);
  set(CURLOPT_HEADERFUNCTION, Request::header);
  set(CURLOPT_HEADERDATA, &request);
  if (request.next != nullptr) {
    set(CURLOPT_POST, 1L);
    set(CURLOPT_READFUNCTION, Request::read);
    set(CURLOPT_READDATA, &request);
    set(CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
    header("Transfer-Encoding: chunked");
  } else if (request.tables != nullptr && !request.tables->empty()) {
    mime = libcurl().mime_init(handle);
    const auto part = [&](const std::string& name, const std::string& data, bool is_file) {
      curl_mimepart* one = libcurl().mime_addpart(mime);
      libcurl().mime_name(one, name.c_str());
      libcurl().mime_data(one, data.data(), data.size());
      if (is_file) libcurl().mime_filename(one, name.c_str());
    };
    part("query", *request.body, false);
    for (const ExternalTable& table : *request.tables) part(table.name, table.rows, true);
    set(CURLOPT_MIMEPOST, mime);
  } else {
    set(CURLOPT_POSTFIELDS, request.body->data());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body->size()));
    header("Content-Type: text/plain");
  }
  set(CURLOPT_HTTPHEADER, headers);
  const CURLcode done = libcurl().easy_perform(handle);
  throw_if_stopped();
  if (request.thrown) std::rethrow_exception(request.thrown);
  long status = 0;
  libcurl().easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  hide(options_.password, request.refusal);
  // A server that refuses rows closes the connection before it has read the rest.
  if (status != 0 && status != 200 && !request.refusal.empty())
    refuse(address_, status, request.refusal);
  if (done != CURLE_OK) {
    std::string why = message[0] != 0 ? message.data() : libcurl().easy_strerror(done);
    if (done == CURLE_PEER_FAILED_VERIFICATION || done == CURLE_SSL_CACERT_BADFILE ||
        done == CURLE_SSL_CONNECT_ERROR) {
      throw Error(address_.text() + ": TLS: " + one_line(why) +
                  " (is this machine's clock right, and the certificate's authority known:"
                  " $GRETA_FLEET_CA names its file?)");
    }
    throw Unavailable(address_.text() + ": " + one_line(why));
  }
  if (status != 200) refuse(address_, status, request.refusal);
  if (request.sink != nullptr && !request.has_end)
    throw Error(address_.text() + ": an answer does not say where it ends, it may be half of one");
}

void Client::check_settings() {
  if (checked_) return;
  checked_ = true;  // select() below comes back here
  std::set<std::string> known;
  select("SELECT name FROM system.settings", [&](RowReader& row) {
    const std::string name(row.text());
    for (const auto& one : kSettings) {
      if (name == one.first) known.insert(name);
    }
  });
  if (!known.contains("skip_unavailable_shards")) {
    checked_ = false;
    throw Error(address_.text() + " says nothing of its settings: is it ClickHouse?");
  }
  for (const auto& [name, value] : kSettings) {
    if (known.contains(name)) settings_[name] = value;
  }
  std::string names;
  for (const auto& [name, value] : settings_)
    names += (names.empty() ? "" : ", ") + quote_text(name);
  size_t seen = 0;
  std::string wrong;
  try {
    select("SELECT name, value FROM system.settings WHERE name IN (" + names + ")",
           [&](RowReader& row) {
             const std::string name(row.text()), value(row.text());
             ++seen;
             const std::string& wanted = settings_.at(name);
             const bool same = value == wanted || (wanted == "throw" && value == "THROW");
             if (!same) wrong += (wrong.empty() ? "" : ", ") + name + " = " + value;
           });
  } catch (const Refused& refused) {
    throw Refused(
        std::string(refused.what()) + " (the profile of user " + address_.user +
            " must let it choose settings: without them rows may be missing from answers)",
        refused.code);
  }
  if (!wrong.empty() || seen != settings_.size()) {
    checked_ = false;
    throw Error(address_.text() + ": the profile of user " + address_.user + " insists on " +
                (wrong.empty() ? "settings of its own" : wrong) +
                ", under which rows may be missing from an answer: nothing is asked of it");
  }
}

void Client::select(const std::string& sql, const std::function<void(RowReader&)>& row,
                    const std::vector<ExternalTable>& tables) {
  check_settings();
  const std::string text = sql + "\nFORMAT RowBinary";
  until_available(options_.retries, [&] {
    Answer answer(address_, options_.password, options_.most_row_bytes, row);
    const std::function<void(std::string_view)> sink = [&](std::string_view bytes) {
      answer.take(bytes);
    };
    Request request;
    request.parameters = parameters(true);
    for (const ExternalTable& table : tables) {
      request.parameters += "&" + table.name + "_format=RowBinary&" + table.name +
                            "_structure=" + escaped(curl_->handle, table.structure);
    }
    request.body = &text;
    request.tables = &tables;
    request.sink = &sink;
    try {
      try {
        perform(request);
      } catch (const Unavailable&) {
        answer.end();  // a server that says why it breaks off
        throw;
      }
      answer.end();
    } catch (const Unavailable& broken) {
      // what was delivered cannot be taken back
      if (answer.has_delivered())
        throw Error(std::string(broken.what()) + ", in the middle of an answer");
      throw;
    }
    if (answer.is_within_a_row()) throw Error(address_.text() + ": an answer ends within a row");
  });
}

uint64_t Client::number(const std::string& sql, const std::vector<ExternalTable>& tables) {
  uint64_t value = 0;
  int rows = 0;
  select(
      sql,
      [&](RowReader& row) {
        value = row.u64();
        ++rows;
      },
      tables);
  if (rows != 1) throw Error(address_.text() + ": " + std::to_string(rows) + " rows, not one");
  return value;
}

void Client::execute(const std::string& sql) {
  check_settings();
  Request request;
  request.parameters = parameters(true);
  request.body = &sql;
  perform(request);
}

void Client::ensure(const std::string& sql) {
  until_available(options_.retries, [&] { execute(sql); });
}

void Client::insert(const std::string& table, const std::string& columns,
                    const std::function<std::string_view()>& next) {
  check_settings();
  const std::string sql = "INSERT INTO " + table + " (" + columns + ") FORMAT RowBinary";
  Request request;
  request.parameters = parameters(false) + "&decompress=1&query=" + escaped(curl_->handle, sql);
  request.next = &next;
  perform(request);
}

}  // namespace greta::clickhouse
