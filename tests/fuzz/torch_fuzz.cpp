// Any bytes are a pickle of torch.save, by themselves and in a ZIP: nothing but rows, findings and
// errors comes of them.
#include "ingest/foreign/pickle.h"
#include "ingest/foreign/tensor_files.h"
#include "ingest/foreign/torch_tree.h"
#include "tests/fuzz/foreign_target.h"

namespace {

void read_pickle(std::string_view bytes) {
  try {
    const greta::Pickle pickle(bytes);
    greta::for_each_tensor(
        pickle.root(), "x",
        [](const std::string&, const greta::Tensor& tensor) { (void)greta::text_of(tensor.shape); },
        [](const std::string&, const greta::PickleValue&) {});
    greta::require(!greta::json_of(pickle.root()).empty());
  } catch (const greta::ForeignError& error) {
    greta::require(*error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.starts_with(greta::kZipMagic)) {
    return greta::read_any(data, size, "d/Pass00001.pt",
                           [](const greta::ForeignSource& source) { greta::read_zip(source); });
  }
  read_pickle(bytes);
  return 0;
}
