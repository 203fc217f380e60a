#pragma once
#include <functional>
#include <string>

#include "ingest/foreign/pickle.h"

namespace greta {

/// Calls `on_tensor` for every tensor of a pickle, with its name: keys and numbers joined by ".",
/// of a pickle that is one tensor `alone`. `on_other` gets the names of values that are none, and
/// of tensors that greta does not read (kUnread). Throws ForeignError for containers in containers
/// beyond 32, and beyond 100,000 values.
void for_each_tensor(
    const PickleValue& root, const std::string& alone,
    const std::function<void(std::string name, const Tensor& tensor)>& on_tensor,
    const std::function<void(const std::string& name, const PickleValue& value)>& on_other);

/// A plain value as JSON: its first 256 values, containers up to 4 deep. What has no JSON is a text
/// of what it is.
std::string json_of(const PickleValue& value);

}  // namespace greta
