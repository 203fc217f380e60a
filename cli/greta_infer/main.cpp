// greta-infer: runs Llama models and traces what prefill and decode compute.
#include "cli/greta_infer/program.h"

int main(int argc, char** argv) { return greta::run_greta_infer(argc, argv); }
