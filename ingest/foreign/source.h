#pragma once
#include <string>
#include <string_view>

#include "ingest/foreign/bytes.h"
#include "ingest/foreign/path.h"
#include "ingest/foreign/rows.h"

namespace greta {

/// A file of another tool, to be read into `rows`. What cannot be taken is a finding of `rows`;
/// what spoils the whole file is a ForeignError.
struct ForeignSource {
  ForeignPath path;
  Bytes& bytes;
  ForeignRows& rows;

  /// All of a text.
  std::string text() const { return bytes.text(0, static_cast<size_t>(bytes.size())); }
};

}  // namespace greta
