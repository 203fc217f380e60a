#include "cli/report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/sql_query.h"
#include "cli/verdict.h"
#include "db/database.h"

namespace greta {
namespace {

/// Order of rows of `pair` p with the row t of tensor: as the model computes them.
constexpr std::string_view kForwardOrder =
    "CASE WHEN t.stage = 'head' THEN 8191 WHEN p.layer >= 0 THEN p.layer"
    "     WHEN t.stage = 'embed' THEN 0 ELSE 8191 END, ifnull(t.id, 65535)";

/// Columns of run_verdict that a report shows.
constexpr std::string_view kColumns =
    "run, mode, commit_sha, date, evidence, verdict, numeric_verdict, coverage, pairs, pass, fail,"
    " missing, decode_only, incomparable, prompt, layer, tensor, pos_id, first_fail, root_cause,"
    " numeric_first_fail, numeric_prompt, numeric_layer, numeric_tensor, numeric_origin, rounding,"
    " divergent, unmeasured, unmet, status";

/// Rows of the first failing pair that are printed; only an ambiguous one has more than two.
constexpr int64_t kMaxEvidenceRows = 4;
constexpr size_t kMaxStem = 120;

// ---- Markdown ----

/// Text of a table cell: no name can end the cell, the row or begin markup.
std::string escaped(std::string_view text) {
  constexpr std::string_view kMarkup = "\\|<[*`~";
  std::string cell;
  for (char c : printable(text)) {
    if (kMarkup.find(c) != std::string_view::npos) cell += '\\';
    cell += c;
  }
  return cell;
}

/// Text inside `...`, of a heading or a sentence.
std::string in_code(std::string_view text) {
  std::string code = printable(text);
  std::replace(code.begin(), code.end(), '`', '\'');
  return code.empty() ? " " : code;
}

/// Text inside '...' of a shell command inside `...`.
std::string in_single_quotes(std::string_view text) {
  std::string quoted;
  for (char c : printable(text)) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  std::replace(quoted.begin(), quoted.end(), '`', '?');  // cannot be written inside `...`
  return quoted;
}

std::string number(int64_t value) { return std::to_string(value); }

std::string real(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string with_percent(int64_t count, int64_t total) {
  return total > 0 ? number(count) + " (" + percent_text(count, total) + ")" : number(count);
}

Value value_of(const Cell& cell) {
  switch (cell.type) {
    case Cell::Type::kNull:
      return nullptr;
    case Cell::Type::kInteger:
      return cell.integer;
    case Cell::Type::kReal:
      return cell.real;
    default:
      return std::string(cell.text);
  }
}

Value value_of(const std::optional<int64_t>& id) { return id ? Value(*id) : Value(nullptr); }

/// One text of a paragraph, with its values.
struct Sentence {
  const ReportText* text;
  TextValues values;

  Sentence(TextId id, TextValues v = {}) : text(&id.text()), values(std::move(v)) {}
  Sentence(const ReportText& t, TextValues v = {}) : text(&t), values(std::move(v)) {}
};

class MarkdownWriter {
 public:
  MarkdownWriter(const Wording& words, const TextSink& sink) : words_(words), sink_(sink) {}

  void line(std::string_view text = "") { sink_(std::string(text) + "\n"); }
  void heading(int level, const std::string& text) {
    line(std::string(static_cast<size_t>(level), '#') + " " + text);
    line();
  }
  void field(const std::string& label, const std::string& value) {
    line("**" + label + "**: " + value + "  ");
  }
  void table(const std::vector<std::string>& columns) {
    row(columns);
    std::string rule = "|";
    for (size_t i = 0; i < columns.size(); i++) rule += "---|";
    line(rule);
  }
  void row(const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += " " + cell + " |";
    line(text);
  }
  void fence(std::string_view language, const std::string& text) {
    line("```" + std::string(language));
    sink_(text);
    line("```");
    line();
  }

  /// A paragraph; in both languages, one each.
  void paragraph(const Sentence& sentence) {
    for (bool spanish : languages()) {
      line(text_of(sentence, spanish));
      line();
    }
  }
  /// A numbered list; in both languages, one each.
  void list(const std::vector<Sentence>& sentences) {
    for (bool spanish : languages()) {
      if (words_.language() == Language::kBoth) {
        line(spanish ? "**(ES)**" : "**(EN)**");
        line();
      }
      int item = 0;
      for (const Sentence& s : sentences) line(number(++item) + ". " + text_of(s, spanish));
      line();
    }
  }

 private:
  std::vector<bool> languages() const {
    if (words_.language() == Language::kBoth) return {false, true};
    return {words_.language() == Language::kSpanish};
  }
  static std::string text_of(const Sentence& sentence, bool spanish) {
    std::string_view text = spanish ? sentence.text->es : sentence.text->en;
    return fill_text(text, sentence.values);
  }

  const Wording& words_;
  const TextSink& sink_;
};

// ---- One run ----

/// What the views say about the first failing comparison of a run.
struct FirstFailure {
  std::string prompt, tensor, canonical, cause, status, row_class, origin, details, caused_by;
  std::string layer;  // as shown
  std::optional<int64_t> layer_id, pos_id;
  bool inputs_complete = false;
  std::string prefill_hash, decode_hash;
  std::optional<double> rel_l2, tolerance;
  bool found = false;  // the pair itself was found
};

/// A line of the propagation tree: every position of a tensor of a layer.
struct Node {
  std::string prompt, tensor, canonical, status, row_class, origin, caused_by;
  std::optional<int64_t> layer;
  int64_t positions = 0, with_status = 0;
};

class RunReport {
 public:
  RunReport(SQLite::Database& db, const Run& run, const Wording& words, MarkdownWriter& out,
            int level, bool modes_compared)
      : db_(db),
        run_(run),
        words_(words),
        out_(out),
        level_(level),
        query_(db, "SELECT " + std::string(kColumns) + " FROM run_verdict WHERE run_id = ?"),
        modes_compared_(modes_compared) {
    query_.bind(1, run.id);
    if (!query_.step()) throw std::logic_error("no verdict of run " + run.name);
    verdict_.emplace(query_);
    if (verdict().has("first_fail")) find_first_failure();
  }

  const RunVerdict& verdict() const { return *verdict_; }

  void write() {
    header();
    verdict_and_reason();
    summary();
    if (compared() > 0) breakdown();
    if (failure_) {
      first_failure();
      sample_evidence();
    }
    bool shows_tree = failure_ && has_failing_pair();
    if (shows_tree) propagation();
    if (failure_) analysis();
    kv_sections();
    lm_head();
    conflicts();
    recommendations();
    analysis_table();
  }

 private:
  int64_t compared() const { return verdict().number("pairs") + verdict().number("missing"); }
  bool has_failing_pair() const { return verdict().number("fail") > 0; }

  void section(TextId title, int below = 0) { out_.heading(level_ + below, words_(title)); }
  std::string show(const Cell& cell) const {
    return cell.type == Cell::Type::kNull ? words_("not_recorded") : escaped(display_text(cell));
  }
  std::string shown(const std::string& text) const {
    return text.empty() ? words_("not_recorded") : escaped(text);
  }

  // ---- header and verdict ----

  std::string evidence_text() {
    std::string kind = verdict().text("evidence");
    if (kind == "none") return words_("evidence.none");
    if (kind != "report") return words_("evidence.trace");
    Query file(db_,
               "SELECT min(l.path) FROM run_evidence e JOIN source_location l"
               " ON l.source_id = e.report_source_id WHERE e.run_id = ?");
    file.bind(1, run_.id).step();
    return words_("evidence.report", {shown(file.text(0))});
  }

  /// Every value that a source states of the run or of a level above it; "" when there is none.
  std::string attribute(const std::string& dim) {
    Query query(db_,
                "SELECT a.value FROM attribute a JOIN run r ON r.id = a.run_id, run x"
                " WHERE x.id = ?1 AND a.dim = ?2 AND (r.id = x.id OR substr(x.name, 1,"
                " length(r.name) + 1) = r.name || '/') GROUP BY a.value"
                " ORDER BY max(length(r.name)) DESC, min(a.rank)");
    query.bind(1, run_.id).bind(2, dim);
    std::string values;
    while (query.step()) values += (values.empty() ? "" : ", ") + query.text(0);
    return values;
  }

  void header() {
    out_.field(words_("run"), "`" + in_code(run_.name) + "`");
    out_.field(words_("date"), show(verdict().cell("date")));
    out_.field(words_("host"), shown(attribute("host")));
    out_.field(words_("run_mode"), show(verdict().cell("mode")));
    out_.field(words_("commit"), show(verdict().cell("commit_sha")));
    out_.field(words_("run_status"), verdict().text("status") == "unknown"
                                         ? words_("not_recorded")
                                         : show(verdict().cell("status")));
    out_.field(words_("evidence"), evidence_text());
    out_.line();
    out_.line("---");
    out_.line();
  }

  void verdict_and_reason() {
    std::string text = words_("verdict") + ": **" + verdict().show("verdict") + "**";
    if (verdict().has("root_cause")) {
      text += " + ROOT_CAUSE: **" + escaped(verdict().show("root_cause")) + "**";
    }
    out_.heading(level_, text);
    out_.paragraph(reason());
    if (compared() > 0) out_.paragraph(coverage());
  }

  Sentence reason() const {
    const RunVerdict& v = verdict();
    std::string name = v.text("verdict");
    if (name == "PASS") return {"reason.pass", {v.show("pairs")}};
    if (name == "FAIL" && v.number("missing") > 0)
      return {"reason.fail_missing", {v.show("missing")}};
    if (name == "FAIL") return {"reason.fail", {v.show("fail"), v.show("pairs")}};
    if (name == "INCOMPLETE" && v.number("unmet") > 0) return {"reason.unmet", {v.show("unmet")}};
    if (name == "INCOMPLETE") return {"reason.unfinished", {v.show("status")}};
    if (name == "INCOMPARABLE")
      return {"reason.incomparable", {v.show("incomparable"), v.show("pairs")}};
    if (v.text("evidence") == "none") return {"reason.none"};
    if (v.number("decode_only") > 0) return {"reason.decode_only", {v.show("decode_only")}};
    return {"reason.one_side"};
  }

  Sentence coverage() const {
    std::string name = verdict().text("coverage");
    if (name == "complete") return {"coverage.complete"};
    if (name == "sampled") return {"coverage.sampled"};
    if (name == "unmet") return {"coverage.unmet"};
    return {"coverage.undeclared"};
  }

  // ---- summary ----

  void summary() {
    const RunVerdict& v = verdict();
    section("summary");
    out_.table({words_("metric"), words_("value")});
    int64_t pairs = v.number("pairs"), fail = v.number("fail");
    auto add = [&](TextId label, const std::string& value) {
      out_.row({"**" + words_(label) + "**", value});
    };
    add("total_pairs", number(pairs));
    add("pass", with_percent(v.number("pass"), pairs));
    add("fail", with_percent(fail, pairs));
    if (fail > 0) {
      out_.row({words_("rounding"), v.show("rounding")});
      out_.row({words_("divergent"), v.show("divergent")});
      out_.row({words_("unmeasured"), v.show("unmeasured")});
    }
    if (v.number("incomparable") > 0) add("incomparable", v.show("incomparable"));
    add("missing", v.show("missing"));
    if (v.number("decode_only") > 0) add("decode_only", v.show("decode_only"));
    if (v.number("unmet") > 0) add("unmet", v.show("unmet"));
    add("numeric_verdict", v.show("numeric_verdict"));
    add("coverage", v.show("coverage"));
    out_.line();
  }

  void breakdown() {
    section("breakdown");
    Query rows(db_, "SELECT cause, count FROM failure_breakdown WHERE run_id = ?");
    rows.bind(1, run_.id);
    bool any = false;
    while (rows.step()) {
      if (!any) out_.table({words_("cause"), words_("count"), words_("percentage")});
      any = true;
      out_.row(
          {show(rows.cell(0)), number(rows.integer(1)), percent_text(rows.integer(1), compared())});
    }
    if (any) out_.line();
    if (any) {
      out_.paragraph({"breakdown.of", {number(compared())}});
    } else {
      out_.paragraph({"breakdown.none"});
    }
  }

  // ---- first failure ----

  void find_first_failure() {
    const RunVerdict& v = verdict();
    failure_.emplace();
    FirstFailure& f = *failure_;
    f.prompt = v.text("prompt");
    f.tensor = v.has("tensor") ? v.text("tensor") : words_("tensor.none");
    f.cause = v.text("first_fail");
    f.layer = v.has("layer") ? number(v.number("layer")) : words_("not_recorded");
    if (v.has("layer")) f.layer_id = v.number("layer");
    if (v.has("pos_id")) f.pos_id = v.number("pos_id");
    Query pair(db_,
               "SELECT canonical_tensor, status, class, origin, inputs_complete, prefill_hash,"
               " decode_hash, rel_l2, tolerance, details, caused_by FROM pair WHERE run_id = ?1"
               " AND prompt = ?2 AND layer IS ?3 AND tensor IS ?4 AND pos_id IS ?5"
               " AND status NOT IN ('MATCH', 'DECODE_ONLY', 'INCOMPARABLE') LIMIT 1");
    pair.bind(1, run_.id);
    int parameter = 2;
    for (const char* key : {"prompt", "layer", "tensor", "pos_id"}) {
      pair.bind(parameter++, value_of(v.cell(key)));
    }
    f.found = pair.step();
    if (!f.found) return;
    std::string* texts[] = {&f.canonical, &f.status, &f.row_class, &f.origin};
    for (int i = 0; i < 4; i++) *texts[i] = pair.text(i);
    f.inputs_complete = pair.integer(4) != 0;
    f.prefill_hash = pair.text(5);
    f.decode_hash = pair.text(6);
    if (!pair.is_null(7)) f.rel_l2 = pair.cell(7).real;
    if (!pair.is_null(8)) f.tolerance = pair.cell(8).real;
    f.details = pair.text(9);
    f.caused_by = pair.text(10);
  }

  /// Rows of both sides at the first failure's key; bound and ready to step.
  std::unique_ptr<Query> evidence_rows() {
    auto rows = std::make_unique<Query>(
        db_,
        "SELECT prompt AS prompt_id, phase, tensor AS point, layer, step, pos_id, seq_len,"
        " token_id,"
        " logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, route,"
        " source_file,"
        " source_line, side FROM trace WHERE run_id = ?1 AND prompt = ?2 AND pos_id = ?3"
        " AND layer = ?4 AND canonical_tensor = ?5 AND side IN ('prefill', 'decode')"
        " ORDER BY side DESC, step, occurrence LIMIT ?6");
    const FirstFailure& f = *failure_;
    rows->bind(1, run_.id).bind(2, f.prompt).bind(5, f.canonical).bind(6, kMaxEvidenceRows);
    rows->bind(3, value_of(f.pos_id));
    rows->bind(4, value_of(f.layer_id));
    return rows;
  }

  void first_failure() {
    const FirstFailure& f = *failure_;
    section("first_failure");
    out_.field(words_("location"),
               words_("location.text", {in_code(f.tensor), f.layer, in_code(f.prompt)}));
    out_.line();
    side_table();
    out_.field(words_("root_cause"), show(verdict().cell("root_cause")) + " - " + escaped(f.cause));
    if (!f.details.empty()) out_.field(words_("details"), escaped(f.details));
    out_.line();
    by_prompt();
  }

  void side_table() {
    const FirstFailure& f = *failure_;
    std::map<std::string, std::map<std::string, std::string>> sides;  // side -> column -> value
    auto rows = evidence_rows();
    std::vector<std::string> names = rows->column_names();
    while (rows->step()) {
      auto& columns = sides[rows->text(21)];
      if (!columns.empty()) continue;
      for (int i = 0; i < rows->columns(); i++) {
        if (!rows->is_null(i)) columns[names[static_cast<size_t>(i)]] = display_text(rows->cell(i));
      }
    }
    bool trace = verdict().text("evidence") == "trace";
    auto value = [&](const char* side, const char* column) {
      if (trace && sides[side].empty()) return words_("no_partner");
      return shown(sides[side][column]);
    };
    auto title = [&](const char* side, TextId with_step, TextId without) {
      auto step = sides[side].find("step");
      return step == sides[side].end() ? words_(without) : words_(with_step, {step->second});
    };
    out_.table({words_("metric"), title("prefill", "prefill_step", "prefill"),
                title("decode", "decode_step", "decode")});
    auto add = [&](const std::string& label, const std::string& prefill,
                   const std::string& decode) {
      out_.row({"**" + label + "**", prefill, decode});
    };
    add(words_("hash"), value("prefill", "hash"), value("decode", "hash"));
    for (const char* key : {"n", "min", "max", "mean"}) {
      if (sides["prefill"].count(key) + sides["decode"].count(key) == 0) continue;
      add(key, value("prefill", key), value("decode", key));
    }
    add(words_("match"), words_("no"), words_("no"));
    if (f.rel_l2) {
      std::string size = real(*f.rel_l2, "%.3g");
      if (f.tolerance) size += " (" + words_("tolerance") + " " + real(*f.tolerance, "%.3g") + ")";
      add(words_("rel_l2"), size, size);
    }
    out_.line();
  }

  void by_prompt() {
    Query rows(
        db_,
        "SELECT prompt, pos_id, layer, tensor, first_fail, first_drift_cause, first_drift_layer,"
        " first_drift_tensor, numeric_first_fail, numeric_layer, numeric_tensor, details"
        " FROM first_fail WHERE run_id = ? ORDER BY prompt_id");
    rows.bind(1, run_.id);
    section("by_prompt", 1);
    out_.table({words_("prompt"), words_("position"), words_("layer"), words_("tensor"),
                words_("cause_of"), words_("first_drift"), words_("beyond_rounding"),
                words_("details")});
    auto place = [&](int cause) {
      if (rows.is_null(cause)) return std::string("-");
      return escaped(rows.text(cause)) + " (" + words_("layer") + " " + show(rows.cell(cause + 1)) +
             ", " + show(rows.cell(cause + 2)) + ")";
    };
    while (rows.step()) {
      out_.row({show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)), show(rows.cell(3)),
                show(rows.cell(4)), place(5), place(8), show(rows.cell(11))});
    }
    out_.line();
  }

  void sample_evidence() {
    section("sample_evidence");
    if (verdict().text("evidence") != "trace") {
      out_.paragraph({"sample_evidence.report"});
      return;
    }
    auto rows = evidence_rows();
    std::vector<std::string> names = rows->column_names();
    std::set<std::string> sides;
    while (rows->step()) {
      sides.insert(rows->text(21));
      out_.heading(level_ + 1, escaped(rows->text(1)) + " - " + escaped(rows->text(2)) + ", " +
                                   words_("layer") + " " + show(rows->cell(3)) + " (" +
                                   escaped(rows->text(0)) + ")");
      out_.fence("json", json_of_row(*rows, names));
    }
    if (sides.size() == 1) where_the_other_side_is(*sides.begin());
  }

  /// The row as a tool would have written it, without what it does not have.
  static std::string json_of_row(const Query& row, const std::vector<std::string>& names) {
    std::string text = "{\n  \"event\": \"stage_trace\"";
    for (int i = 0; i + 1 < row.columns(); i++) {  // the last column is the side
      if (row.is_null(i)) continue;
      const std::string& name = names[static_cast<size_t>(i)];
      text += ",\n  \"" + name + "\": ";
      if (name == "hash") {
        text += row.text(i);  // unsigned: greater than a signed cell can hold
      } else {
        append_json(text, row.cell(i));
      }
    }
    return text + "\n}\n";
  }

  void where_the_other_side_is(const std::string& side) {
    out_.paragraph({"sample_evidence.one_side"});
    Query positions(db_,
                    "SELECT min(pos_id), max(pos_id) FROM trace WHERE run_id = ?1 AND prompt = ?2"
                    " AND layer = ?3 AND canonical_tensor = ?4 AND side = ?5");
    positions.bind(1, run_.id).bind(2, failure_->prompt).bind(4, failure_->canonical);
    positions.bind(3, value_of(failure_->layer_id));
    positions.bind(5, std::string(side == "prefill" ? "decode" : "prefill"));
    if (!positions.step() || positions.is_null(0)) return;
    out_.paragraph({"sample_evidence.elsewhere",
                    {number(positions.integer(0)), number(positions.integer(1))}});
  }

  // ---- propagation ----

  void load_nodes() {
    Query rows(
        db_,
        "SELECT p.prompt, p.layer, p.tensor, t.name, count(*),"
        "  sum(p.status = 'DRIFT'), sum(p.status = 'NONFINITE'), sum(p.status = 'AMBIGUOUS'),"
        "  sum(p.status = 'MISSING'), sum(p.status = 'INCOMPARABLE'),"
        "  max(CASE p.class WHEN 'DIVERGENT' THEN 3 WHEN 'UNKNOWN' THEN 2 WHEN 'ROUNDING' THEN 1"
        " END),"
        "  max(CASE p.origin WHEN 'ORIGIN' THEN 3 WHEN 'UNSAMPLED' THEN 2 WHEN 'PROPAGATED' THEN 1"
        " END),"
        "  min(p.caused_by), sum(p.origin = 'ORIGIN'), sum(p.origin = 'PROPAGATED'),"
        "  sum(p.origin = 'UNSAMPLED')"
        " FROM propagation p LEFT JOIN tensor_name m ON m.name = p.tensor"
        " LEFT JOIN tensor t ON t.id = m.tensor_id"
        " LEFT JOIN prompt q ON q.run_id = p.run_id AND q.name = p.prompt"
        " WHERE p.run_id = ? AND p.status <> 'DECODE_ONLY'"
        " GROUP BY q.id, p.layer, p.tensor ORDER BY q.id, " +
            std::string(kForwardOrder));
    rows.bind(1, run_.id);
    constexpr const char* kStatus[] = {"DRIFT", "NONFINITE", "AMBIGUOUS", "MISSING",
                                       "INCOMPARABLE"};
    constexpr const char* kClass[] = {"", "ROUNDING", "UNKNOWN", "DIVERGENT"};
    constexpr const char* kOrigin[] = {"", "PROPAGATED", "UNSAMPLED", "ORIGIN"};
    while (rows.step()) {
      Node node;
      node.prompt = rows.text(0);
      node.tensor = rows.text(2);
      node.canonical = rows.text(3);
      if (!rows.is_null(1)) node.layer = rows.integer(1);
      node.positions = node.with_status = rows.integer(4);
      node.status = "MATCH";
      for (int i = 4; i >= 0; i--) {
        if (rows.integer(5 + i) == 0) continue;
        node.status = kStatus[i];
        node.with_status = rows.integer(5 + i);
      }
      node.row_class = kClass[rows.integer(10)];
      node.origin = kOrigin[rows.integer(11)];
      node.caused_by = rows.text(12);
      origins_ += rows.integer(13);
      propagated_ += rows.integer(14);
      unsampled_ += rows.integer(15);
      if (node.layer) written_[{node.prompt, number(*node.layer), node.canonical}] = node.tensor;
      nodes_.push_back(std::move(node));
    }
  }

  /// Where a propagated drift comes from, told relative to its own layer, so that layers that
  /// behave alike read alike. `from` is canonical-tensor@layer.
  std::string source_of(const Node& node, const std::string& from,
                        std::optional<int64_t> previous) {
    size_t at = from.rfind('@');
    if (at == std::string::npos) return words_("tree.propagated");
    std::string tensor = from.substr(0, at), layer = from.substr(at + 1);
    auto named = written_.find({node.prompt, layer, tensor});
    if (named != written_.end()) tensor = named->second;
    tensor = printable(tensor);
    if (node.layer && layer == number(*node.layer)) return words_("tree.from_same", {tensor});
    if (previous && layer == number(*previous)) return words_("tree.from_previous", {tensor});
    return words_("tree.from_layer", {tensor, layer});
  }

  std::string node_text(const Node& node, std::optional<int64_t> previous) {
    std::string name = node.tensor.empty() ? words_("tensor.none") : printable(node.tensor);
    bool match = node.status == "MATCH", undecided = node.status == "INCOMPARABLE";
    std::string text = name + (match ? ": ✓ " : undecided ? ": ? " : ": ✗ ") + node.status;
    if (node.status == "DRIFT" && node.row_class != "UNKNOWN" && !node.row_class.empty()) {
      text += " " + node.row_class;
    }
    std::string why = match                         ? words_("tree.identical")
                      : undecided                   ? words_("tree.undecided")
                      : node.status == "MISSING"    ? words_("tree.missing")
                      : node.origin == "ORIGIN"     ? words_("tree.origin")
                      : node.origin == "PROPAGATED" ? source_of(node, node.caused_by, previous)
                                                    : words_("tree.unsampled");
    text += " (" + why + ")";
    if (node.with_status < node.positions) {
      text += ", " + words_("tree.positions", {number(node.with_status), number(node.positions)});
    }
    return text;
  }

  /// The tree of nodes [first, last), one prompt's: layers that read alike are one branch.
  std::string tree(size_t first, size_t last) {
    std::vector<std::pair<std::vector<std::string>, std::string>> branches;  // layers, body
    std::optional<int64_t> previous;
    for (size_t i = first; i < last;) {
      size_t end = i;
      while (end < last && nodes_[end].layer == nodes_[i].layer) end++;
      std::string body;
      for (size_t n = i; n < end; n++) {
        body += (n + 1 == end ? "  └── " : "  ├── ") + node_text(nodes_[n], previous) + "\n";
      }
      std::string layer = nodes_[i].layer ? number(*nodes_[i].layer) : "";
      if (!branches.empty() && branches.back().second == body && !layer.empty()) {
        branches.back().first.push_back(layer);
      } else {
        branches.push_back({{layer}, body});
      }
      if (nodes_[i].layer) previous = nodes_[i].layer;
      i = end;
    }
    std::string text;
    for (const auto& [layers, body] : branches) {
      std::string names = layers[0];
      for (size_t i = 1; i < layers.size(); i++) names += ", " + layers[i];
      if (!text.empty()) text += "\n";
      text += names.empty()
                  ? words_("layer.none")
                  : words_(layers.size() > 1 ? TextId("layers") : TextId("layer")) + " " + names;
      text += ":\n" + body;
    }
    return text;
  }

  void propagation() {
    load_nodes();
    section("propagation");
    std::vector<std::pair<std::string, std::string>> trees;  // tree, its prompts
    for (size_t i = 0; i < nodes_.size();) {
      size_t end = i;
      while (end < nodes_.size() && nodes_[end].prompt == nodes_[i].prompt) end++;
      std::string text = tree(i, end), prompt = "`" + in_code(nodes_[i].prompt) + "`";
      auto same =
          std::find_if(trees.begin(), trees.end(), [&](auto& t) { return t.first == text; });
      if (same == trees.end()) {
        trees.emplace_back(text, prompt);
      } else {
        same->second += ", " + prompt;
      }
      i = end;
    }
    for (const auto& [text, prompts] : trees) {
      out_.field(words_("prompt"), prompts);
      out_.line();
      out_.fence("", text);
    }
  }

  // ---- root cause and recommendations ----

  void analysis() {
    const FirstFailure& f = *failure_;
    const RunVerdict& v = verdict();
    std::vector<Sentence> items;
    items.push_back(
        {"analysis.first", {in_code(f.tensor), f.layer, in_code(f.prompt), in_code(f.cause)}});
    std::string root = v.text("root_cause");
    const ReportText* meaning = find_report_text("analysis." + root);
    items.push_back(!root.empty() && meaning ? Sentence(*meaning) : Sentence("analysis.other"));
    if (const ReportText* stage = find_report_text("stage." + f.cause)) items.push_back(*stage);
    add_origin(items);
    add_magnitude(items);
    if (v.number("missing") > 0) add_drift_behind(items);
    if (has_failing_pair()) add_spread(items);
    add_numeric(items);
    section("analysis");
    out_.list(items);
  }

  void add_origin(std::vector<Sentence>& items) const {
    const FirstFailure& f = *failure_;
    if (f.origin == "ORIGIN") {
      items.push_back({"analysis.origin"});
      const Node* before = f.inputs_complete ? nullptr : last_match_before();
      if (before && before->layer) {
        items.push_back({"analysis.after", {in_code(before->tensor), number(*before->layer)}});
      }
    } else if (f.origin == "PROPAGATED") {
      items.push_back({"analysis.propagated", {in_code(f.caused_by)}});
    } else if (f.origin == "UNSAMPLED") {
      items.push_back({"analysis.unsampled"});
    }
  }

  const Node* last_match_before() const {
    const Node* match = nullptr;
    for (const Node& node : nodes_) {
      if (node.prompt != failure_->prompt) continue;
      if (node.tensor == failure_->tensor && node.layer == failure_->layer_id) return match;
      if (node.status == "MATCH") match = &node;
    }
    return nullptr;
  }

  void add_magnitude(std::vector<Sentence>& items) const {
    const FirstFailure& f = *failure_;
    std::string size = f.rel_l2 ? real(*f.rel_l2, "%.3g") : words_("not_recorded");
    std::string tolerance = f.tolerance ? real(*f.tolerance, "%.3g") : words_("not_recorded");
    if (f.status == "NONFINITE") items.push_back({"analysis.nonfinite", {in_code(f.details)}});
    if (f.row_class == "ROUNDING") items.push_back({"analysis.rounding", {size, tolerance}});
    if (f.row_class == "DIVERGENT") items.push_back({"analysis.divergent", {size, tolerance}});
    if (f.row_class == "UNKNOWN") items.push_back({"analysis.unmeasured"});
  }

  /// Missing rows come first in the verdict; what differs all the same is not hidden by them.
  void add_drift_behind(std::vector<Sentence>& items) {
    Query drift(
        db_,
        "SELECT first_drift_tensor, first_drift_layer, prompt, first_drift_cause FROM first_fail"
        " WHERE run_id = ? AND first_drift_cause IS NOT NULL ORDER BY prompt_id LIMIT 1");
    drift.bind(1, run_.id);
    if (!drift.step()) return;
    items.push_back({"analysis.drift_behind",
                     {in_code(drift.text(0)), show(drift.cell(1)), in_code(drift.text(2)),
                      in_code(drift.text(3))}});
  }

  void add_spread(std::vector<Sentence>& items) const {
    items.push_back({"analysis.spread",
                     {number(origins_ + propagated_ + unsampled_), number(origins_),
                      number(propagated_), number(unsampled_)}});
  }

  void add_numeric(std::vector<Sentence>& items) const {
    const RunVerdict& v = verdict();
    if (v.text("numeric_verdict") == "PASS") items.push_back({"analysis.numeric_pass"});
    if (!v.has("numeric_first_fail")) return;
    items.push_back({"analysis.numeric_first",
                     {in_code(v.text("numeric_tensor")), show(v.cell("numeric_layer")),
                      in_code(v.text("numeric_prompt")), in_code(v.text("numeric_first_fail")),
                      in_code(v.text("numeric_origin"))}});
  }

  void recommendations() {
    std::vector<Sentence> items;
    const RunVerdict& v = verdict();
    if (failure_) {
      bool elsewhere =
          v.has("numeric_first_fail") && (v.text("numeric_tensor") != v.text("tensor") ||
                                          v.number("numeric_layer") != v.number("layer"));
      if (elsewhere) {
        items.push_back({"advice.numeric_first",
                         {in_code(v.text("numeric_tensor")), show(v.cell("numeric_layer"))}});
      }
      if (v.text("numeric_verdict") == "PASS") items.push_back({"advice.all_rounding"});
      add_inputs_to_trace(items);
      if (v.number("unmeasured") > 0) items.push_back({"advice.measure"});
    }
    add_topic(items, advice_topic());
    if (v.text("root_cause") == "ATTENTION_COMPUTATION_MISMATCH") {
      if (!has_kv_rows_) items.push_back({"advice.trace_kv"});
      if (!modes_compared_) items.push_back({"advice.both_modes"});
    }
    section("advice");
    out_.list(items);
  }

  /// advice.TOPIC.N: by the stage that a cause names, else by root cause; without a failure, by
  /// verdict.
  std::string advice_topic() const {
    static const std::map<std::string, std::string, std::less<>> kStages = {
        {"Q_PRE_ROPE_DRIFT", "PROJECTION"}, {"K_PRE_ROPE_DRIFT", "PROJECTION"},
        {"V_PROJ_DRIFT", "PROJECTION"},     {"ROPE_DRIFT", "ROPE"},
        {"K_ROPE_DRIFT", "ROPE"},           {"Q_POST_ROPE_DRIFT", "ROPE"},
        {"K_POST_ROPE_DRIFT", "ROPE"},      {"K_CACHE_DRIFT", "CACHE"},
        {"V_CACHE_DRIFT", "CACHE"},         {"ATTN_SCORES_DRIFT", "SOFTMAX"},
        {"ATTN_PROBS_DRIFT", "SOFTMAX"}};
    std::string name = verdict().text("verdict");
    if (name != "FAIL") return name;
    auto stage = kStages.find(verdict().text("first_fail"));
    std::string topic = stage == kStages.end() ? verdict().text("root_cause") : stage->second;
    return find_report_text("advice." + topic + ".1") ? topic : "other";
  }

  void add_topic(std::vector<Sentence>& items, const std::string& topic) const {
    for (int i = 1;; i++) {
      const ReportText* text = find_report_text("advice." + topic + "." + number(i));
      if (!text) return;
      items.push_back({*text, {in_single_quotes(run_.name)}});
    }
  }

  /// The inputs that were not traced, where that leaves the origin open.
  void add_inputs_to_trace(std::vector<Sentence>& items) {
    const FirstFailure& f = *failure_;
    if (!f.found || f.inputs_complete || f.origin.empty()) return;
    Query inputs(db_,
                 "SELECT i.name, CASE g.layer WHEN 'same' THEN ?2 ELSE ?2 - 1 END FROM edge g"
                 " JOIN tensor i ON i.id = g.from_id JOIN tensor o ON o.id = g.to_id"
                 " WHERE o.name = ?1 AND g.kind <> 'weight' AND (g.layer = 'same' OR ?2 > 0)"
                 " ORDER BY i.id");
    inputs.bind(1, f.canonical).bind(2, value_of(f.layer_id));
    std::string names;
    while (inputs.step()) {
      bool traced = std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
        return node.prompt == f.prompt && node.canonical == inputs.text(0) &&
               node.layer == inputs.integer(1);
      });
      if (!traced) names += (names.empty() ? "`" : ", `") + inputs.text(0) + "`";
    }
    if (names.empty()) return;
    items.push_back({"advice.trace_inputs", {in_code(f.tensor), f.layer, names}});
  }

  // ---- K and V ----

  void kv_sections() {
    Query total(db_, "SELECT count(*) FROM kv_alignment WHERE run_id = ?");
    total.bind(1, run_.id).step();
    has_kv_rows_ = total.integer(0) > 0;
    if (!has_kv_rows_) return;
    kv_indicators();
    kv_layers();
    kv_hashes();
    score_statistics();
    interpretation_guide(total.integer(0));
  }

  std::string match_count(int64_t matching, int64_t known) const {
    return known == 0 ? words_("not_comparable")
                      : words_("kv.of", {number(matching), number(known)});
  }

  void kv_indicators() {
    Query sums(db_,
               "SELECT sum(k_match), count(k_match), sum(v_match), count(v_match), sum(kv_aligned),"
               " count(kv_aligned), sum(cache_match), count(cache_match) FROM kv_alignment WHERE"
               " run_id = ?");
    sums.bind(1, run_.id).step();
    section("kv");
    out_.table({words_("kv.indicator"), words_("kv.observed"), words_("kv.if_structural"),
                words_("kv.if_bug")});
    auto observed = [&](int column) {
      return match_count(sums.integer(column), sums.integer(column + 1));
    };
    out_.row({words_("kv.k"), observed(0), words_("kv.may_vary"), words_("kv.consistent")});
    out_.row({words_("kv.v"), observed(2), words_("kv.may_vary"), words_("kv.consistent")});
    out_.row({words_("kv.aligned"), observed(4), words_("kv.false"), words_("kv.true")});
    out_.row({words_("kv.cache"), observed(6), words_("kv.cache_required"),
              words_("kv.cache_required")});
    out_.line();
  }

  void kv_layers() {
    Query rows(
        db_,
        "SELECT layer, count(DISTINCT prompt), sum(k_match), count(k_match), sum(v_match),"
        " count(v_match), sum(q_match), count(q_match), sum(cache_match), count(cache_match),"
        " group_concat(DISTINCT interpretation), sum(status = 'PASS'), count(*)"
        " FROM kv_alignment WHERE run_id = ? GROUP BY layer ORDER BY layer");
    rows.bind(1, run_.id);
    section("kv.per_layer", 1);
    out_.paragraph({"kv.per_layer.text"});
    out_.table({words_("layer"), words_("kv.prompts"), "K", "V", "Q", words_("kv.cache_column"),
                words_("kv.consistency"), words_("guide.interpretation"), words_("kv.status")});
    while (rows.step()) {
      auto matches = [&](int column) {
        return match_count(rows.integer(column), rows.integer(column + 1));
      };
      int64_t all = rows.integer(12), pass = rows.integer(11);
      auto agrees = [&](int column) {
        return rows.integer(column + 1) == all &&
               (rows.integer(column) == 0 || rows.integer(column) == all);
      };
      bool known = rows.integer(3) == all && rows.integer(5) == all;
      std::string status = pass == all ? "PASS" : "KV_MISMATCH";
      if (pass > 0 && pass < all) status += " (" + number(all - pass) + "/" + number(all) + ")";
      out_.row({number(rows.integer(0)), number(rows.integer(1)), matches(2), matches(4),
                matches(6), matches(8),
                !known                   ? words_("not_comparable")
                : agrees(2) && agrees(4) ? words_("kv.yes")
                                         : words_("kv.varies"),
                show(rows.cell(10)), status});
    }
    out_.line();
  }

  void kv_hashes() {
    Query rows(db_,
               "SELECT p.layer, p.prompt, p.pos_id, p.tensor, p.prefill_hash, p.decode_hash,"
               " p.status, p.class"
               " FROM pair p JOIN tensor t ON t.id = p.tensor_id WHERE p.run_id = ? AND t.name IN"
               " ('q_post_rope', 'k_post_rope', 'v_proj', 'k_cache', 'v_cache')"
               " ORDER BY p.layer, p.prompt_id, p.pos_id, t.id");
    rows.bind(1, run_.id);
    section("kv.hashes", 1);
    out_.table({words_("layer"), words_("prompt"), words_("position"), words_("tensor"),
                words_("prefill"), words_("decode"), words_("kv.status")});
    while (rows.step()) {
      std::string status = rows.text(6);
      if (!rows.is_null(7)) status += " " + rows.text(7);
      out_.row({show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)), show(rows.cell(3)),
                show(rows.cell(4)), show(rows.cell(5)), status});
    }
    out_.line();
  }

  void score_statistics() {
    Query rows(db_,
               "SELECT t.layer, t.prompt, t.pos_id, t.canonical_tensor, t.phase, t.n, t.min, t.max,"
               " t.mean, t.nan, t.inf FROM trace t WHERE t.run_id = ? AND t.canonical_tensor IN"
               " ('attn_scores', 'attn_probs') AND t.side IN ('prefill', 'decode')"
               " ORDER BY t.layer, t.prompt_id, t.pos_id, t.canonical_tensor DESC, t.side DESC");
    rows.bind(1, run_.id);
    section("scores");
    bool any = false;
    while (rows.step()) {
      if (!any) {
        out_.table({words_("layer"), words_("prompt"), words_("position"), words_("scores.stage"),
                    words_("phase"), "n", "min", "max", "mean", "nan", "inf"});
      }
      any = true;
      std::vector<std::string> cells = {
          show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)),
          rows.text(3) == "attn_scores" ? words_("scores.pre") : words_("scores.post")};
      for (int i = 4; i < rows.columns(); i++) cells.push_back(show(rows.cell(i)));
      out_.row(cells);
    }
    if (any) {
      out_.line();
    } else {
      out_.paragraph({"scores.none"});
    }
  }

  void interpretation_guide(int64_t total) {
    std::map<std::string, int64_t> counts;
    Query rows(db_,
               "SELECT interpretation, count(*) FROM kv_alignment WHERE run_id = ? GROUP BY 1");
    rows.bind(1, run_.id);
    while (rows.step()) counts[rows.text(0)] = rows.integer(1);
    section("guide");
    out_.table({words_("guide.scenario"), words_("guide.evidence"), words_("guide.interpretation"),
                words_("guide.here")});
    auto add = [&](const char* name, TextId title, TextId evidence, TextId meaning) {
      int64_t count = counts[name];
      out_.row({"**" + words_(title) + "**", words_(evidence), words_(meaning),
                count ? "**" + words_("guide.holds", {number(count), number(total)}) + "**" : "-"});
    };
    add("STRUCTURAL_DRIFT", "guide.STRUCTURAL_DRIFT", "guide.STRUCTURAL_DRIFT.evidence",
        "guide.STRUCTURAL_DRIFT.meaning");
    add("REAL_MISMATCH", "guide.REAL_MISMATCH", "guide.REAL_MISMATCH.evidence",
        "guide.REAL_MISMATCH.meaning");
    add("KV_MISALIGNMENT", "guide.KV_MISALIGNMENT", "guide.KV_MISALIGNMENT.evidence",
        "guide.KV_MISALIGNMENT.meaning");
    add("Q_MISMATCH", "guide.Q_MISMATCH", "guide.Q_MISMATCH.evidence", "guide.Q_MISMATCH.meaning");
    add("ALIGNED", "guide.ALIGNED", "guide.ALIGNED.evidence", "guide.ALIGNED.meaning");
    add("UNKNOWN", "guide.UNKNOWN", "guide.UNKNOWN.evidence", "guide.UNKNOWN.meaning");
    out_.line();
    first_interpretation();
    hypothesis(counts, total);
  }

  void first_interpretation() {
    Query first(db_,
                "SELECT a.interpretation, a.layer, a.prompt FROM kv_alignment a LEFT JOIN prompt q"
                " ON q.run_id = a.run_id AND q.name = a.prompt WHERE a.run_id = ?"
                " AND a.interpretation <> 'ALIGNED' ORDER BY a.layer, q.id, a.pos_id LIMIT 1");
    first.bind(1, run_.id);
    if (first.step()) {
      out_.paragraph({"guide.first", {first.text(0), show(first.cell(1)), in_code(first.text(2))}});
    } else {
      out_.paragraph({"guide.all_aligned"});
    }
  }

  void hypothesis(std::map<std::string, int64_t>& counts, int64_t total) {
    int64_t against = counts["REAL_MISMATCH"] + counts["KV_MISALIGNMENT"] + counts["Q_MISMATCH"];
    section("hypothesis", 1);
    out_.paragraph({"hypothesis.h0"});
    out_.paragraph({"hypothesis.h1"});
    if (against > 0) {
      out_.paragraph({"hypothesis.rejected", {number(against), number(total)}});
    } else if (counts["UNKNOWN"] > 0) {
      out_.paragraph({"hypothesis.undecided", {number(counts["UNKNOWN"]), number(total)}});
    } else {
      out_.paragraph({"hypothesis.kept", {number(total)}});
    }
    if (verdict().text("mode") != "kv_aligned") return;
    Query cache(db_, "SELECT count(*) FROM kv_alignment WHERE run_id = ? AND status <> 'PASS'");
    cache.bind(1, run_.id).step();
    if (cache.integer(0) > 0) {
      out_.paragraph({"hypothesis.cache", {number(cache.integer(0)), number(total)}});
    }
  }

  // ---- LM head, documents ----

  std::string yes_no(const Cell& cell) const {
    if (cell.type == Cell::Type::kNull) return words_("not_recorded");
    return cell.integer ? words_("yes") : words_("not");
  }

  void lm_head() {
    Query rows(
        db_,
        "SELECT prompt, prefill_top1, decode_top1, prefill_gap, decode_gap, prefill_route,"
        " decode_route, cpu_probe_agrees_prefill, cpu_probe_agrees_decode, suspect, prefill_pos_id,"
        " decode_pos_id FROM lm_head_delta WHERE run_id = ?");
    rows.bind(1, run_.id);
    std::map<std::string, int64_t> suspects;
    int64_t prompts = 0, probed = 0;
    auto gap = [&](int column) {
      return rows.is_null(column) ? words_("not_recorded") : real(rows.cell(column).real, "%.4f");
    };
    while (rows.step()) {
      if (prompts++ == 0) {
        section("lm_head");
        out_.table({words_("prompt"), "prefill_last top1", "decode0 top1", "gap prefill",
                    "gap decode0", words_("lm_head.routes"), words_("lm_head.cpu"),
                    words_("lm_head.suspect")});
      }
      if (!rows.is_null(7) || !rows.is_null(8)) probed++;
      if (!rows.is_null(9)) suspects[rows.text(9)]++;
      out_.row({show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)), gap(3), gap(4),
                show(rows.cell(5)) + " → " + show(rows.cell(6)),
                yes_no(rows.cell(7)) + ", " + yes_no(rows.cell(8)),
                rows.is_null(9) ? "-" : escaped(rows.text(9))});
    }
    if (prompts == 0) return;
    out_.line();
    out_.paragraph({"lm_head.text"});
    if (probed == 0) {
      out_.paragraph({"lm_head.no_probe"});
    } else if (suspects.empty()) {
      out_.paragraph({"lm_head.clean"});
    } else if (suspects.size() > 1) {
      out_.paragraph({"lm_head.several"});
    } else {
      out_.paragraph(
          {"lm_head.named",
           {in_code(suspects.begin()->first), number(suspects.begin()->second), number(prompts)}});
    }
  }

  void conflicts() {
    Query rows(
        db_,
        "SELECT report_file, claimed, claim_line, pairs, pass, fail, missing, conflict, verdict"
        " FROM report_conflict WHERE run_id IN (SELECT r.id FROM run r, run x WHERE x.id = ?"
        "   AND (r.id = x.id OR substr(x.name, 1, length(r.name) + 1) = r.name || '/'))"
        " ORDER BY report_file");
    rows.bind(1, run_.id);
    bool any = false;
    while (rows.step()) {
      if (!any) {
        section("conflict");
        out_.paragraph({"conflict.text"});
        out_.table({words_("conflict.document"), words_("conflict.claims"), words_("verdict"),
                    words_("conflict.pairs"), words_("conflict.conflict")});
      }
      any = true;
      std::string claim = rows.is_null(1) ? words_("conflict.nothing") : escaped(rows.text(1));
      if (!rows.is_null(1) && rows.integer(2) > 0) {
        claim += " (" + words_("conflict.line", {number(rows.integer(2))}) + ")";
      }
      out_.row({show(rows.cell(0)), claim, rows.is_null(8) ? "-" : show(rows.cell(8)),
                number(rows.integer(4)) + ", " + number(rows.integer(5)) + ", " +
                    number(rows.integer(6)),
                show(rows.cell(7))});
    }
    if (any) out_.line();
  }

  // ---- analysis table ----

  void analysis_table() {
    const RunVerdict& v = verdict();
    section("table");
    out_.field(words_("total_pairs"), v.show("pairs"));
    out_.field(words_("pass"), v.show("pass"));
    out_.field(words_("fail"), v.show("fail"));
    out_.field(words_("missing"), v.show("missing"));
    out_.line();
    std::string result = v.show("verdict");
    if (failure_) {
      result = words_("result.text", {result, escaped(failure_->cause), failure_->layer,
                                      in_code(failure_->tensor), in_code(failure_->prompt)});
    }
    out_.field(words_("result"), result);
    out_.line();
    failure_summary();
    detailed_results();
  }

  void failure_summary() {
    section("failure_summary", 1);
    Query rows(db_, "SELECT cause, count FROM failure_breakdown WHERE run_id = ?");
    rows.bind(1, run_.id);
    bool any = false;
    while (rows.step()) {
      out_.line("- " + show(rows.cell(0)) + ": " + number(rows.integer(1)));
      any = true;
    }
    if (any) {
      out_.line();
    } else if (compared() == 0) {
      out_.paragraph({"detailed.none"});
    } else {
      out_.paragraph({"breakdown.none"});
    }
  }

  void detailed_results() {
    if (compared() > 0) {
      section("detailed", 1);
      out_.table({"PROMPT", "TOKEN_ID", "POS_ID", "LAYER", "TENSOR", "FIRST_FAIL", "ROOT_CAUSE",
                  "DETAILS"});
      Query rows(
          db_,
          "SELECT p.prompt, p.token_id, p.pos_id, p.layer, p.tensor,"
          " CASE p.status WHEN 'INCOMPARABLE' THEN 'INCOMPARABLE' ELSE p.cause END, p.root_cause,"
          " p.status, p.class, p.rel_l2, p.details FROM pair p LEFT JOIN tensor t ON t.id ="
          " p.tensor_id"
          " WHERE p.run_id = ? AND p.status <> 'DECODE_ONLY' ORDER BY p.prompt_id, " +
              std::string(kForwardOrder) + ", p.pos_id");
      rows.bind(1, run_.id);
      while (rows.step()) {
        std::string details = rows.text(7);
        if (!rows.is_null(8) && rows.text(8) != "UNKNOWN") details += " " + rows.text(8);
        if (rows.cell(9).real > 0) details += " rel_l2=" + real(rows.cell(9).real, "%.3g");
        if (!rows.is_null(10)) details += ": " + rows.text(10);
        std::vector<std::string> cells;
        for (int i = 0; i < 7; i++) cells.push_back(escaped(display_text(rows.cell(i))));
        cells.push_back(escaped(details));
        out_.row(cells);
      }
      out_.line();
    }
    if (verdict().number("decode_only") > 0) {
      out_.paragraph({"detailed.decode_only", {verdict().show("decode_only")}});
    }
  }

  SQLite::Database& db_;
  const Run& run_;
  const Wording& words_;
  MarkdownWriter& out_;
  int level_;
  Query query_;
  std::optional<RunVerdict> verdict_;
  std::optional<FirstFailure> failure_;
  std::vector<Node> nodes_;
  std::map<std::array<std::string, 3>, std::string>
      written_;  // prompt, layer, canonical: as written
  bool modes_compared_, has_kv_rows_ = false;
  int64_t origins_ = 0, propagated_ = 0,
          unsampled_ = 0;  // pairs that fail, by where they come from
};

// ---- Several runs ----

std::string experiment_of(SQLite::Database& db, const Run& run) {
  Query query(db, "SELECT experiment FROM run WHERE id = ?");
  query.bind(1, run.id).step();
  return query.text(0);
}

/// The runs to compare: those named or, of one alone, the runs of its experiment on its date.
std::vector<int64_t> runs_beside(SQLite::Database& db, const std::vector<Run>& runs) {
  std::vector<int64_t> ids;
  for (const Run& run : runs) ids.push_back(run.id);
  if (runs.size() > 1) return ids;
  ids.clear();
  Query query(
      db,
      "SELECT r.id FROM run r JOIN run x ON x.experiment = r.experiment AND x.date IS r.date"
      " WHERE x.id = ? ORDER BY r.mode, r.id");
  query.bind(1, runs.front().id);
  while (query.step()) ids.push_back(query.integer(0));
  return ids;
}

std::string kv_summary(SQLite::Database& db, int64_t run_id, const char* column,
                       const Wording& words) {
  Query query(db, std::string("SELECT ") + column +
                      ", count(*) FROM kv_alignment WHERE run_id = ?"
                      " GROUP BY 1 ORDER BY 1");
  query.bind(1, run_id);
  std::string text;
  while (query.step()) {
    text += (text.empty() ? "" : ", ") + number(query.integer(1)) + " " + query.text(0);
  }
  return text.empty() ? words("not_recorded") : text;
}

/// Table of runs; by mode when there are several modes. Nothing for one run of one mode. Returns
/// whether there are several modes.
bool write_runs(SQLite::Database& db, const std::vector<Run>& runs, const Wording& words,
                MarkdownWriter& out) {
  std::vector<int64_t> ids = runs_beside(db, runs);
  Query verdict(db, "SELECT " + std::string(kColumns) + " FROM run_verdict WHERE run_id = ?");
  std::multimap<std::string, std::vector<std::string>> by_mode;
  std::set<std::string> modes;
  for (int64_t id : ids) {
    verdict.bind(1, id);
    if (verdict.step()) {
      RunVerdict v(verdict);
      std::string mode = v.text("mode");
      if (!mode.empty()) modes.insert(mode);
      std::string first = "-";
      if (v.has("first_fail")) {
        first = escaped(v.text("first_fail")) + " (" + words("layer") + " " + v.show("layer") +
                ", " + escaped(v.show("tensor")) + ", " + escaped(v.show("prompt")) + ")";
      }
      by_mode.emplace(
          mode,
          std::vector<std::string>{
              mode.empty() ? words("not_recorded") : escaped(mode), escaped(v.text("run")),
              "**" + v.show("verdict") + "**", v.show("numeric_verdict"),
              v.show("pass") + ", " + v.show("fail") + ", " + v.show("missing"), first,
              kv_summary(db, id, "status", words), kv_summary(db, id, "interpretation", words)});
    }
    verdict.reset();
  }
  bool compares_modes = modes.size() > 1;
  if (!compares_modes && runs.size() == 1) return false;
  out.heading(2, compares_modes ? words("by_mode") : words("runs"));
  out.table({words("mode"), words("run"), words("verdict"), words("numeric_verdict"),
             words("conflict.pairs"), words("first_failure"), words("by_mode.kv"),
             words("by_mode.interpretation")});
  for (const auto& [mode, cells] : by_mode) out.row(cells);
  out.line();
  if (!compares_modes) return false;
  for (const std::string& mode : modes) {
    if (const ReportText* meaning = find_report_text("mode." + mode)) out.paragraph(*meaning);
  }
  return true;
}

// ---- Files ----

constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

std::string safe_name(std::string_view text) {
  std::string name(text.substr(0, kMaxStem));
  for (char& c : name) {
    if (kNameCharacters.find(c) == std::string_view::npos) c = '_';
  }
  if (!name.empty() && (name[0] == '.' || name[0] == '-')) name[0] = '_';
  return name;
}

[[noreturn]] void throw_file_error(const std::filesystem::path& file, int error) {
  if (error == EEXIST) {
    throw UsageError(printable(file.string()) + " exists: give --force to replace it");
  }
  throw std::system_error(error, std::generic_category(),
                          "cannot write " + printable(file.string()));
}

/// A file that appears whole or not at all. Without `force` it is created only where none is.
class NewFile {
 public:
  NewFile(std::filesystem::path file, bool force) : file_(std::move(file)), force_(force) {
    partial_ = file_;
    partial_ += ".partial-" + number(getpid());
    fd_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) throw_file_error(partial_, errno);
  }
  ~NewFile() {
    if (fd_ >= 0) close(fd_);
    if (!kept_) unlink(partial_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view text) {
    buffer_ += text;
    if (buffer_.size() >= kBufferBytes) flush();
  }

  void keep() {
    flush();
    int error = fsync(fd_) == 0 ? 0 : errno;
    if (close(std::exchange(fd_, -1)) != 0 && error == 0) error = errno;
    if (error) throw_file_error(file_, error);
    unsigned flags = force_ ? 0u : RENAME_NOREPLACE;
    if (renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, file_.c_str(), flags) != 0) {
      throw_file_error(file_, errno);
    }
    kept_ = true;
  }

 private:
  static constexpr size_t kBufferBytes = 64 * 1024;

  void flush() {
    for (std::string_view rest = buffer_; !rest.empty();) {
      ssize_t n = ::write(fd_, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw_file_error(file_, errno);
      rest.remove_prefix(static_cast<size_t>(n));
    }
    buffer_.clear();
  }

  std::filesystem::path file_, partial_;
  bool force_, kept_ = false;
  int fd_ = -1;
  std::string buffer_;
};

struct Arguments {
  std::string run, language = "en", out;
  bool force = false;
  Gate gate = Gate::kStrict;
};

Language language_of(const std::string& name) {
  return name == "es" ? Language::kSpanish : name == "both" ? Language::kBoth : Language::kEnglish;
}

using Content = std::function<void(const TextSink&)>;

void write_file(Options& options, const std::filesystem::path& file, bool force,
                const Content& content) {
  NewFile target(file, force);
  content([&](std::string_view text) { target.write(text); });
  target.keep();
  options.out.write("wrote " + printable(file.string()) + "\n");
}

/// `name`, or the next free name_2, name_3, ...; letter case does not tell names apart.
std::string unique_name(std::set<std::string>& taken, const std::string& name) {
  auto key = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  std::string candidate = name;
  for (int i = 2; !taken.insert(key(candidate)).second; i++) candidate = name + "_" + number(i);
  return candidate;
}

void write_directory(SQLite::Database& db, Options& options, const Arguments& arguments,
                     const std::vector<Run>& runs, const Content& markdown) {
  std::filesystem::path directory = arguments.out;
  std::filesystem::create_directories(directory);
  std::string experiment = experiment_of(db, runs.front());
  bool alone = runs.size() == 1 && resolve_runs(db, experiment).size() == 1;
  std::vector<std::pair<std::filesystem::path, Content>> files;
  if (options.format != Format::kTsv) {
    std::string stem = report_stem(experiment, runs.front().name, alone || runs.size() > 1);
    files.emplace_back(directory / (stem + "_FINAL_REPORT.md"), markdown);
  }
  std::set<std::string> taken;
  for (const Run& run : runs) {
    if (options.format == Format::kMarkdown) break;
    std::string stem = unique_name(taken, report_stem(experiment, run.name, alone));
    files.emplace_back(directory / (stem + "_ANALYSIS.tsv"),
                       [&db, run](const TextSink& sink) { write_analysis_table(db, run, sink); });
  }
  for (const auto& [file, content] : files) {  // before the first is written
    if (!arguments.force && std::filesystem::exists(std::filesystem::symlink_status(file))) {
      throw_file_error(file, EEXIST);
    }
  }
  for (const auto& [file, content] : files) write_file(options, file, arguments.force, content);
}

int report(Options& options, const Arguments& arguments) {
  if (options.format == Format::kJson || options.format == Format::kCsv) {
    throw UsageError(
        "report writes Markdown (--format md) or an analysis table (--format tsv);"
        " `greta-db firstfail` has the verdict as json and csv");
  }
  SQLite::Database db = open_for_reading(options.database);
  db.exec("BEGIN");  // one state of the database for all queries
  std::vector<Run> runs = resolve_runs(db, arguments.run);
  std::filesystem::path target = arguments.out;
  bool directory = !arguments.out.empty() &&
                   (std::filesystem::is_directory(target) || arguments.out.back() == '/');
  bool tsv = options.format == Format::kTsv ||
             (options.format == Format::kTable && !directory && target.extension() == ".tsv");
  if (tsv && !directory && runs.size() > 1) {
    throw UsageError("an analysis table holds one run and '" + printable(arguments.run) + "' is " +
                     std::to_string(runs.size()) +
                     ": name one of them, or give a directory with --out DIR/");
  }
  Content markdown = [&](const TextSink& sink) {
    write_final_report(db, runs, language_of(arguments.language), sink);
  };
  Content table = [&](const TextSink& sink) { write_analysis_table(db, runs.front(), sink); };
  if (directory) {
    write_directory(db, options, arguments, runs, markdown);
  } else if (!arguments.out.empty()) {
    write_file(options, target, arguments.force, tsv ? table : markdown);
  } else {
    (tsv ? table : markdown)([&](std::string_view text) { options.out.write(text); });
  }
  ExitOfVerdicts exit(arguments.gate);
  for (const Run& run : runs) {
    Query query(db, "SELECT " + std::string(kColumns) + " FROM run_verdict WHERE run_id = ?");
    query.bind(1, run.id);
    if (query.step()) exit.add(RunVerdict(query));
  }
  return exit.status();
}

}  // namespace

std::string percent_text(int64_t count, int64_t total) {
  if (total <= 0) return "-";
  std::string text = real(100.0 * static_cast<double>(count) / static_cast<double>(total), "%.2f");
  if (text == "100.00" && count < total) text = "99.99";
  if (text == "0.00" && count > 0) text = "<0.01";
  return text + "%";
}

void write_final_report(SQLite::Database& db, const std::vector<Run>& runs, Language language,
                        const TextSink& sink) {
  Wording words(language);
  MarkdownWriter out(words, sink);
  out.heading(1, escaped(experiment_of(db, runs.front())) + " " + words("title"));
  bool modes_compared = write_runs(db, runs, words, out);
  for (const Run& run : runs) {
    if (runs.size() > 1) out.heading(2, words("run") + " `" + in_code(run.name) + "`");
    RunReport(db, run, words, out, runs.size() > 1 ? 3 : 2, modes_compared).write();
  }
  out.line("---");
  out.line();
  out.paragraph({"footer"});
}

void write_analysis_table(SQLite::Database& db, const Run& run, const TextSink& sink) {
  sink("PROMPT\tTOKEN_ID\tPOS_ID\tLAYER\tTENSOR\tFIRST_FAIL\tROOT_CAUSE\n");
  Query rows(db,
             "SELECT p.prompt, p.token_id, p.pos_id, p.layer, p.tensor,"
             " CASE p.status WHEN 'INCOMPARABLE' THEN 'INCOMPARABLE' ELSE p.cause END, p.root_cause"
             " FROM pair p LEFT JOIN tensor t ON t.id = p.tensor_id"
             " WHERE p.run_id = ? AND p.status <> 'DECODE_ONLY' ORDER BY p.prompt_id, " +
                 std::string(kForwardOrder) + ", p.pos_id");
  rows.bind(1, run.id);
  while (rows.step()) {
    std::string line;
    for (int i = 0; i < rows.columns(); i++) {
      if (i > 0) line += '\t';
      if (rows.is_null(i)) continue;
      std::string cell = display_text(rows.cell(i));
      if (!cell.starts_with('"')) {
        line += cell;
        continue;
      }
      line += '"';  // RFC 4180: a reader would take a leading quote for one
      for (char c : cell) line += c == '"' ? "\"\"" : std::string(1, c);
      line += '"';
    }
    sink(line + "\n");
  }
}

std::string report_stem(std::string_view experiment, std::string_view run, bool alone) {
  std::string stem = safe_name(experiment);
  for (char& c : stem) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (stem.empty()) stem = "UNNAMED";
  if (alone) return stem;
  std::string rest;
  while (!run.empty()) {
    size_t slash = std::min(run.find('/'), run.size());
    std::string_view part = run.substr(0, slash);
    if (part != experiment) rest += "_" + std::string(part);
    run.remove_prefix(std::min(slash + 1, run.size()));
  }
  return safe_name(stem + rest);
}

void add_report_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "report", "Final report (Markdown) and analysis table (TSV) of a run or an experiment");
  auto arguments = std::make_shared<Arguments>();
  add_run_option(*command, arguments->run)->required();
  command
      ->add_option("--lang", arguments->language,
                   "Language of the report: en (default), es or both")
      ->check(CLI::IsMember({"en", "es", "both"}))
      ->option_text("LANG");
  command
      ->add_option("--out", arguments->out,
                   "A directory (existing, or ending in /) for EXPERIMENT_FINAL_REPORT.md and"
                   " EXPERIMENT_ANALYSIS.tsv, or a file; default: standard output")
      ->option_text("DIR|FILE");
  command->add_flag("--force", arguments->force, "Replace files that exist");
  add_gate_option(*command, arguments->gate);
  command->footer("--format md (default) writes the report, --format tsv the analysis table.");
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return report(options, *arguments); };
  });
}

}  // namespace greta
