#include "cli/greta_db/row_filter.h"

#include <limits>

#include "cli/greta_db/options.h"
#include "cli/options/shared_options.h"
#include "cli/warehouse/known_value.h"
#include "common/completion.h"
#include "db/trace_row.h"

namespace greta {

void RowFilter::add_options(CLI::App& command) {
  add_run_option(command, run, repeats);
  command.add_option("--prompt", prompt, "Only this prompt")
      ->check(offers_rows("SELECT DISTINCT name FROM prompt"))
      ->option_text("NAME");
  add_number_option(command, "--layer", layer, "Only this layer", -1, kMaxLayer);
  command.add_option("--tensor", tensor, "Only this tensor, as written or by its canonical name")
      ->check(offers_rows("SELECT name FROM tensor_name"))
      ->option_text("NAME");
  add_number_option(command, "--limit", limit, "At most this many rows");
}

void RowFilter::check(SQLite::Database& db, const std::vector<Run>& runs) const {
  check_known(db, NameOf::kPrompt, prompt);
  check_known(db, NameOf::kTensor, tensor);
  check_layer(db, runs, layer);
}

void RowFilter::add_to(Where& where) const {
  where.add_if(prompt, "prompt = ?");
  if (layer) where.add("layer = ?", *layer);
  if (!tensor.empty()) where.add("? IN (tensor, canonical_tensor)", tensor);
}

int64_t RowFilter::left(int64_t shown) const {
  return limit ? *limit - shown : std::numeric_limits<int64_t>::max();
}

}  // namespace greta
