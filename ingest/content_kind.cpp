#include "ingest/content_kind.h"

#include <algorithm>

#include "common/utf8.h"
#include "ingest/content/archive.h"
#include "ingest/log.h"
#include "ingest/record/parser.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// True if a text whose first bytes are `head` is JSON lines and nothing else, as far as it shows.
bool holds_records(std::string_view head) {
  bool any = false;
  for (std::string_view line : text::split_lines(head)) {
    line = text::trim(line);
    if (line.empty()) continue;
    if (any ? !line.starts_with('{') : !is_record_line(line)) return false;
    any = true;
  }
  return any;
}

/// By its mark, or by a zero beside every character, as far as it shows.
bool is_utf16(std::string_view head) {
  if (head.starts_with("\xFF\xFE") || head.starts_with("\xFE\xFF")) return true;
  constexpr size_t kEnough = 512;
  const size_t n = std::min(head.size(), kEnough) / 2 * 2;
  if (n < 8) return false;
  const size_t zeros = head[0] == '\0' ? 0 : 1;
  for (size_t i = 0; i < n; ++i) {
    const auto c = static_cast<unsigned char>(head[i]);
    const bool is_text = (c >= ' ' && c < 0x7F) || c == '\t' || c == '\r' || c == '\n';
    if (i % 2 == zeros ? c != 0 : !is_text) return false;
  }
  return true;
}

/// What its bytes are packed as, which is not read: "bzip2". "" if they are not.
std::string packing_of(std::string_view head) {
  struct Packing {
    std::string_view magic, name;
  };
  constexpr Packing kPackings[] = {{"PK\x03\x04", "a ZIP archive"},
                                   {"BZh", "bzip2"},
                                   {"\xFD"
                                    "7zXZ",
                                    "xz"},
                                   {"\x28\xB5\x2F\xFD", "zstd"},
                                   {"7z\xBC\xAF\x27\x1C", "a 7z archive"},
                                   {"\x04\x22\x4D\x18", "lz4"},
                                   {std::string_view("\x5D\0\0", 3), "lzma"},
                                   {"Rar!", "a RAR archive"},
                                   {"\x1F\x9D", "compress"},
                                   {"\x1F\x8B", "gzip"}};
  for (const Packing& packing : kPackings) {
    if (head.starts_with(packing.magic)) return std::string(packing.name);
  }
  return "";
}

/// True if it is what runs, or a change of it, and says nothing of a run.
bool is_program(std::string_view extension, std::string_view head) {
  constexpr std::string_view kPrograms[] = {
      ".sh",  ".bash", ".py", ".c",  ".cc", ".cpp", ".cu",    ".cuh",  ".h",     ".hpp",
      ".hip", ".js",   ".ts", ".rs", ".go", ".sql", ".cmake", ".diff", ".patch", ".ipynb"};
  return head.starts_with("#!") ||
         std::find(std::begin(kPrograms), std::end(kPrograms), extension) != std::end(kPrograms);
}

/// True if the bytes are those of a text in UTF-8 or an encoding that has ASCII's.
bool holds_text(std::string_view head) {
  constexpr std::string_view kControls = "\t\n\r\f\v\b\x1b";
  return std::all_of(head.begin(), head.end(), [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte >= ' ' && byte != 0x7f) || kControls.find(c) != kControls.npos;
  });
}

}  // namespace

std::string why_unread(std::string_view head) {
  if (is_utf16(head)) return "a text in UTF-16, which is not read: write it as UTF-8";
  const std::string packing = packing_of(head);
  if (packing.empty()) return "";
  return packing + " that is not read: unpack it, or pack it as .gz, or as .tgz by itself";
}

ContentKind classify(const std::string& path, std::string_view head) {
  const std::string extension = lower_extension(path);
  if (extension == ".tar" || extension == ".tgz") return ContentKind::kArchive;
  if (begins_as_tar(head)) return ContentKind::kArchive;
  if (head.starts_with(std::string_view("SQLite format 3\0", 16))) return ContentKind::kDatabase;
  if (!why_unread(head).empty()) return ContentKind::kUnknown;  // whatever it is called
  if (extension == ".jsonl" || extension == ".ndjson") return ContentKind::kRecords;
  if (extension == ".json") return ContentKind::kJson;
  if (extension == ".tsv" || extension == ".csv") return ContentKind::kTable;
  if (extension == ".md") return ContentKind::kDocument;
  // those of a batch system, too
  const bool is_text = extension == ".txt" || extension == ".out" || extension == ".err";
  if ((extension == ".log" || is_text) && holds_records(head)) return ContentKind::kRecords;
  if (extension == ".log") return ContentKind::kLog;
  if (is_text) return looks_like_log(head) ? ContentKind::kLog : ContentKind::kDocument;
  const std::string_view text = text::trim(text::without_mark(head));
  if (is_record_line(text.substr(0, text.find('\n')))) return ContentKind::kRecords;
  if (looks_like_log(head)) return ContentKind::kLog;
  return holds_text(head) && !is_program(extension, head) ? ContentKind::kDocument
                                                          : ContentKind::kUnknown;
}

std::string shapes_that_are_read() {
  return "greta reads:\n"
         "  .jsonl, .ndjson        trace lines (stage_trace, readout, metric, ...), an engine's "
         "export\n"
         "  metadata.json, config.json, perf.json, summary.json   attributes and metrics of a run\n"
         "  .tsv, .csv             tables of pairs\n"
         "  .md, .txt, .log, .out, .err   reports (\"verdict: FAIL\", tables of pairs) and run "
         "logs\n"
         "  dump.json              msprobe (statistics, md5), with construct.json beside it\n"
         "  PassNNNNN.pt, k=v___k=v.pt, .pt   SGLang's dumps, tensors of torch.save\n"
         "  .safetensors, .npy, .npz          tensors by name\n"
         "  .json of DebugMode.save_logs      PyTorch's operators and hashes\n"
         "  .txt, .log of llama.cpp           what its debug callback prints\n"
         "by content, packed (.gz) or in an archive (.tar, .tgz) too; docs/ingest.md has them all. "
         "Other texts are stored, not judged.\n";
}

}  // namespace greta
