#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

// Buffered standard output of both programs.

namespace greta {

/// Standard output was closed by its reader: nobody is left to tell.
struct OutputClosed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Buffered standard output. Not thread-safe.
class Output {
 public:
  Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Throws OutputClosed when the reader went away, std::system_error when the disk is full etc.
  void write(std::string_view text);
  void flush();

  bool is_terminal() const { return width_ > 0; }
  int width() const { return width_; }     ///< columns of the terminal, 0 when it is none
  bool colors() const { return colors_; }  ///< a terminal, and no NO_COLOR (https://no-color.org)

 private:
  std::string buffer_;
  int width_ = 0;
  bool colors_ = false;
};

/// A line about progress on standard error, where that is a terminal: it is written over, and gone
/// at the end.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  /// Shows what `text` returns, ten times a second at most.
  template <typename Text>
  void show(const Text& text) {
    if (is_due()) write(text());
  }
  void clear();

 private:
  bool is_due();
  void write(const std::string& text);

  std::chrono::steady_clock::time_point last_{};
  bool is_written_ = false;
};

/// "1 run", "2 runs".
std::string counted(int64_t n, const std::string& noun);

/// Columns a terminal uses for valid UTF-8.
size_t display_width(std::string_view text);

/// The first characters of `text` that fit into `width` columns, the last one being an ellipsis.
std::string cut_to_width(std::string_view text, size_t width);

/// The text, or where it is wider, as much of its beginning and its end as fits around an ellipsis.
std::string shortened_to_width(std::string_view text, size_t width);

}  // namespace greta
