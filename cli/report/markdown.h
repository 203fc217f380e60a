#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/report/texts.h"

namespace greta {

/// Takes a text piece by piece.
using TextSink = std::function<void(std::string_view)>;

/// Text of a table cell: no name can end the cell, the row or begin markup.
std::string escaped(std::string_view text);

/// The same at the beginning of a line, where it begins no heading, list or quotation either.
std::string escaped_line(std::string_view text);

/// Text inside `...`, of a heading or a sentence.
std::string in_code(std::string_view text);

/// Text inside '...' of a shell command inside `...`.
std::string in_single_quotes(std::string_view text);

/// A number as printf's `format` shows it, in at most 63 characters.
std::string real_text(double value, const char* format);

/// count of total in percent, two decimals: what is not all is never 100.00 %, what is not nothing
/// never 0.00 %. "-" of nothing.
std::string percent_text(int64_t count, int64_t total);

/// One text of a paragraph, with its values.
struct Sentence {
  const ReportText* text;
  TextValues values;

  Sentence(TextId id, TextValues v = {}) : text(&id.text()), values(std::move(v)) {}
  Sentence(const ReportText& t, TextValues v = {}) : text(&t), values(std::move(v)) {}
};

/// Writes Markdown in the language of `words`; borrows the words and the sink, and throws what the
/// sink throws.
class MarkdownWriter {
 public:
  MarkdownWriter(const Wording& words, const TextSink& sink) : words_(words), sink_(sink) {}

  const Wording& words() const { return words_; }

  void line(std::string_view text = "") { sink_(std::string(text) + "\n"); }
  void heading(int level, const std::string& text);
  void field(const std::string& label, const std::string& value);
  /// Begins a table; its rows follow, then an empty line().
  void table(const std::vector<std::string>& columns);
  void row(const std::vector<std::string>& cells);
  /// A code block of whole lines.
  void fence(std::string_view language, const std::string& text);
  /// A paragraph; in both languages, one each.
  void paragraph(const Sentence& sentence);
  /// A numbered list; in both languages, one each.
  void list(const std::vector<Sentence>& sentences);

 private:
  std::vector<bool> languages() const;

  const Wording& words_;
  const TextSink& sink_;
};

}  // namespace greta
