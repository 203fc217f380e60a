#include "ingest/foreign_identity.h"

#include "common/sha256.h"
#include "ingest/content_name.h"
#include "ingest/foreign/path.h"

namespace greta {

RunIdentity identify_foreign(const std::string& path, bool is_own_run) {
  const ForeignPath said = read_foreign_path(path);
  const std::string file = path.substr(path.find_last_of('/') + 1);
  RunIdentity identity = identify_run(said.folder + "/" + file);
  const std::string stem = file_stem(path);
  if (identity.experiment.empty()) {
    const std::string folder = said.folder.substr(said.folder.find_last_of('/') + 1);
    identity.experiment = is_own_run || folder.empty() ? stem : folder;
    std::string above = is_own_run ? folder : "";
    if (!is_own_run && folder.size() + 1 < said.folder.size()) {
      above = said.folder.substr(0, said.folder.size() - folder.size() - 1);
      above = above.substr(above.find_last_of('/') + 1);
    }
    identity.dims["case"] =
        (above.empty() ? "" : above + "-") + Sha256::hex_of(said.folder).substr(0, 8);
  } else if (is_own_run) {
    std::string& joined = identity.dims["case"];
    joined += (joined.empty() ? "" : "/") + stem;
  }
  identity.leg.clear();
  identity.prompt = said.place;
  return identity;
}

std::string place_in_run(const std::string& path) { return read_foreign_path(path).place; }

}  // namespace greta
