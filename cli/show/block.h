#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cli/output/output.h"
#include "cli/show/html.h"
#include "cli/show/texts.h"

namespace greta {

// Blocks are what commands show: each says what it holds and not how it looks. Printers do that,
// one for each format. Texts in blocks are as they are, and every printer escapes them.

/// Takes a text piece by piece.
using TextSink = std::function<void(std::string_view)>;

struct Block;
using Blocks = std::vector<Block>;

/// `headline`: what the section comes to, such as a verdict.
struct Heading {
  int level = 2;
  Line text = {};
  Line headline = {};
};

/// Names with their values.
struct FactList {
  std::vector<std::pair<Line, Line>> items = {};
  void add(Line label, Line value) { items.emplace_back(std::move(label), std::move(value)); }
};

struct Note {
  enum class Kind { kPlain, kLead, kSmall };
  Line text = {};
  Kind kind = Kind::kPlain;
};

struct List {
  std::vector<Line> items = {};
  bool numbered = false;
};

struct ShownColumn {
  enum class Kind { kText, kNumber, kDate };
  std::string name = {};
  Kind kind = Kind::kText;
  ShownColumn(std::string n, Kind k = Kind::kText) : name(std::move(n)), kind(k) {}
  ShownColumn(const char* n) : name(n) {}
};

struct ShownRow {
  std::vector<Line> cells = {};
  bool marked = false;                ///< stands out
  std::optional<size_t> number = {};  ///< of the page's data
};

struct ShownTable {
  std::vector<ShownColumn> columns = {};
  std::vector<ShownRow> rows = {};
  bool sortable = false;
  bool keyed = false;  ///< the first column names the row
  std::function<bool(ShownRow&)> more =
      {};  ///< gives the rows after these, of a table of any length
  void add(std::vector<Line> cells) { rows.push_back({std::move(cells)}); }
};

/// Lines that stay as they are: a command, a record, a tree.
struct Code {
  std::string text = {};
  std::string_view language = "";
};

/// A line between parts of a document.
struct Rule {};

/// How a square of a map looks: its classes in page.css, of which the first says what it is.
using Look = std::string;

struct Square {
  Look look;
  std::string letter = {};  ///< shown in it
  std::string label = {};   ///< what it says aloud; "" where the page's script does
  std::string link = {};
};

/// Rows by columns of squares.
struct Map {
  Markup kind = "map";  ///< its classes in page.css
  std::string name = {}, caption = {}, corner = {};
  std::vector<std::string> columns = {}, rows = {};
  std::vector<std::vector<std::optional<Square>>> squares =
      {};  ///< by row, up to the last that can be
  /// Rows first to last, for which one stands until a reader asks for them.
  struct Fold {
    size_t first, last;
    std::string name = {};
    std::vector<std::optional<Square>> squares = {};  ///< of each column the worst
  };
  std::vector<Fold> folds = {};                  ///< ascending
  std::optional<size_t> index = {}, panel = {};  ///< of the page's data
};

/// Squares that share a meaning, and that meaning.
struct Legend {
  std::string name = {};
  std::vector<std::pair<std::vector<Square>, std::string>> items = {};
};

/// Points on a logarithmic scale, with a band of what is allowed below a limit.
struct Chart {
  enum class Mark { kNone, kEqual, kWithin, kBeyond };
  struct Point {
    double x = 0;
    std::optional<double> value = {};
    Mark mark = Mark::kEqual;  ///< within or beyond the limit also where the value is not known
    std::string label = {};    ///< under the axis
    bool turns = false;        ///< something begins here
  };
  std::string title = {}, text = {};              ///< `text` says aloud what it shows
  std::string axis = {}, band = {}, x_name = {};  ///< "" leaves them out
  std::vector<Point> points = {};
  double limit = 1;
  double low = 0, high = 0;  ///< powers of ten
  bool small = false;        ///< one of many: without axes
};

/// Controls that only a page's script serves: a field that filters, choices, and help for the keys.
struct Controls {
  struct Choice {
    Markup key;
    std::string label = {};
    std::vector<std::string> values = {};  ///< the first is all of them; none: a date is typed
  };
  std::string label = {}, hint = {}, keys = {};
  std::vector<Choice> choices = {};
};

/// Blocks that belong together, and are folded away where there is a summary.
struct Group {
  Markup kind;  ///< its class in page.css, or header, section
  std::vector<Block> blocks;
  Line summary = {};
  bool open = false;
  std::string id = {};
  std::optional<size_t> number = {};  ///< of the page's data
};

struct Block : std::variant<Heading, FactList, Note, List, ShownTable, Code, Rule, Map, Legend,
                            Chart, Controls, Group> {
  using variant::variant;
};

/// Prints Markdown. Names cannot begin markup, end a cell or a row. Throws what `sink` throws.
void print_markdown(const Blocks& blocks, const TextSink& sink);

/// Prints HTML; what it appends is whole elements.
void print_html(const Blocks& blocks, Html& html);

/// Prints for a terminal, in at most 80 columns where it is a map.
void print_terminal(const Blocks& blocks, Output& out);

/// A number as printf's `format` shows it, in at most 63 characters.
std::string real_text(double value, const char* format);

/// A real in at most five digits and the fewest characters: 0.00012, 1.2345e-7.
std::string short_real(double value);

/// count of total in percent, two decimals: what is not all is never 100.00 %, what is not nothing
/// never 0.00 %. "-" of nothing.
std::string percent_text(int64_t count, int64_t total);

}  // namespace greta
