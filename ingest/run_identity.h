#pragma once

#include <map>
#include <string>
#include <string_view>

/// What a path says about the run that wrote the file: a pure function of bytes, never the disk.
namespace greta {

/// Identity of the run, and of the leg and prompt inside it, as far as the path states it.
/// Every string holds the path's bytes literally, whatever their encoding; "" means not stated.
struct RunIdentity {
  /// Literal directory that dates the run: "2026-02-07", "--seeds". Two runs under different
  /// date segments are different runs, even when `date` later turns out equal.
  std::string date_segment;
  std::string date;  ///< YYYY-MM-DD when date_segment is a calendar date

  /// Literal directory ("b3_66_v2"); without one, the head of the file name in lower case
  /// ("b3_65" of b3_65_analysis.txt, "b3_66" of B3_66_FINAL_REPORT.md).
  std::string experiment;
  std::string family;   ///< numbered head of the experiment: b3_66 of b3_66_v2
  std::string variant;  ///< what follows it, when that begins with a letter: v2

  /// Keys: mode, profile, span, dtype, kv_aligned, seed, ctx, batch, repeat, case. Values are
  /// literal; case is every other directory below the date segment, joined with '/'.
  std::map<std::string, std::string> dims;
  std::string leg;     ///< "prefill" or "decode"
  std::string prompt;  ///< from the file name

  /// The path from the date segment on, '/'-separated, without "." and ".." and without the
  /// names of archives, so that it is the same under any root and for an archive member and its
  /// loose twin. Without a date segment it starts at the experiment directory; without that, at
  /// the dimension directories that lead to the file. A date segment that only `artifacts_remote`
  /// marks as one keeps that directory in front. identify_run of it gives the same run again.
  std::string relative_path;

  std::string stated_name;  ///< what the content itself calls its run; "" for most

  std::string run_name() const;  ///< stated_name, else as run_name() of its parts
};

/// Whether a mode or a directory names one half of a run: "prefill", "decode".
inline bool is_leg(std::string_view name) { return name == "prefill" || name == "decode"; }

/// `path` is that of a file (one that ends in a separator names a directory); '/' and '\\' both
/// separate. For an archive member pass ARCHIVE_DIRECTORY/MEMBER or ARCHIVE/MEMBER.
///
/// Paths count from the date segment, which is the YYYY-MM-DD directory nearest above the first
/// experiment directory (the first such directory when there is none), else the directory above
/// the experiment when it follows `artifacts_remote` or begins with "--". What lies above an
/// `artifacts_remote` does not count. The experiment is the first directory b3_<digit>... below,
/// else the first directory below a date that is neither a dimension nor transparent, else the
/// head of the file name.
RunIdentity identify_run(std::string_view path);

/// "<date segment, or undated>/<experiment, or unnamed>", then of dims, in this order and only if
/// present: mode, profile_X, span_N, dtype_X, kv_aligned_N, seed_N, ctx_N, batch_N, repeat_N,
/// case. Valid UTF-8 that is safe to print: a control character or an invalid byte becomes '?'.
/// Callers that learn a dimension elsewhere (metadata) add it to dims and call this.
std::string run_name(std::string_view date_segment, std::string_view experiment,
                     const std::map<std::string, std::string>& dims);

}  // namespace greta
