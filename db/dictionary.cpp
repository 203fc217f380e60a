#include "db/dictionary.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "db/judge.h"

namespace greta {
namespace {

/// Ids of names that greta does not know start here, far above the built-in trace points; their
/// forward order is this for all of them, so that it does not depend on which came first.
constexpr int64_t kFirstUnknownTensor = 1000;
constexpr int64_t kMaxTensor = 65'534;
constexpr int64_t kShareOfRun = 64;
/// What is read again when more of it was seen.
constexpr size_t kMaxCachedPrompts = 20'000;

}  // namespace

void Dictionary::forget() {
  prompts_.clear();
  phases_.clear();
  tensors_.clear();
}

std::optional<TensorId> Dictionary::tensor_id_of_run(int64_t run_id, std::string_view name) {
  const std::string text(name);
  if (auto it = tensors_.find(text); it != tensors_.end()) return it->second;
  SQLite::Statement query(db_, "SELECT 1 FROM tensor_name WHERE name = ?");
  query.bind(1, text);
  if (query.executeStep()) return tensor_id(name);
  auto [left, is_first] = names_left_.try_emplace(run_id);
  if (is_first) {
    const int64_t last = db_.execAndGet("SELECT max(id) FROM tensor").getInt64();
    left->second = (kMaxTensor - std::max(last, kFirstUnknownTensor - 1)) / kShareOfRun;
  }
  if (left->second <= 0) return std::nullopt;
  --left->second;
  return tensor_id(name);
}

int64_t Dictionary::prompt_id(int64_t run_id, std::string_view name) {
  std::pair<int64_t, std::string> wanted{run_id, std::string(name)};
  if (auto it = prompts_.find(wanted); it != prompts_.end()) return it->second;
  if (prompts_.size() >= kMaxCachedPrompts) prompts_.clear();
  SQLite::Statement insert(db_, "INSERT OR IGNORE INTO prompt(run_id, name) VALUES (?, ?)");
  insert.bind(1, run_id);
  insert.bind(2, wanted.second);
  if (insert.exec() > 0) forget_verdict(db_, run_id);  // it may have been announced only
  SQLite::Statement query(db_, "SELECT id FROM prompt WHERE run_id = ? AND name = ?");
  query.bind(1, run_id);
  query.bind(2, wanted.second);
  query.executeStep();
  return prompts_[std::move(wanted)] = query.getColumn(0).getInt64();
}

PhaseId Dictionary::phase_id(std::string_view name) {
  std::string text(name);
  if (auto it = phases_.find(text); it != phases_.end()) return it->second;
  SQLite::Statement insert(
      db_,
      "INSERT OR IGNORE INTO phase(name, side) VALUES (?1, CASE WHEN ?1 GLOB 'prefill*' THEN 0"
      " WHEN ?1 GLOB 'decode*' THEN 1 ELSE 2 END)");
  insert.bind(1, text);
  insert.exec();
  SQLite::Statement query(db_, "SELECT id, side FROM phase WHERE name = ?");
  query.bind(1, text);
  query.executeStep();
  return phases_[std::move(text)] = {query.getColumn(0).getInt64(),
                                     static_cast<Side>(query.getColumn(1).getInt())};
}

TensorId Dictionary::tensor_id(std::string_view name) {
  std::string text(name);
  if (auto it = tensors_.find(text); it != tensors_.end()) return it->second;
  SQLite::Statement query(db_, "SELECT id, tensor_id FROM tensor_name WHERE name = ?");
  query.bind(1, text);
  if (!query.executeStep()) {
    int64_t id = db_.execAndGet("SELECT max(id) + 1 FROM tensor").getInt64();
    id = std::max(id, kFirstUnknownTensor);
    if (id > kMaxTensor) throw std::invalid_argument("more tensor names than a database can hold");
    SQLite::Statement tensor(
        db_, "INSERT INTO tensor(id, ord, name, stage) VALUES (?, ?, ?, 'unknown')");
    tensor.bind(1, id);
    tensor.bind(2, kFirstUnknownTensor);
    tensor.bind(3, text);
    tensor.exec();
    std::string cause = text + "_DRIFT";
    for (char& c : cause) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    SQLite::Statement insert(db_,
                             "INSERT INTO tensor_name(name, tensor_id, cause) VALUES (?, ?, ?)");
    insert.bind(1, text);
    insert.bind(2, id);
    insert.bind(3, cause);
    insert.exec();
    query.reset();
    query.executeStep();
  }
  return tensors_[std::move(text)] = {query.getColumn(0).getInt64(), query.getColumn(1).getInt64()};
}

}  // namespace greta
