// Any bytes are calls of the C API: none crashes, what is refused changes nothing, and what was
// taken is lines that the reader of the row format takes, or a sound database, of as many rows.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "db/check.h"
#include "db/database.h"
#include "include/greta_trace.h"
#include "ingest/record/parser.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s (%s)\n", what, greta_error_text());
  std::abort();
}

/// What the bytes say, one after the other; zeros behind them.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool is_over() const { return left_ == 0; }
  template <class T>
  T take() {
    T value{};
    const size_t n = left_ < sizeof value ? left_ : sizeof value;
    std::memcpy(&value, data_, n);
    data_ += n;
    left_ -= n;
    return value;
  }
  /// Up to 40 bytes, or none.
  const char* text(std::string& kept) {
    const auto n = take<uint8_t>();
    if (n > 200) return nullptr;
    kept.clear();
    for (int i = 0; i < n % 41; ++i) kept += static_cast<char>(take<uint8_t>());
    return kept.c_str();
  }
  /// Mostly small, now and then anything.
  int64_t number() {
    const auto kind = take<uint8_t>();
    return kind < 240 ? kind % 32 - 2 : take<int64_t>();
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

struct Texts {
  std::string a, b, c, d, e;
};

greta_row row_of(Input& in, Texts& t) {
  greta_row row = GRETA_ROW_INIT;
  const auto usual = in.take<uint8_t>();
  row.prompt = usual < 128 ? nullptr : in.text(t.a);
  row.tensor = usual % 2 == 0 ? "attn_out" : in.text(t.b);
  row.phase = static_cast<int32_t>(in.take<uint8_t>() % 6);
  row.layer = static_cast<int32_t>(in.number());
  row.pos_id = in.number();
  row.step = in.number();
  row.token_id = in.number();
  row.logical_tok_idx = in.number();
  row.route = usual % 3 == 0 ? nullptr : in.text(t.c);
  row.extra = usual % 5 == 0 ? in.text(t.d) : nullptr;
  // A size may be short; that so much memory is there is the caller's word.
  if (usual == 255) row.size = in.take<uint8_t>() % (sizeof row + 1);
  return row;
}

greta_dtype dtype_of(Input& in) { return static_cast<greta_dtype>(in.take<uint8_t>() & 3); }

/// Whether a call that adds rows or a plan is taken; `refused` if not.
bool is_taken(greta_status status, bool& refused) {
  refused |= status != GRETA_OK;
  return status == GRETA_OK;
}

/// One call; how many rows it added.
int64_t call(Input& in, greta_run* run, bool& refused) {
  Texts t;
  alignas(8) char values[64 + 1];
  const auto what = in.take<uint8_t>();
  if (what % 8 < 4) {
    const greta_row row = row_of(in, t);
    for (char& c : values) c = static_cast<char>(in.take<uint8_t>());
    const size_t n = in.take<uint8_t>() % 16, shift = what % 2;
    const size_t rows = in.take<uint8_t>() % 4;
    const greta_status status =
        what % 8 < 2 ? greta_run_add_values(run, &row, dtype_of(in), values + shift, n)
                     : greta_run_add_positions(run, &row, dtype_of(in), values + shift, rows, n / 4,
                                               n, nullptr);
    if (!is_taken(status, refused)) return 0;
    return what % 8 < 2 ? 1 : static_cast<int64_t>(rows);
  }
  if (what % 8 < 6) {
    const greta_row row = row_of(in, t);
    greta_fingerprint print = GRETA_FINGERPRINT_INIT;
    if (what % 2 == 0) print = in.take<greta_fingerprint>();
    const float value = in.take<float>();
    if (what % 2 == 1)
      require(greta_fingerprint_values(GRETA_F32, &value, 1, &print) == GRETA_OK, "");
    if (what < 128 || print.size > sizeof print) print.size = sizeof print;
    return is_taken(greta_run_add_fingerprint(run, &row, &print), refused) ? 1 : 0;
  }
  if (what % 8 == 6) {
    greta_prompt prompt = GRETA_PROMPT_INIT;
    const int32_t ids[] = {in.take<int32_t>(), 5, 7};
    prompt.name = in.text(t.a);
    prompt.token_ids = what < 64 ? nullptr : ids;
    prompt.n_tokens = 3;
    prompt.text_sha256 = in.text(t.b);
    greta_run_add_prompt(run, &prompt);
    return 0;
  }
  const greta_planned planned[] = {
      {in.take<uint8_t>() % 3, static_cast<int32_t>(in.number()), in.text(t.a)}};
  is_taken(greta_run_add_plan(run, in.text(t.b), planned, 1), refused);
  greta_run_add_attribute(run, in.text(t.c), in.text(t.d));
  return 0;
}

void check_lines(const std::string& path, int64_t rows) {
  std::ifstream file(path, std::ios::binary);
  greta::RecordParser parser(greta::RecordSource{});
  greta::RecordBatch batch;
  int64_t line_no = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t size = line.size();
    line.append(greta::RecordParser::kPaddingBytes, ' ');
    parser.parse({line.data(), size}, line.size(), ++line_no, batch);
  }
  parser.finish(batch);
  for (const greta::LineFinding& f : batch.findings) std::fprintf(stderr, "%s\n", f.reason.c_str());
  require(batch.findings.empty(), "the reader takes all lines");
  require(static_cast<int64_t>(batch.rows.size()) == rows, "as many rows as were taken");
}

/// A new one costs a hundred times what a run in it does.
void copy_empty_database(const std::string& path) {
  static const std::string empty = path + "_empty";
  if (!std::filesystem::exists(empty)) {
    greta::open_for_writing(empty);
    std::atexit([] { std::filesystem::remove(empty); });
  }
  std::filesystem::copy_file(empty, path);
}

void check_database_of(const std::string& path, int64_t rows) {
  SQLite::Database db = greta::open_for_reading(path);
  for (const std::string& problem : greta::check_database(db)) {
    std::fprintf(stderr, "%s\n", problem.c_str());
    require(false, "the database is sound");
  }
  const int64_t kept = db.execAndGet("SELECT count(*) FROM trace_row");
  const int64_t repeated = db.execAndGet("SELECT sum(duplicates) FROM source");
  require(kept + repeated == rows, "as many rows as were taken");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = "/dev/shm/greta_trace_fuzz_" + std::to_string(getpid());
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end);
  Input in(data, size);
  Texts t;
  greta_trace* trace = nullptr;
  greta_run* run = nullptr;
  const auto usual = in.take<uint8_t>();
  const greta_kind kind = usual % 16 == 15 ? GRETA_DATABASE : GRETA_JSONL;
  if (kind == GRETA_DATABASE) copy_empty_database(path);
  require(greta_trace_open(path.c_str(), kind, &trace) == GRETA_OK, "a file is opened");
  greta_run_info info = GRETA_RUN_INFO_INIT;
  info.experiment = usual < 200 ? "fuzz" : in.text(t.a);
  info.mode = usual % 4 == 0 ? in.text(t.b) : nullptr;
  info.commit = usual % 4 == 1 ? in.text(t.b) : nullptr;
  info.model_sha256 = usual % 8 == 2 ? in.text(t.b) : nullptr;
  info.run = usual % 8 == 3 ? in.text(t.c) : nullptr;
  info.date = usual % 8 == 4 ? in.text(t.c) : nullptr;
  info.seed = in.number();
  const char* facts[] = {in.text(t.d), in.text(t.e), nullptr};
  info.attributes = usual % 3 == 0 ? facts : nullptr;
  info.sample_values = usual % 5;
  int64_t rows = 0;
  const bool begun = greta_run_begin(trace, &info, &run) == GRETA_OK;
  require(begun == (run != nullptr), "a handle or an error");
  bool refused = false;
  while (begun && !in.is_over()) rows += call(in, run, refused);
  const greta_status end = refused ? GRETA_ERROR_REFUSED : GRETA_OK;
  if (begun) require(greta_run_end(run, GRETA_COMPLETE) == end, "a run ends");
  require(greta_trace_close(trace) == GRETA_OK, "a target closes");
  if (begun) kind == GRETA_DATABASE ? check_database_of(path, rows) : check_lines(path, rows);
  std::filesystem::remove(path);
  return 0;
}
