#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/table.h"

/// What a .md or .txt report states about a run: a pure function of bytes that accepts any input
/// and takes time linear in it. Nothing here is checked against evidence: claims stay claims.
namespace greta {

/// What a document claims that says PASS of the numeric verdict, as greta's own reports do.
inline constexpr std::string_view kPassWithinRounding = "PASS_WITHIN_ROUNDING";

/// A verdict that the text states, from "KEY: value" or from a heading KEY and the line below.
struct DocumentClaim {
  int64_t line = 0;   ///< of the value
  std::string kind;   ///< verdict, status, first_fail, root_cause or conclusion; failure of any
                      ///< other line_claims_failure
  std::string value;  ///< the first word when it is upper-case (PASS, NOT_REPRODUCED), else "";
                      ///< kPassWithinRounding; FAIL of what claims a failure
  std::string text;   ///< the value in full, without Markdown emphasis
};

/// A line of a document and its text, or what is said of it.
struct DocumentLine {
  int64_t line = 0;
  std::string text;
};

struct Document {
  std::string title;       ///< first heading or line of text; "" when the file starts with a table
  std::string experiment;  ///< of the title: b3_66 ("B3.66"), b3_66_v2 ("B3.66 v2"), b3_10A,
                           ///< b3_70_71 ("B3.70-71"), b3_85 ("B3.85–B3.88"); "" if none
  std::string date;        ///< YYYY-MM-DD of the first Date line; "" if none
  std::string commit;      ///< 7 to 40 hex digits of the first Commit or Hash line, as written
  std::vector<Table> tables;
  /// Lines that are a one-line object, "{" to "}", trimmed, inside code fences or not. An object
  /// that is printed over several lines is an excerpt and is not here.
  std::vector<DocumentLine> json_lines;
  /// First column of the first table whose first header cell is Prompt, in order, each once: names
  /// the segments of such lines that have no prompt of their own.
  std::vector<std::string> prompt_names;
  /// Outside fences and tables, but those of kind failure; a TBD is not a claim.
  std::vector<DocumentClaim> claims;
  /// From "Total Pairs: 48" lines and Metric | Value tables; first one wins. Keys: total_pairs,
  /// present_pairs, pass, fail, missing, and the equivalence counts pass_equiv, fail_equiv,
  /// expected_drift, inconclusive, incomplete, skipped.
  std::map<std::string, int64_t> counts;
  /// Parts that are beyond what a document may have, and were not read: where, and why.
  std::vector<DocumentLine> limits;
  bool valid_utf8 = true;
  bool is_binary = false;  ///< it holds a NUL byte, which no text does
};

Document read_document(std::string_view text);

/// Document::experiment of a text that begins with `head`: what its title names, and no more read.
std::string experiment_of_title(std::string_view head);

}  // namespace greta
