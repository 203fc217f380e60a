// Any bytes are a path: identify_run must name a run, and its relative path must name it again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ingest/run_identity.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view path(reinterpret_cast<const char*>(data), size);
  const greta::RunIdentity id = greta::identify_run(path);
  const std::string name = id.run_name();
  require(!name.empty());
  require(name == greta::identify_run(path).run_name());
  for (const char c : name) require(static_cast<uint8_t>(c) >= 0x20 && c != 0x7f);

  const greta::RunIdentity again = greta::identify_run("/x/" + id.relative_path);
  require(again.run_name() == name);
  require(again.relative_path == id.relative_path);
  require(again.leg == id.leg && again.prompt == id.prompt && again.dims == id.dims);
  require(again.family == id.family && again.variant == id.variant && again.date == id.date);
  return 0;
}
