#include "db/clickhouse/client.h"

#include <lz4.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "common/stop_signal.h"
#include "db/clickhouse/quote.h"

namespace greta::clickhouse {
namespace {

/// Under other values a server drops rows of an answer or insert without an error, asks a replica
/// that lags behind, or reads NULL or an empty group otherwise than the queries mean it. Settings
/// that a server does not know are not asked for.
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

/// ATTEMPT_TO_READ_AFTER_EOF (a shard ended in the middle), TOO_MANY_SIMULTANEOUS_QUERIES,
/// SOCKET_TIMEOUT, NETWORK_ERROR, NO_ZOOKEEPER, TABLE_IS_READ_ONLY (ZooKeeper is away),
/// TOO_MANY_PARTS, ALL_CONNECTION_TRIES_FAILED, UNKNOWN_STATUS_OF_INSERT, KEEPER_EXCEPTION.
constexpr std::array<int, 10> kPassing = {32, 202, 209, 210, 225, 242, 252, 279, 319, 999};
constexpr int kNoConnection = 279;
/// UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, AUTHENTICATION_FAILED.
constexpr std::array<int, 4> kWrongPasswords = {192, 193, 194, kWrongPassword};

template <size_t n>
bool contains(const std::array<int, n>& codes, int code) {
  return std::find(codes.begin(), codes.end(), code) != codes.end();
}

int code_of(const std::string& body) {
  constexpr std::string_view kCode = "Code: ";
  int code = 0;
  if (const size_t at = body.find(kCode); at != std::string::npos)
    std::from_chars(body.data() + at + kCode.size(), body.data() + body.size(), code);
  return code;
}

/// "Code: 60, e.displayText() = DB::Exception: Table x doesn't exist., e.what() = ..." in short,
/// as one line.
std::string shortened(std::string text) {
  if (const size_t end = text.find(", e.what() ="); end != std::string::npos) text.resize(end);
  if (const size_t kind = text.find("DB::"); kind != std::string::npos) {
    const size_t end = text.find("Exception: ", kind);
    if (end < text.find(' ', kind)) text.erase(0, end + std::strlen("Exception: "));
  }
  text.resize(std::min<size_t>(text.size(), 600));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

/// One block of ClickHouse's native compression: a checksum of 16 bytes, which stays 0, the method,
/// the sizes of the block and of what it holds, LZ4.
std::string compressed(std::string_view bytes) {
  constexpr size_t kChecksumBytes = 16, kHeaderBytes = 9;
  constexpr char kLz4 = static_cast<char>(0x82);
  const int size = static_cast<int>(bytes.size());
  std::string block(kChecksumBytes + kHeaderBytes + LZ4_compressBound(size), '\0');
  const int n = LZ4_compress_default(bytes.data(), block.data() + kChecksumBytes + kHeaderBytes,
                                     size, LZ4_compressBound(size));
  if (n <= 0) throw Error("LZ4 could not compress rows");
  block.resize(kChecksumBytes + kHeaderBytes + static_cast<size_t>(n));
  const auto sizes =
      std::array{static_cast<uint32_t>(block.size() - kChecksumBytes), static_cast<uint32_t>(size)};
  block[kChecksumBytes] = kLz4;
  std::memcpy(block.data() + kChecksumBytes + 1, sizes.data(), sizeof sizes);
  return block;
}

}  // namespace

void refuse(const Address& address, long status, std::string body) {
  const int code = code_of(body);
  const std::string at = address.text() + ": ";
  if (contains(kWrongPasswords, code) || status == 401 || status == 403) {
    throw Refused(at + "user " + address.user +
                      " or the password is wrong ($GRETA_FLEET_PASSWORD, or the file that"
                      " $GRETA_FLEET_PASSWORD_FILE names)",
                  kWrongPassword);
  }
  if (body.empty()) throw Error(at + "HTTP status " + std::to_string(status));
  const std::string said = shortened(std::move(body));
  if (code == 0) throw Error(at + "no answer of ClickHouse: " + said);
  if (code == kNoConnection) throw Unavailable(at + "a server of its cluster is away: " + said);
  if (contains(kPassing, code)) throw Unavailable(at + said);
  throw Refused(at + said, code);
}

void until_available(const Retries& retries, const std::function<void()>& once) {
  constexpr std::chrono::milliseconds kLook{20};
  std::chrono::milliseconds pause{200};
  for (int attempt = 1;; ++attempt, pause *= 2) {
    try {
      return once();
    } catch (const Unavailable& unavailable) {
      if (attempt >= retries.attempts) throw;
      if (retries.waiting) retries.waiting(unavailable);
    }
    const auto end = std::chrono::steady_clock::now() + pause;
    while (std::chrono::steady_clock::now() < end) {
      throw_if_stopped();
      std::this_thread::sleep_for(kLook);
    }
  }
}

Client::Client(Address address, ClientOptions options)
    : address_(std::move(address)),
      options_(std::move(options)),
      connection_(address_.text(), options_.ca_file, options_.patience_ms) {}

void Client::perform(const std::string& parameters, HttpRequest request, HttpBody& answer) {
  // a database that is always there: statements name theirs themselves
  request.url = address_.url() + "?database=system" + parameters;
  for (const auto& [name, value] : settings_) request.url += "&" + name + "=" + value;
  request.headers = {"X-ClickHouse-User: " + address_.user, "Expect:"};
  if (!options_.password.empty())
    request.headers.push_back("X-ClickHouse-Key: " + options_.password);
  answer.clear();
  const long status = connection_.post(request, answer);
  if (status == 200) return;
  std::string body(answer.bytes().substr(0, 2000));
  for (size_t at = 0;
       !options_.password.empty() && (at = body.find(options_.password, at)) != std::string::npos;)
    body.replace(at, options_.password.size(), "***");
  refuse(address_, status, std::move(body));
}

void Client::ask(const std::string& sql, const std::vector<ExternalTable>& tables,
                 HttpBody& answer) {
  // the answer begins when its last row is there: an error has a status of its own
  std::string parameters = "&wait_end_of_query=1";
  HttpRequest request;
  request.body = sql;
  if (!tables.empty()) request.form.push_back({"query", sql});
  for (const ExternalTable& table : tables) {
    parameters += "&" + table.name + "_format=RowBinary&" + table.name +
                  "_structure=" + connection_.escaped(table.structure);
    request.form.push_back({table.name, table.rows, true});
  }
  perform(parameters, std::move(request), answer);
}

void Client::check_settings() {
  if (checked_) return;
  std::string names;
  for (const auto& [name, value] : kSettings)
    names += (names.empty() ? "" : ", ") + quote_text(name);
  const std::string select_settings =
      "SELECT name, value FROM system.settings WHERE name IN (" + names + ")";
  std::map<std::string, std::string> found;
  const auto take = [&](RowReader& row) {
    const std::string name(row.text());
    found[name] = row.text();
  };
  try {
    read(select_settings, take, {});
    for (const auto& [name, value] : kSettings) {
      if (found.contains(name)) settings_[name] = value;
    }
    if (!settings_.contains("skip_unavailable_shards"))
      throw Error(address_.text() + " says nothing of its settings: is it ClickHouse?");
    found.clear();
    read(select_settings, take, {});
  } catch (const Refused& refused) {
    if (settings_.empty()) throw;
    throw Refused(
        std::string(refused.what()) + " (the profile of user " + address_.user +
            " must let it choose settings: without them rows may be missing from answers)",
        refused.code);
  }
  std::string wrong;
  for (const auto& [name, value] : settings_) {
    const bool is_same = found[name] == value || (value == "throw" && found[name] == "THROW");
    if (!is_same) wrong += (wrong.empty() ? "" : ", ") + name + " = " + found[name];
  }
  checked_ = wrong.empty();
  if (checked_) return;
  throw Error(address_.text() + ": the profile of user " + address_.user + " insists on " + wrong +
              ", under which rows may be missing from an answer: nothing is asked of it");
}

void Client::select(const std::string& sql, const std::function<void(RowReader&)>& row,
                    const std::vector<ExternalTable>& tables) {
  check_settings();
  read(sql, row, tables);
}

void Client::read(const std::string& sql, const std::function<void(RowReader&)>& row,
                  const std::vector<ExternalTable>& tables) {
  HttpBody answer;
  until_available(options_.retries, [&] { ask(sql + "\nFORMAT RowBinary", tables, answer); });
  RowReader reader(answer.bytes());
  try {
    while (!reader.at_end()) {
      throw_if_stopped();
      row(reader);
    }
  } catch (const NoMoreBytes&) {
    throw Error(address_.text() + ": an answer ends within a row");
  } catch (const std::logic_error&) {  // a key or a number that `row` does not expect
    throw Error(address_.text() + ": an answer is none of what was asked for");
  }
}

uint64_t Client::number(const std::string& sql) {
  std::vector<uint64_t> values;
  select(sql, [&](RowReader& row) { values.push_back(row.u64()); });
  if (values.size() == 1) return values[0];
  throw Error(address_.text() + ": " + std::to_string(values.size()) + " rows, not one");
}

void Client::execute(const std::string& sql) {
  check_settings();
  HttpBody answer;
  ask(sql, {}, answer);
}

void Client::insert(const std::string& table, const std::string& columns, std::string_view rows) {
  check_settings();
  const std::string sql = "INSERT INTO " + table + " (" + columns + ") FORMAT RowBinary";
  const std::string block = compressed(rows);
  HttpRequest request;
  request.body = block;
  HttpBody answer;
  perform("&decompress=1&query=" + connection_.escaped(sql), std::move(request), answer);
}

}  // namespace greta::clickhouse
