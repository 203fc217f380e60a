#pragma once
#include <string_view>

#include "ingest/foreign/source.h"

namespace greta {

/// .safetensors: a name, a type and a range of bytes for each tensor. Names are keys.
void read_safetensors(const ForeignSource& source);

/// .npy: one array, whose name is the file's.
void read_npy(const ForeignSource& source);

/// A ZIP: what torch.save writes (a pickle and storages), or .npz (names are keys).
void read_zip(const ForeignSource& source);

/// Whether a ZIP that starts with `head` is one of these, by the name of its first member:
/// data.pkl, or an array. Any other ZIP may hold whatever it likes.
bool is_zip_of_tensors(std::string_view head);

/// Whether a file that starts with `head` is one: a length and a JSON object.
bool is_safetensors(std::string_view head);

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";
inline constexpr std::string_view kZipMagic = "PK\x03\x04";

}  // namespace greta
