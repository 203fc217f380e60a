#include "ingest/opened_content.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/sha256.h"
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

/// The run of another tool's file: what the path above steps and ranks says; where it says nothing,
/// its folder, told from others of that name by a hash. With is_own_run, the file is a run by
/// itself. `path` is absolute.
RunIdentity identify_foreign(const std::string& path, bool is_own_run) {
  const ForeignPath said = read_foreign_path(path);
  const std::string file = path.substr(path.find_last_of('/') + 1);
  RunIdentity identity = identify_run(said.folder + "/" + file);
  const std::string stem = file_stem(path);
  if (identity.experiment.empty()) {
    const std::string folder = said.folder.substr(said.folder.find_last_of('/') + 1);
    identity.experiment = is_own_run || folder.empty() ? stem : folder;
    std::string above = is_own_run ? folder : "";
    if (!is_own_run && folder.size() + 1 < said.folder.size()) {
      above = said.folder.substr(0, said.folder.size() - folder.size() - 1);
      above = above.substr(above.find_last_of('/') + 1);
    }
    identity.dims["case"] =
        (above.empty() ? "" : above + "-") + Sha256::hex_of(said.folder).substr(0, 8);
  } else if (is_own_run) {
    std::string& joined = identity.dims["case"];
    joined += (joined.empty() ? "" : "/") + stem;
  }
  identity.leg.clear();
  identity.prompt = said.place;
  return identity;
}

/// The run of a content as its path, or the user, names it.
RunIdentity identity_by_path(ForeignKind kind, const std::string& path, const std::string& run) {
  RunIdentity identity = identify_run(path);
  const bool is_foreign = kind != ForeignKind::kNone;
  if (run.empty() && is_foreign) {
    const std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
    identity = identify_foreign(absolute, is_own_run(kind, absolute));
  } else if (!run.empty()) {
    const RunIdentity of_path = std::exchange(identity, identify_run(run + "/x"));
    identity.leg = of_path.leg;
    identity.prompt = is_foreign ? read_foreign_path(path).place : of_path.prompt;
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
  content.foreign = foreign_kind(lower_extension(content.identity_path), content.bytes);
  const bool is_foreign = content.foreign != ForeignKind::kNone;
  content.kind =
      is_foreign ? ContentKind::kForeign : classify(content.identity_path, content.bytes);
  content.identity = identity_by_path(content.foreign, content.identity_path, run);
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
