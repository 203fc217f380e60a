/* The header and its initialisers as C11 has them. */
#include "include/greta_trace.h"

int c11_program_of_greta_trace(const char* path);

int c11_program_of_greta_trace(const char* path) {
  const float values[] = {1.0f, 2.0f};
  greta_trace* trace = NULL;
  greta_run* run = NULL;
  greta_run_info info = GRETA_RUN_INFO_INIT;
  greta_prompt prompt = GRETA_PROMPT_INIT;
  greta_row row = GRETA_ROW_INIT;
  greta_fingerprint fingerprint = GRETA_FINGERPRINT_INIT;
  info.experiment = "c11";
  info.date = "2026-11-24";
  prompt.name = "p0";
  row.tensor = "logits";
  row.phase = GRETA_DECODE0;
  row.layer = GRETA_LAYER_AFTER_STACK;
  row.pos_id = 0;
  int failed = greta_trace_open(path, GRETA_DATABASE, &trace) != GRETA_OK ||
               greta_run_begin(trace, &info, &run) != GRETA_OK ||
               greta_run_add_prompt(run, &prompt) != GRETA_OK ||
               greta_fingerprint_values(GRETA_F32, values, 2, &fingerprint) != GRETA_OK ||
               greta_run_add_fingerprint(run, &row, &fingerprint) != GRETA_OK ||
               greta_run_end(run, GRETA_COMPLETE) != GRETA_OK;
  return failed || greta_trace_close(trace) != GRETA_OK;
}
