#pragma once
#include <string>
#include <string_view>

#include "ingest/foreign/source.h"

namespace greta {

/// Shape of another tool's file.
enum class ForeignKind {
  kNone,
  kMsprobe,           ///< dump.json: statistics, or hashes, of what each call got and gave
  kMsprobeConstruct,  ///< construct.json beside it, which has no rows of its own
  kDebugMode,         ///< of PyTorch's DebugMode.save_logs: operators with hashes of their tensors
  kLlamaText,         ///< of llama.cpp's debug callback: operations, some values and their sums
  kSafetensors,       ///< a name, a type and a range of bytes for each tensor; names are keys
  kNpy,               ///< one array, whose name is the file's
  kZip,               ///< of torch.save (a pickle and storages), or .npz (names are keys)
  kPickle,            ///< by itself, or what torch.save wrote before it wrote ZIPs: not read
};

/// By the first bytes of a file, 4096 if it has them, else by what its extension promises. A ZIP is
/// one of tensors when its first member is data.pkl or an array, or by its extension (".pt", in
/// lower case): any other may hold whatever it likes. A pickle is one of tensors by its extension
/// alone, and so is a tar.
ForeignKind foreign_kind(std::string_view extension, std::string_view head);

/// True if such a file is a run by itself: it names its tensors by key, so that two of them in one
/// folder may name the same ones. Others are parts of the run that their folder is.
bool is_own_run(ForeignKind kind, const std::string& path);

/// True if it may be read piece by piece: it need not be in memory.
bool is_read_in_pieces(ForeignKind kind);

/// Name of the shape in `source.shape`.
std::string shape_of(ForeignKind kind);

/// Reads one into `rows`. `path` says which step and rank it is of; beside a msprobe dump on the
/// disk its construct.json is read too. Throws ForeignError, which says what the file is, when it
/// cannot be taken as a whole; what was read before is in `rows`.
void read_foreign(ForeignKind kind, const std::string& path, Bytes& bytes, ForeignRows& rows);

/// `construct` is the text of the construct.json beside the dump, which says in which module a call
/// was made; "" when there is none.
void read_msprobe(const ForeignSource& source, const std::string& construct);
bool is_msprobe(std::string_view head);
bool is_msprobe_construct(std::string_view head);
void read_debug_mode(const ForeignSource& source);
bool is_debug_mode(std::string_view head);
void read_llama_text(const ForeignSource& source);
bool is_llama_text(std::string_view head);
void read_safetensors(const ForeignSource& source);
void read_npy(const ForeignSource& source);
void read_zip(const ForeignSource& source);

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::string_view kZipMagic = "PK\x03\x04";

}  // namespace greta
