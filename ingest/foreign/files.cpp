#include "ingest/foreign/files.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "ingest/content/archive.h"
#include "ingest/foreign/bytes.h"

namespace greta {
namespace {

constexpr std::string_view kEmptyZipMagic = "PK\x05\x06";
constexpr size_t kHeadOfTensorFile = 4096;
constexpr uint64_t kMaxConstructBytes = uint64_t{32} << 20;

bool is_torch_name(std::string_view extension) {
  return extension == ".pt" || extension == ".pth" || extension == ".ckpt";
}

bool is_pickle_name(std::string_view extension) {
  return is_torch_name(extension) || extension == ".pkl" || extension == ".pickle";
}

bool is_zip_of_tensors(std::string_view head) {
  // a local header: its name's length at 26, the name at 30 (APPNOTE.TXT, 4.3.7)
  constexpr size_t kLengthAt = 26, kNameAt = 30;
  if (!head.starts_with(kZipMagic) || head.size() < kNameAt) return false;
  const size_t length = static_cast<unsigned char>(head[kLengthAt]) |
                        static_cast<size_t>(static_cast<unsigned char>(head[kLengthAt + 1])) << 8;
  const std::string_view name = head.substr(kNameAt, length);
  return name.size() == length && (name.ends_with("data.pkl") || name.ends_with(".npy"));
}

/// A length and the start of a JSON object; of a length that no header has, an object that only
/// such a header is.
bool is_safetensors(std::string_view head) {
  constexpr size_t kObjectAt = sizeof(uint64_t);
  if (head.size() < kObjectAt + 2 || head[kObjectAt] != '{') return false;
  const char next = head[kObjectAt + 1];
  if (next != '"' && next != '}' && next != ' ') return false;
  uint64_t length = 0;
  std::memcpy(&length, head.data(), sizeof length);
  constexpr uint64_t kMostThatIsMeant = 100'000'000;
  const bool is_number = head.substr(0, kObjectAt).find('\0') != head.npos;
  return (length >= 2 && length <= kMostThatIsMeant) ||
         (is_number && head.find("\"data_offsets\"") != head.npos);
}

/// PROTO, which protocols from 2 on begin with.
bool begins_as_pickle(std::string_view head) {
  return head.size() > 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

/// Protocols 0 and 1 begin with what they hold: a container, or the name of a class.
bool begins_as_old_pickle(std::string_view head) {
  for (std::string_view start :
       {"(dp", "(lp", "(tp", "}q", "]q", "ccopy_reg\n", "ccollections\n", "ctorch"}) {
    if (head.starts_with(start)) return true;
  }
  return false;
}

std::string what_pickle(std::string_view head) {
  // the number that torch.save writes first, as a pickle of its own
  constexpr std::string_view kMagicNumber = "\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
  if (begins_as_pickle(head)) {
    if (head.substr(2).starts_with(kMagicNumber)) {
      return "what torch.save wrote before PyTorch 1.6, and still writes without"
             " _use_new_zipfile_serialization";
    }
    return "a bare pickle of protocol " + std::to_string(head[1]);
  }
  if (begins_as_old_pickle(head)) return "a bare pickle of protocol 0 or 1";
  if (begins_as_tar(head)) return "a tar, as the first versions of PyTorch wrote them";
  return "neither a ZIP nor a pickle, though it is named like one";
}

[[noreturn]] void refuse_unzipped(std::string_view head) {
  throw ForeignError(what_pickle(head) +
                     "; greta reads the ZIP that torch.save writes today: load it where you trust"
                     " it, and torch.save() its tensors");
}

/// What stands in the place of a file.
void refuse_stand_in(std::string_view head) {
  if (head.empty()) throw ForeignError("an empty file");
  if (head.starts_with("version https://git-lfs.")) {
    throw ForeignError("a pointer of Git LFS instead of the file: git lfs pull");
  }
}

/// By the bytes alone where they say it.
ForeignKind kind_by_bytes(std::string_view extension, std::string_view head) {
  if (head.starts_with(kZipMagic) || head.starts_with(kEmptyZipMagic)) {
    const bool is_named_so = is_torch_name(extension) || extension == ".npz";
    return is_named_so || is_zip_of_tensors(head) ? ForeignKind::kZip : ForeignKind::kNone;
  }
  if (head.starts_with(kNpyMagic)) return ForeignKind::kNpy;
  if (is_safetensors(head)) return ForeignKind::kSafetensors;
  const bool may_be_pickle = is_pickle_name(extension) || extension == ".bin";
  if (may_be_pickle && begins_as_pickle(head)) return ForeignKind::kPickle;
  const bool is_text = head.find('\0') == head.npos;
  if (is_text && (extension.empty() || extension == ".json")) {
    if (is_debug_mode(head)) return ForeignKind::kDebugMode;
    if (is_msprobe(head)) return ForeignKind::kMsprobe;
    if (is_msprobe_construct(head)) return ForeignKind::kMsprobeConstruct;
  }
  const bool may_be_log = extension == ".txt" || extension == ".log" || extension.empty();
  return may_be_log && is_llama_text(head) ? ForeignKind::kLlamaText : ForeignKind::kNone;
}

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

ForeignKind foreign_kind(std::string_view extension, std::string_view head) {
  const ForeignKind by_bytes = kind_by_bytes(extension, head);
  if (by_bytes != ForeignKind::kNone) return by_bytes;
  if (extension == ".npz") return ForeignKind::kZip;
  if (extension == ".npy") return ForeignKind::kNpy;
  if (extension == ".safetensors") return ForeignKind::kSafetensors;
  return is_pickle_name(extension) ? ForeignKind::kPickle : ForeignKind::kNone;
}

bool is_own_run(ForeignKind kind, const std::string& path) {
  if (kind == ForeignKind::kZip) {
    const ForeignPath said = read_foreign_path(path);
    return !said.is_pass && !said.is_dumped;
  }
  return kind == ForeignKind::kSafetensors || kind == ForeignKind::kDebugMode ||
         kind == ForeignKind::kLlamaText;
}

bool is_read_in_pieces(ForeignKind kind) { return kind >= ForeignKind::kSafetensors; }

std::string shape_of(ForeignKind kind) {
  constexpr const char* kShapes[] = {"unknown",    "msprobe",     "msprobe_construct",
                                     "debug_mode", "llama_debug", "safetensors",
                                     "npy",        "tensors",     "unknown"};
  return kShapes[static_cast<size_t>(kind)];
}

void read_foreign(ForeignKind kind, const std::string& path, Bytes& bytes, ForeignRows& rows) {
  const ForeignSource source{read_foreign_path(path), bytes, rows};
  const std::string head =
      bytes.text(0, static_cast<size_t>(std::min<uint64_t>(bytes.size(), kHeadOfTensorFile)));
  if (is_read_in_pieces(kind)) refuse_stand_in(head);
  switch (kind) {
    case ForeignKind::kNone:
    case ForeignKind::kMsprobeConstruct:
      break;  // it is read with the dump that it belongs to
    case ForeignKind::kMsprobe:
      read_msprobe(source, construct_beside(path));
      break;
    case ForeignKind::kDebugMode:
      read_debug_mode(source);
      break;
    case ForeignKind::kLlamaText:
      read_llama_text(source);
      break;
    case ForeignKind::kSafetensors:
      read_safetensors(source);
      break;
    case ForeignKind::kNpy:
      read_npy(source);
      break;
    case ForeignKind::kZip:
      if (head.starts_with(kEmptyZipMagic)) throw ForeignError("a ZIP of nothing");
      if (!head.starts_with(kZipMagic)) throw ForeignError("no ZIP, though it is named like one");
      read_zip(source);
      break;
    case ForeignKind::kPickle:
      refuse_unzipped(head);
  }
  rows.finish();
}

}  // namespace greta
