#include "tests/queries/harm/harmful_edit.h"

namespace greta::harm {

const std::vector<Edit>& edits() {
  static const std::vector<Edit> kEdits = [] {
    std::vector<Edit> all = place_edits();
    for (const auto& more : {content_edits(), fact_edits()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return kEdits;
}

}  // namespace greta::harm
