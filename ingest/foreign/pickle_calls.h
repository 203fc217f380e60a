#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/foreign/pickle.h"
#include "ingest/foreign/tensor.h"

namespace greta {

/// "module.name", as a pickle asks for it, is one that torch.save writes.
bool is_known_name(std::string_view name);

/// Type of a storage's class ("torch.HalfStorage"); nothing for one whose values greta does not
/// read.
std::optional<Dtype> dtype_of_storage(std::string_view name);

/// Type of a dtype ("torch.bfloat16"); nothing for one that greta does not read.
std::optional<Dtype> dtype_named(std::string_view name);

/// Result of a call of this name: a tensor that greta does not read ("is sparse"); "" of all
/// others.
std::string_view unread_tensor_of(std::string_view name);

/// True if a call of this name makes a number.
bool makes_number(std::string_view name);

/// What a call of a name that torch.save writes makes of its arguments. Nothing is run: it is told
/// from them. Throws ForeignError for arguments that torch.save does not write.
PickleValue called(const std::string& name, const std::vector<const PickleValue*>& arguments);

/// The storage that a persistent id stands for: ('storage', class, key, device, size). Throws
/// ForeignError for any other.
PickleValue storage_named(const PickleValue& id);

/// Throws ForeignError: "its pickle " and why.
[[noreturn]] void refuse_pickle(const std::string& why);

}  // namespace greta
