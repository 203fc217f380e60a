#include "ingest/opened_content.h"

#include <algorithm>
#include <utility>

#include "common/sha256.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// A larger one is parsed while it is written: its rows need not all be in memory at once.
constexpr size_t kParsedAheadBytes = 4u << 20;

ParsedRecords parse_whole(const OpenedContent& content, ContentReader& reader,
                          const std::string& identity_path) {
  ParsedRecords parsed;
  RecordParser parser(record_source(content.identity, identity_path));
  OpenedReader whole(content, reader);
  parsed.end = parse_records(whole, parser, [&](std::unique_ptr<RecordBatch> batch, int64_t) {
    parsed.batches.push_back(std::move(batch));
    return std::make_unique<RecordBatch>();
  });
  parsed.shape = parser.shape();
  parsed.phase_conflict = parser.phase_conflict();
  return parsed;
}

}  // namespace

RecordSource record_source(const RunIdentity& identity, const std::string& identity_path) {
  return {identity.leg, identity.prompt.empty() ? file_stem(identity_path) : identity.prompt, {}};
}

OpenedReader::OpenedReader(const OpenedContent& content, ContentReader& rest)
    : prefix_(content.bytes), rest_(rest), is_whole_(content.is_whole) {
  if (prefix_.empty()) damage_ = rest_.damage();
}

size_t OpenedReader::read(char* buffer, size_t size_bytes) {
  size_t n = std::min(size_bytes, prefix_.size());
  if (n > 0) {
    std::copy_n(prefix_.data(), n, buffer);
    prefix_.remove_prefix(n);
  } else if (!is_whole_) {
    n = rest_.read(buffer, size_bytes);
  }
  if (prefix_.empty()) damage_ = rest_.damage();
  return n;
}

std::optional<size_t> OpenedReader::bytes_left() const {
  return is_whole_ ? std::optional(prefix_.size()) : std::nullopt;
}

OpenedContent open_start(ContentReader& reader, const std::string& identity_path, bool is_large,
                         ParseAhead parse) {
  OpenedContent content;
  std::string& bytes = content.bytes;
  const size_t limit = is_large ? kHeadBytes : kWholeBytes + 1;
  bytes.resize(kHeadBytes);
  size_t filled = 0;
  for (size_t n = 1; n > 0 && filled < limit; filled += n) {
    if (filled == bytes.size()) bytes.resize(std::min(bytes.size() * 4, limit));
    n = reader.read(bytes.data() + filled, bytes.size() - filled);
  }
  bytes.resize(filled);
  content.is_whole = filled < limit;
  content.kind = classify(identity_path, std::string_view(bytes).substr(0, kHeadBytes));
  content.identity = identify_run(identity_path);
  if (!content.is_whole) return content;
  if (parse == ParseAhead::kYes && content.kind == ContentKind::kRecords && !bytes.empty() &&
      bytes.size() <= kParsedAheadBytes) {
    content.records = parse_whole(content, reader, identity_path);
    content.sha256 = content.records->end.sha256;
  } else {
    content.sha256 = Sha256::hex_of(bytes);
  }
  return content;
}

}  // namespace greta
