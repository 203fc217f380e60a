#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/show/block.h"
#include "cli/show/judged_row.h"
#include "cli/warehouse/origin.h"

namespace greta {

/// Base of the sections of one run: what they read, and the blocks that they add. Borrows
/// everything that it is given; members throw SQLite::Exception.
class RunSection {
 public:
  /// Headings of the sections are of `level`.
  RunSection(QueryPool& statements, const JudgedRow& row, const Wording& words, Blocks& out,
             int level)
      : statements_(statements),
        run_(row.run),
        verdict_(row.verdict),
        head_(row.head),
        words_(words),
        out_(out),
        level_(level) {}

 protected:
  /// The verdict is the numeric one, and passes what is not bitwise equal.
  bool within_rounding() const {
    return head_.gate == Gate::kNumeric && head_.verdict == "PASS" && head_.disputed();
  }
  bool numeric_leads() const { return head_.gate == Gate::kNumeric; }
  int64_t compared() const { return verdict_.number("pairs") + verdict_.number("missing"); }
  bool has_failing_pair() const { return verdict_.number("fail") > 0; }

  void section(TextId title, int below = 0) {
    out_.push_back(Heading{level_ + below, words_.line(title)});
  }
  /// Adds a paragraph; in both languages, one each.
  void say(const Sentence& sentence, Note::Kind kind = Note::Kind::kPlain) {
    for (const Line& line : words_.each(sentence)) out_.push_back(Note{line, kind});
  }
  /// Adds a numbered list; in both languages, one each.
  void list(const std::vector<Sentence>& sentences) {
    const bool both = words_.language() == Language::kBoth;
    for (size_t i = 0; i < (both ? 2 : 1); ++i) {
      if (both) out_.push_back(Note{strong(i == 0 ? "(EN)" : "(ES)")});
      List list{{}, true};
      for (const Sentence& sentence : sentences) list.items.push_back(words_.each(sentence)[i]);
      out_.push_back(std::move(list));
    }
  }
  /// NULL, as the empty text below, is "not recorded".
  std::string show(const Cell& cell) const {
    return cell.type == Cell::Type::kNull ? words_("not_recorded") : display_text(cell);
  }
  std::string show(const std::optional<int64_t>& id) const {
    return id ? std::to_string(*id) : words_("not_recorded");
  }
  std::string shown(const std::string& text) const {
    return text.empty() ? words_("not_recorded") : text;
  }
  std::string show_tensor(const FailPlace& place) const {
    return place.tensor.empty() ? words_("tensor.none") : place.tensor;
  }

  QueryPool& statements_;
  const Run& run_;
  const RunVerdict& verdict_;
  const Headline& head_;
  const Wording& words_;
  Blocks& out_;
  int level_;
};

/// Order of rows of a view `p`: as the model computes them. What greta does not know comes last.
inline constexpr std::string_view kForwardOrder =
    "p.forward_layer, p.tensor_id IS NULL, p.tensor_id";

/// An id to bind, NULL when there is none.
inline Value value_of(const std::optional<int64_t>& id) { return id ? Value(*id) : Value(nullptr); }

/// The first failing comparison of a run, as the views have it, by the verdict that leads; where
/// that one passes, by the other.
struct FirstFailure {
  std::string prompt, tensor, canonical, cause, root_cause, status, row_class, details, caused_by;
  Origin origin;      ///< by that verdict
  std::string layer;  ///< as shown
  std::optional<int64_t> layer_id, pos_id;
  bool inputs_complete = false;
  std::optional<double> rel_l2, tolerance;
  std::string distance;        ///< rel_l2 in words: "0.21 exact, head 5 only"; "" without one
  bool is_calibrated = false;  ///< the tolerance: measured of the model
  bool found = false;          ///< the pair itself was found

  /// True if it may arise in what was not traced, so that its own tensor need not be to blame.
  bool is_open() const { return origin.kind == "UNSAMPLED"; }
};

/// The sections about the first failing comparison of a run whose verdict names one.
class FailureSections : public RunSection {
 public:
  /// Finds the failure.
  explicit FailureSections(const RunSection& run);

  const FirstFailure& failure() const { return failure_; }

  /// Adds both sides, the first failure of every prompt and the trace rows.
  void add();

 private:
  std::unique_ptr<Query> evidence_rows();
  void first_failure();
  void side_table();
  void by_prompt();
  void sample_evidence();
  void where_the_other_side_is(const std::string& side);

  FirstFailure failure_;
};

/// The verdict of a run and why it is that, in sentences. `failure` is null where nothing failed.
class VerdictSection : public RunSection {
 public:
  explicit VerdictSection(const RunSection& run) : RunSection(run) {}

  void add(const FirstFailure* failure);   ///< heading and all sentences
  void lead(const FirstFailure* failure);  ///< the sentence that says why
  void remarks();                          ///< the strict verdict, how much was traced

 private:
  Sentence reason() const;
  void strictly();
};

/// How drift spreads through the tensors of a run; knows nothing before it has read them.
class Propagation : public RunSection {
 public:
  /// Every position of a tensor of a layer: a line of the tree.
  struct Node {
    std::string prompt, tensor, canonical, status, row_class, origin, caused_by, untraced;
    std::optional<int64_t> layer;
    int64_t positions = 0, with_status = 0;
  };
  /// Pairs that fail by the verdict that leads, by where they come from.
  struct Spread {
    int64_t origins = 0, propagated = 0, unsampled = 0;
  };

  explicit Propagation(const RunSection& run) : RunSection(run) {}

  /// Adds the trees of all prompts.
  void add();
  /// Adds that of one, folded away.
  void add_folded(const std::string& prompt);

  const Spread& spread() const { return spread_; }

  /// True if the run has rows of that canonical tensor of that layer.
  bool traced(const std::string& prompt, const std::string& canonical, int64_t layer) const;

 private:
  void load_nodes(const std::string& prompt);
  std::string source_of(const Node& node, const std::string& from,
                        std::optional<int64_t> previous) const;
  std::string node_text(const Node& node, std::optional<int64_t> previous) const;
  std::string tree(size_t first, size_t last) const;

  std::vector<Node> nodes_;
  Spread spread_;
  /// The name as written of prompt, layer and canonical tensor.
  std::map<std::array<std::string, 3>, std::string> written_;
};

/// Adds what the first failure of a run means.
void add_analysis(const RunSection& run, const FirstFailure& failure,
                  const Propagation& propagation);

/// Things that a report has shown before it recommends anything.
struct Findings {
  const FirstFailure* failure;  ///< null when nothing failed
  const Propagation& propagation;
  bool kv_rows, modes_compared;
};

/// Adds what to do next.
void add_recommendations(const RunSection& run, const Findings& findings);

/// Adds how K, V and the attention scores of a run compare; nothing, and returns false, when no row
/// of kv_alignment tells.
bool add_kv(const RunSection& run);

/// Every value that a source states of a run or of a level above it, the most believed first.
std::map<std::string, std::string> stated_attributes(QueryPool& statements, const Run& run);

/// Adds the LM head of both sides.
void add_lm_head(const RunSection& run);

/// Adds what documents claim of the run and of the levels of its folder.
void add_documents(const RunSection& run);

/// Adds the analysis table of a run.
void add_analysis_table(const RunSection& run);

}  // namespace greta
