#pragma once
#include <string>
#include <vector>

#include "ingest/foreign/pickle.h"

namespace greta {

/// What a call of a name that torch.save writes makes of its arguments. Nothing is run: it is told
/// from them. Throws ForeignError for arguments that torch.save does not write.
PickleValue called(const std::string& name, const std::vector<const PickleValue*>& arguments);

/// The storage that a persistent id stands for: ('storage', class, key, device, size). Throws
/// ForeignError for any other.
PickleValue storage_named(const PickleValue& id);

/// Throws ForeignError: "its pickle " and why.
[[noreturn]] void refuse_pickle(const std::string& why);

}  // namespace greta
