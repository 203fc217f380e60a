#include "ingest/content_kind.h"

#include "common/utf8.h"
#include "ingest/log.h"
#include "ingest/record/parser.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// Whether a text whose first bytes are `head` is JSON lines and nothing else, as far as it shows.
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

}  // namespace

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
  constexpr size_t kTarMagicAt = 257;
  const bool is_tar = head.size() > kTarMagicAt && head.substr(kTarMagicAt).starts_with("ustar");
  return is_tar ? "a tar archive" : "";
}

std::string lower_extension(const std::string& path) {
  std::string name = text::to_lower(path.substr(path.find_last_of('/') + 1));
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  size_t dot = name.find_last_of('.');
  return dot == std::string::npos ? "" : name.substr(dot);
}

std::string file_stem(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.substr(0, name.find_last_of('.'));
}

ContentKind classify(const std::string& path, std::string_view head) {
  std::string extension = lower_extension(path);
  if (extension == ".jsonl" || extension == ".ndjson") return ContentKind::kRecords;
  if (extension == ".json") return ContentKind::kJson;
  if (extension == ".tsv" || extension == ".csv") return ContentKind::kTable;
  if (extension == ".md") return ContentKind::kDocument;
  if ((extension == ".log" || extension == ".txt") && holds_records(head))
    return ContentKind::kRecords;
  if (extension == ".log") return ContentKind::kLog;
  if (extension == ".txt") return looks_like_log(head) ? ContentKind::kLog : ContentKind::kDocument;
  size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start == std::string_view::npos) return ContentKind::kUnknown;
  std::string_view first = head.substr(start, head.find('\n', start) - start);
  if (is_record_line(first)) return ContentKind::kRecords;
  return looks_like_log(head) ? ContentKind::kLog : ContentKind::kUnknown;
}

}  // namespace greta
