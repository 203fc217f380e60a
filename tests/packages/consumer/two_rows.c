/* A program of somebody who has only what is installed: one row of both phases, in the file named.
 */
#include <greta_trace.h>
#include <stdio.h>

int main(int argc, char** argv) {
  const float values[4] = {1.0f, -2.0f, 0.5f, 3.0f};
  greta_trace* trace = NULL;
  greta_run* run = NULL;
  greta_run_info info = GRETA_RUN_INFO_INIT;
  greta_row row = GRETA_ROW_INIT;
  info.experiment = "from_c";
  row.tensor = "attn_out";
  row.layer = 3;
  row.pos_id = 17;
  row.phase = GRETA_PREFILL_LAST;
  if (argc != 2 || greta_trace_open(argv[1], GRETA_DATABASE, &trace) != GRETA_OK ||
      greta_run_begin(trace, &info, &run) != GRETA_OK ||
      greta_run_add_values(run, &row, GRETA_F32, values, 4) != GRETA_OK)
    return fprintf(stderr, "%s\n", greta_error_text()), 1;
  row.phase = GRETA_DECODE0;
  if (greta_run_add_values(run, &row, GRETA_F32, values, 4) != GRETA_OK ||
      greta_run_end(run, GRETA_COMPLETE) != GRETA_OK)
    return fprintf(stderr, "%s\n", greta_error_text()), 1;
  puts(greta_version());
  return greta_trace_close(trace) != GRETA_OK;
}
