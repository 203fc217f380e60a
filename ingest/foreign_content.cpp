#include "ingest/foreign_content.h"

#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "common/sha256.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/source.h"
#include "ingest/foreign/tensor_files.h"
#include "ingest/foreign/text_files.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr uint64_t kMaxConstructBytes = uint64_t{32} << 20;

/// Which module each call of a msprobe dump belongs to; "" where nobody says.
std::string construct_beside(const std::string& path) {
  const std::filesystem::path file = std::filesystem::path(path).parent_path() / "construct.json";
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) return "";
  try {
    FileBytes bytes(file);
    if (bytes.size() > kMaxConstructBytes) return "";
    return bytes.text(0, static_cast<size_t>(bytes.size()));
  } catch (const std::system_error&) {
    return "";
  }
}

}  // namespace

bool is_own_run(ContentKind kind, const std::string& path) {
  if (kind == ContentKind::kZip) {
    const ForeignPath said = read_foreign_path(path);
    return !said.is_pass && !said.is_dumped;
  }
  return kind == ContentKind::kSafetensors || kind == ContentKind::kDebugMode ||
         kind == ContentKind::kLlamaText;
}

bool is_read_in_pieces(ContentKind kind) {
  return kind == ContentKind::kSafetensors || kind == ContentKind::kNpy ||
         kind == ContentKind::kZip || kind == ContentKind::kPickle;
}

std::string shape_of(ContentKind kind) {
  switch (kind) {
    case ContentKind::kMsprobe:
      return "msprobe";
    case ContentKind::kMsprobeConstruct:
      return "msprobe_construct";
    case ContentKind::kDebugMode:
      return "debug_mode";
    case ContentKind::kLlamaText:
      return "llama_debug";
    case ContentKind::kSafetensors:
      return "safetensors";
    case ContentKind::kNpy:
      return "npy";
    case ContentKind::kZip:
      return "tensors";
    default:
      return "unknown";
  }
}

NameRules load_name_rules(SQLite::Database& db) {
  NameRules rules;
  SQLite::Statement query(db, "SELECT pattern, tensor FROM name_rule ORDER BY ord, id");
  while (query.executeStep()) {
    const std::string pattern = query.getColumn(0).getString();
    try {
      rules.add(pattern, query.getColumn(1).getString());
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("name rule '" + pattern + "': " + error.what());
    }
  }
  return rules;
}

void read_foreign(ContentKind kind, const std::string& path, Bytes& bytes, ForeignRows& rows) {
  const ForeignSource source{read_foreign_path(path), bytes, rows};
  switch (kind) {
    case ContentKind::kMsprobe:
      read_msprobe(source, construct_beside(path));
      break;
    case ContentKind::kDebugMode:
      read_debug_mode(source);
      break;
    case ContentKind::kLlamaText:
      read_llama_text(source);
      break;
    case ContentKind::kSafetensors:
      read_tensor_file(TensorFile::kSafetensors, source);
      break;
    case ContentKind::kNpy:
      read_tensor_file(TensorFile::kNpy, source);
      break;
    case ContentKind::kZip:
      read_tensor_file(TensorFile::kZip, source);
      break;
    case ContentKind::kPickle:
      read_tensor_file(TensorFile::kPickle, source);
      break;
    default:
      break;  // construct.json is read with the dump that it belongs to
  }
  rows.finish();
}

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

std::string place_in_run(const std::string& path) { return read_foreign_path(path).place; }

}  // namespace greta
