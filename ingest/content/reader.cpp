#include "ingest/content/reader.h"

#include "ingest/content/byte_source.h"
#include "ingest/content/decoding_reader.h"

namespace greta {

void ContentReader::add_damage(std::string_view reason) {
  if (reason.empty() || damage_.find(reason) != std::string::npos) return;
  if (!damage_.empty()) damage_ += "; ";
  damage_ += reason;
}

std::unique_ptr<ContentReader> open_content(const std::filesystem::path& path) {
  return std::make_unique<DecodingReader>(std::make_unique<FileSource>(path),
                                          is_gzip_name(path.native()));
}

}  // namespace greta
