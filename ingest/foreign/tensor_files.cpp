#include "ingest/foreign/tensor_files.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "ingest/content/archive.h"
#include "ingest/foreign/bytes.h"

namespace greta {
namespace {

constexpr std::string_view kEmptyZipMagic = "PK\x05\x06";
constexpr size_t kHeadOfTensorFile = 4096;

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

}  // namespace

std::optional<TensorFile> tensor_file(std::string_view extension, std::string_view head) {
  if (head.starts_with(kZipMagic) || head.starts_with(kEmptyZipMagic)) {
    const bool is_named_so = is_torch_name(extension) || extension == ".npz";
    if (is_named_so || is_zip_of_tensors(head)) return TensorFile::kZip;
    return std::nullopt;
  }
  if (head.starts_with(kNpyMagic)) return TensorFile::kNpy;
  if (is_safetensors(head)) return TensorFile::kSafetensors;
  if (is_torch_name(extension) && begins_as_tar(head)) return TensorFile::kPickle;
  const bool may_be_pickle = is_pickle_name(extension) || extension == ".bin";
  if (may_be_pickle && begins_as_pickle(head)) return TensorFile::kPickle;
  return std::nullopt;
}

std::optional<TensorFile> tensor_file_named(std::string_view extension) {
  if (extension == ".npz") return TensorFile::kZip;
  if (extension == ".npy") return TensorFile::kNpy;
  if (extension == ".safetensors") return TensorFile::kSafetensors;
  if (is_pickle_name(extension)) return TensorFile::kPickle;
  return std::nullopt;
}

void read_tensor_file(TensorFile kind, const ForeignSource& source) {
  const std::string head = source.bytes.text(
      0, static_cast<size_t>(std::min<uint64_t>(source.bytes.size(), kHeadOfTensorFile)));
  refuse_stand_in(head);
  switch (kind) {
    case TensorFile::kZip:
      if (head.starts_with(kEmptyZipMagic)) throw ForeignError("a ZIP of nothing");
      if (!head.starts_with(kZipMagic)) throw ForeignError("no ZIP, though it is named like one");
      return read_zip(source);
    case TensorFile::kNpy:
      return read_npy(source);
    case TensorFile::kSafetensors:
      return read_safetensors(source);
    case TensorFile::kPickle:
      return refuse_unzipped(head);
  }
}

}  // namespace greta
