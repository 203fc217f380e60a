// A run as its tools told it: rows and facts, which a test makes up, damages, and stores.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "db/run_records.h"
#include "db/trace_writer.h"
#include "tests/queries/warehouse.h"

namespace greta::harm {

struct ToldSketch {
  double sum_sq = 0;
  std::array<double, 32> bucket{};
  bool operator==(const ToldSketch&) const = default;
};

/// One row as it was written. What is empty was not.
struct ToldRow {
  std::string prompt = {}, phase = {}, tensor = {};
  int64_t layer = 0, pos = 0, step = 0;
  std::optional<int64_t> token = {}, n = {};
  std::optional<uint64_t> hash = {};
  std::optional<double> min = {}, max = {}, mean = {}, abs_sum = {};
  std::optional<int64_t> nan = {}, inf = {};
  std::vector<float> sample = {};
  std::optional<ToldSketch> sketch = {};  // of all n values
  bool nonfinite = false;                 // min was written as NaN
  bool claimed = false;                   // only a document states it
  int file = 0;                           // of the run's trace files
  bool operator==(const ToldRow&) const = default;
};

inline constexpr int kNoSide = 2;

/// The canonical name of a trace point.
std::string canonical(const std::string& tensor);
int side_of(const ToldRow& row);
bool demands_partner(const ToldRow& row);

/// Which pair a row belongs to.
struct Pairing {
  std::string prompt;
  int64_t pos, layer;
  std::string tensor;
  std::optional<int64_t> token;
  auto operator<=>(const Pairing&) const = default;
};
Pairing pairing_of(const ToldRow& row);

struct ToldPlan {
  std::string prompt;
  int side = 0;
  int64_t layer = 0;
  std::string tensor;
};

/// A document: rows of its table, and the verdict that it states, if it does.
struct ToldDocument {
  std::vector<ReportRow> table = {};
  std::string verdict = {};
};

struct ToldRun {
  std::vector<ToldRow> rows;  // as they arrive
  std::string hash_algo = "greta-1", status = "unknown";
  std::optional<std::string> dtype = {};
  std::vector<ToldPlan> plan = {};
  std::optional<int64_t> stated_rows = {};  // that it says it wrote
  std::vector<ToldDocument> documents = {};
  std::vector<std::string> rejected = {};  // lines that nobody can read
  bool ingest_open = false;
};

/// Stores runs by TraceWriter, but for an open ingest.
class Teller {
 public:
  explicit Teller(Warehouse& w);
  void tell(const std::string& name, const ToldRun& run);

 private:
  int64_t add_source(int64_t run_id, size_t nth);
  TraceRow row_of(int64_t run_id, const ToldRow& told, RowSketch& sketch);
  void tell_rows(int64_t run_id, const ToldRun& run);
  void tell_facts(int64_t run_id, const ToldRun& run);

  Warehouse& w_;
  TraceWriter writer_;
  RunRecords records_;
  SQLite::Statement source_, given_;
  std::vector<int64_t> sources_;  // of the run at hand: its files, then its documents
};

/// What an ingest leaves that has written to the run and has not ended.
void open_an_ingest(SQLite::Database& db, int64_t run_id);

/// All of a run, for whoever wants to see why a test fails.
std::string text_of(const ToldRun& run);

}  // namespace greta::harm
