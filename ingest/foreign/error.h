#pragma once
#include <stdexcept>

namespace greta {

/// A file or a tensor of another tool that cannot be taken; the message says which and why.
struct ForeignError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace greta
