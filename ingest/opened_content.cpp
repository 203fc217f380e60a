#include "ingest/opened_content.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/sha256.h"
#include "ingest/foreign_content.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// A larger one is parsed while it is written: its rows need not all be in memory at once.
constexpr size_t kParsedAheadBytes = 4u << 20;

ParsedRecords parse_whole(const OpenedContent& content) {
  ParsedRecords parsed;
  RecordParser parser(record_source(content));
  OpenedReader whole(content);
  parsed.end = parse_records(whole, parser, [&](std::unique_ptr<RecordBatch> batch, int64_t) {
    parsed.batches.push_back(std::move(batch));
    return std::make_unique<RecordBatch>();
  });
  parsed.shape = parser.shape();
  parsed.phase_conflict = parser.phase_conflict();
  return parsed;
}

/// Appends to `bytes` until they are `limit`; false when the content ends before.
bool fill(std::string& bytes, size_t limit, ContentReader& reader) {
  size_t filled = bytes.size();
  for (size_t n = 1; n > 0 && filled < limit; filled += n) {
    if (filled == bytes.size()) bytes.resize(std::clamp(filled * 4, kHeadBytes, limit));
    n = reader.read(bytes.data() + filled, bytes.size() - filled);
  }
  bytes.resize(filled);
  return filled == limit;
}

/// The run of a content as its path, or the user, names it.
RunIdentity identity_by_path(ContentKind kind, const std::string& path, const std::string& run) {
  RunIdentity identity = identify_run(path);
  if (run.empty() && is_foreign(kind)) {
    const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
    identity = identify_foreign(absolute, is_own_run(kind, absolute));
  } else if (!run.empty()) {
    const RunIdentity of_path = std::exchange(identity, identify_run(run + "/x"));
    identity.leg = of_path.leg;
    identity.prompt = is_foreign(kind) ? place_in_run(path) : of_path.prompt;
    if (identity.experiment.empty()) identity.experiment = run;
  }
  return identity;
}

}  // namespace

std::string OpenedContent::trouble() const {
  if (!reader->damage().empty() || !is_empty()) return reader->damage();
  return reader->is_compressed() ? "a valid gzip of nothing" : "an empty file";
}

RecordSource record_source(const OpenedContent& content) {
  const RunIdentity& run = content.identity;
  return {run.leg, run.prompt.empty() ? file_stem(content.identity_path) : run.prompt, {}};
}

OpenedReader::OpenedReader(const OpenedContent& content)
    : prefix_(content.bytes), rest_(*content.reader), is_whole_(content.is_whole) {
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

OpenedContent open_start(std::unique_ptr<ContentReader> reader, std::string file,
                         std::string identity_path, const std::string& run, ParseAhead parse) {
  OpenedContent content;
  content.file = std::move(file);
  content.identity_path = std::move(identity_path);
  content.reader = std::move(reader);
  content.is_whole = !fill(content.bytes, kHeadBytes, *content.reader);
  content.kind = classify(content.identity_path, content.bytes);
  content.identity = identity_by_path(content.kind, content.identity_path, run);
  const bool is_large = content.raw_bytes() > static_cast<int64_t>(kWholeBytes);
  if (content.kind != ContentKind::kArchive && !content.is_whole && !is_large) {
    content.is_whole = !fill(content.bytes, kWholeBytes + 1, *content.reader);
  }
  if (!content.is_whole) return content;
  if (parse == ParseAhead::kYes && content.kind == ContentKind::kRecords &&
      !content.bytes.empty() && content.bytes.size() <= kParsedAheadBytes) {
    content.records = parse_whole(content);
    content.sha256 = content.records->end.sha256;
  } else {
    content.sha256 = Sha256::hex_of(content.bytes);
  }
  return content;
}

}  // namespace greta
