#include "ingest/record/batch.h"

namespace greta {

void RecordBatch::clear() {
  rows.clear();
  readouts.clear();
  differences.clear();
  prompts.clear();
  phases.clear();
  names.clear();
  contexts.clear();
  events.clear();
  hash_algo.clear();
  findings.clear();
  samples.clear();
  sketches.clear();
  contexts_from = 0;
  lines = 0;
  kept_bytes = 0;
}

}  // namespace greta
