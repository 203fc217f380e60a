#pragma once
#include <optional>
#include <string_view>

#include "ingest/foreign/source.h"

namespace greta {

/// What files of tensors are.
enum class TensorFile {
  kZip,          ///< what torch.save writes (a pickle and storages), or .npz (names are keys)
  kNpy,          ///< one array, whose name is the file's
  kSafetensors,  ///< a name, a type and a range of bytes for each tensor; names are keys
  kPickle,       ///< by itself, or what torch.save wrote before it wrote ZIPs: not read
};

/// By the first bytes of a file, 4096 if it has them. A ZIP is one of tensors when its first member
/// is data.pkl or an array, or by its extension (".pt", in lower case): any other may hold whatever
/// it likes. A pickle is one of tensors by its extension alone, and so is a tar.
std::optional<TensorFile> tensor_file(std::string_view extension, std::string_view head);

/// Of a file whose bytes say nothing: what it would be, by its extension.
std::optional<TensorFile> tensor_file_named(std::string_view extension);

/// Reads one. Throws ForeignError, which says what the file is, for one that is not what its name
/// says, and for every pickle.
void read_tensor_file(TensorFile kind, const ForeignSource& source);

void read_safetensors(const ForeignSource& source);
void read_npy(const ForeignSource& source);
void read_zip(const ForeignSource& source);

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::string_view kZipMagic = "PK\x03\x04";

}  // namespace greta
