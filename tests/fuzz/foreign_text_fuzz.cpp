// Any bytes are a msprobe dump, DebugMode's logs and llama.cpp's debug text, whichever their first
// byte says.
#include "ingest/foreign/text_files.h"
#include "tests/fuzz/foreign_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using greta::ForeignSource;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)greta::is_msprobe(text);
  (void)greta::is_msprobe_construct(text);
  (void)greta::is_debug_mode(text);
  (void)greta::is_llama_text(text);
  if (text.starts_with("{") && greta::is_debug_mode(text)) {
    return greta::read_any(data, size, "d/x.json",
                           [](const ForeignSource& source) { greta::read_debug_mode(source); });
  }
  if (text.starts_with("{")) {
    // The first half of some inputs says where its calls were made.
    const std::string construct(text.substr(0, text.find("}") + 1));
    return greta::read_any(data, size, "d/step3/rank1/dump.json", [&](const ForeignSource& source) {
      greta::read_msprobe(source, construct);
    });
  }
  return greta::read_any(data, size, "d/x.txt",
                         [](const ForeignSource& source) { greta::read_llama_text(source); });
}
