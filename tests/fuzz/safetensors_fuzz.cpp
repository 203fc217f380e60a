// Any bytes are a .safetensors: rows and findings, or one error.
#include "ingest/foreign/tensor_files.h"
#include "tests/fuzz/foreign_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return greta::read_any(data, size, "d/x.safetensors", [](const greta::ForeignSource& source) {
    greta::read_safetensors(source);
  });
}
