#pragma once
#include <optional>
#include <string_view>

#include "ingest/foreign/dtype.h"

namespace greta {

/// "module.name", as a pickle asks for it, is one that torch.save writes.
bool is_known_name(std::string_view name);

/// Of a storage's class ("torch.HalfStorage"); nothing for one whose values greta does not read.
std::optional<Dtype> dtype_of_storage(std::string_view name);

/// Of a dtype ("torch.bfloat16"); nothing for one that greta does not read.
std::optional<Dtype> dtype_named(std::string_view name);

/// What a call of this name makes: a tensor that greta does not read ("is sparse"); "" of all
/// others.
std::string_view unread_tensor_of(std::string_view name);

/// Whether a call of this name makes a number.
bool makes_number(std::string_view name);

}  // namespace greta
