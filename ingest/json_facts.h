#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What a run's JSON side files state (metadata, config, perf, summary, perf_summary and
/// drift_summary, also behind "NAME_"): a pure function of bytes. Of any other JSON only the
/// verdicts and claims of failure at known keys are read (known_claim.h). Any input is accepted;
/// nesting deeper than 64 is an error, and names and dimension values longer than a fixed limit are
/// kept as JSON text.
namespace greta {

/// One thing stated about the file's own run. `dim` is canonical: span, dtype, kv_aligned (kv),
/// seed, ctx (context, context_len), batch (batch_size), repeat, profile; leg (mode, when it is
/// prefill or decode) or mode; prompt_len, gen_len, layer, timestamp, host, repo_branch, commit
/// (git_commit). Any other key is its path without "config." ("token_span.start"). A list is not a
/// value of the run but what the experiment declares: its dim ends in [] and is singular
/// ("seed[]"), its value is the JSON text. A known key without a usable value (null, "") is kept as
/// "invalid.seed".
struct Attribute {
  std::string dim;
  std::string value;
};

/// One measurement, or a statement about one run of the experiment that is not a dimension.
struct Metric {
  std::map<std::string, std::string> dims;  ///< which run of the experiment; empty: the file's own
  std::string leg;                          ///< prefill, decode or ""
  std::string name;  ///< dotted below the run: "metrics.max_abs_diff"; "scaling.speedup" of a list
                     ///< that is not results
  std::optional<double> value;  ///< finite; nullopt for null (nothing was measured) and for text
  std::string text;             ///< the literal: "0.0", "null", "MISSING_DATA", or JSON text
};

struct ClaimedVerdict {
  std::map<std::string, std::string> dims;  ///< empty: of the whole experiment
  std::string value;                        ///< first word: PASS_EQUIV; FAIL of any failure
  std::string text;                         ///< as written; "key: value" of a failure
  bool is_failure = false;  ///< not a verdict, but what claims one (for_each_failure)
};

struct JsonFacts {
  std::string kind;  ///< metadata, config, perf, summary, perf_summary, drift_summary or other
  std::vector<Attribute> attributes;
  std::vector<Metric> metrics;
  std::vector<ClaimedVerdict> claims;
  std::string timestamp;    ///< the one nearest to the top level; "" if none
  bool synthetic = false;   ///< git_commit says so
  bool holds_rows = false;  ///< rows of a trace are in it, as lines of a .jsonl file would be
  std::string error;        ///< not empty: nothing else is filled in, and this says why and where
};

/// `file_stem` is the file's name without directories and extension; it decides `kind`, which
/// decides whether an unknown number is an attribute (metadata, config), a metric or not read.
JsonFacts read_json_facts(std::string_view text, std::string_view file_stem);

}  // namespace greta
