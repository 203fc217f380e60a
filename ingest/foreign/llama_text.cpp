#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "common/json_text.h"
#include "common/utf8.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/files.h"
#include "ingest/foreign/tensor.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// "common_debug_cb_eval:   Qcur-0 = (f32)   ROPE(Qcur-0{32, 8, 7, 1}, ...}) = {32, 8, 7, 1}"
struct Printed {
  std::string name, type, operation, inputs;
  std::vector<uint64_t> shape;  ///< the fastest first, as ggml has it
};

std::optional<std::vector<uint64_t>> ggml_shape(std::string_view text) {
  std::vector<uint64_t> shape;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const auto size = text::number<uint64_t>(text::trim(text.substr(0, comma)));
    if (!size || shape.size() == 8) return std::nullopt;
    shape.push_back(*size);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return shape;
}

std::optional<Printed> read_header_line(std::string_view line) {
  const size_t function = line.find(": ");
  if (function == line.npos) return std::nullopt;
  const std::string_view callback = line.substr(0, function);
  if (!callback.ends_with("debug_cb_eval") && !callback.ends_with("ggml_debug"))
    return std::nullopt;
  const size_t equals = line.find(" = (", function);
  const size_t last = line.rfind(") = {");
  if (equals == line.npos || last == line.npos || last < equals) return std::nullopt;
  const size_t type_end = line.find(')', equals);
  const size_t open = line.find('(', type_end);
  const size_t close = line.find('}', last);
  if (type_end == line.npos || open == line.npos || open > last || close == line.npos) {
    return std::nullopt;
  }
  Printed printed;
  printed.name = text::trim(line.substr(function + 1, equals - function - 1));
  printed.type = line.substr(equals + 4, type_end - equals - 4);
  printed.operation = text::trim(line.substr(type_end + 1, open - type_end - 1));
  printed.inputs = line.substr(open + 1, last - open - 1);
  const auto shape = ggml_shape(line.substr(last + 5, close - last - 5));
  if (!shape || printed.name.empty() || printed.operation.empty()) return std::nullopt;
  printed.shape = *shape;
  return printed;
}

/// A number as printf writes it, NaN and infinities too.
std::optional<double> printed_number(std::string_view text) {
  text = text::trim(text);
  if (text == "nan" || text == "-nan") return std::nan("");
  if (text == "inf") return HUGE_VAL;
  if (text == "-inf") return -HUGE_VAL;
  return text::number<double>(text);
}

class LlamaText {
 public:
  explicit LlamaText(const ForeignSource& source) : source_(source) {}

  void read(std::string_view rest) {
    for (std::string_view line; text::take_line(rest, line);) {
      ++line_;
      if (line.size() > text::kMaxTextLine) {
        source_.rows.find(line_, true, "a line of more than 1 MiB",
                          std::string(line.substr(0, 1024)));
        continue;
      }
      if (auto printed = read_header_line(line)) {
        give_up_tensor();
        begin(*std::move(printed));
        continue;
      }
      if (open_) take_line_of(line);
    }
    give_up_tensor();
  }

 private:
  void begin(Printed printed) {
    printed_ = std::move(printed);
    values_.clear();
    n_nan_ = n_inf_ = 0;
    header_line_ = line_;
    open_ = true;
  }

  /// A header without its sum: what was printed is not all of it.
  void give_up_tensor() {
    if (!open_) return;
    open_ = false;
    source_.rows.find(header_line_, true,
                      "tensor " + utf8::printable(printed_.name.substr(0, 200)) +
                          " is printed without its sum: the text is cut there",
                      printed_.name + " " + printed_.operation);
  }

  void take_line_of(std::string_view line) {
    line = text::trim(line);
    if (line.starts_with("sum =")) {
      const auto sum = printed_number(line.substr(5));
      if (sum) return end(*sum);
    }
    if (line.empty() || line[0] != '[') return;
    line.remove_prefix(1);
    while (!line.empty()) {
      const size_t comma = std::min(line.find_first_of(",]"), line.size());
      if (const auto value = printed_number(line.substr(0, comma))) take_value(*value);
      line.remove_prefix(std::min(comma + 1, line.size()));
    }
  }

  void take_value(double value) {
    constexpr size_t kMaxPrinted = 4096;
    n_nan_ += std::isnan(value);
    n_inf_ += std::isinf(value);
    if (values_.size() < kMaxPrinted) values_.push_back(static_cast<float>(value));
  }

  void end(double sum) {
    open_ = false;
    uint64_t n = 0;
    try {
      n = count_of(printed_.shape);
    } catch (const ForeignError& error) {
      source_.rows.find(header_line_, true,
                        "tensor " + utf8::printable(printed_.name) + " " + error.what(),
                        printed_.name);
      return;
    }
    const std::string name = numberless(printed_.name) + " " + printed_.operation;
    count_evaluation(name);
    TracePlace place = source_.rows.rules().place_of(name);
    if (place.layer >= 0) last_layer_ = place.layer;
    if (place.layer < 0 && printed_.name.starts_with("node_")) place.layer = last_layer_;
    const int64_t nth = seen_[place.tensor + "@" + std::to_string(place.layer)]++;
    if (nth > 0) place.tensor += " #" + std::to_string(nth + 1);
    source_.rows.begin(place, header_line_, extra_of(name, sum));
    TraceRow& row = source_.rows.add_whole(source_.path.rank_name(), "forward", step_);
    row.n = static_cast<int64_t>(n);
    set_values(row, sum, n);
    if (printed_.type == "f32" || printed_.type == "f16" || printed_.type == "bf16") {
      source_.rows.note_dtype(printed_.type, 1);
    }
  }

  /// What ggml names by its number in the graph is told by its operation, in the layer at hand.
  static std::string numberless(const std::string& name) {
    return name.starts_with("node_") ? "node" : name;
  }

  /// The graph begins anew with the next evaluation.
  void count_evaluation(const std::string& name) {
    if (first_name_.empty()) first_name_ = name;
    if (name != first_name_ || seen_.empty()) return;
    ++step_;
    seen_.clear();
    last_layer_ = -1;
  }

  void set_values(TraceRow& row, double sum, uint64_t n) {
    if (n_nan_ > 0 || n_inf_ > 0) row.nan = n_nan_, row.inf = n_inf_;
    if (!std::isfinite(sum)) {
      row.flags |= kFlagNonfiniteStatistic;
    } else if (n > 0) {
      row.mean = sum / static_cast<double>(n);
    }
    // Four digits behind the point tell nothing of values that are next to nothing; of a tensor
    // that is printed whole, the sum would contradict them in its last digits.
    constexpr float kTold = 0.1f;
    const bool is_finite = n_nan_ == 0 && n_inf_ == 0;
    const bool is_told = std::any_of(values_.begin(), values_.end(),
                                     [](float value) { return std::abs(value) >= kTold; });
    if (is_finite && is_told && values_.size() < n) source_.rows.set_printed(row, values_);
  }

  std::string extra_of(const std::string& name, double sum) const {
    JsonObject extra;
    extra.add("name", name)
        .add("type", printed_.type)
        .add("inputs", printed_.inputs.substr(0, 1024));
    extra.raw("ne", text_of(printed_.shape));
    extra.add("sum", sum);
    extra.add("printed", std::span<const float>(values_));
    return extra.str();
  }

  const ForeignSource& source_;
  Printed printed_;
  std::vector<float> values_;
  int64_t n_nan_ = 0, n_inf_ = 0, line_ = 0, header_line_ = 0;
  int64_t step_ = 0, last_layer_ = -1;
  bool open_ = false;
  std::string first_name_;
  std::map<std::string, int64_t> seen_;  // in this evaluation of the graph
};

}  // namespace

void read_llama_text(const ForeignSource& source) {
  const std::string text = source.text();
  LlamaText(source).read(text::without_mark(text));
}

bool is_llama_text(std::string_view head) {
  std::string_view rest = text::without_mark(head);
  for (std::string_view line; text::take_line(rest, line);) {
    if (line.find("_eval:") == line.npos && line.find("ggml_debug:") == line.npos) continue;
    if (read_header_line(line)) return true;
  }
  return false;
}

}  // namespace greta
