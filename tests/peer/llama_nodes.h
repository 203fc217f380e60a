#ifndef GRETA_TESTS_PEER_LLAMA_NODES_H
#define GRETA_TESTS_PEER_LLAMA_NODES_H

// What the nodes of llama.cpp's graph are to greta. Rows are taken in the callback that llama.cpp
// has for every node (cb_eval). A node is known by its name and layer, Qcur-3, and where a name
// repeats by its operation: ROPE turns the last Qcur before it.

#include <greta_trace.h>
#include <llama.h>
#include <stdbool.h>

enum point {
  kEmbedOut,
  kAttnNormOut,
  kQPreRope,
  kKPreRope,
  kVProj,
  kQPostRope,
  kKPostRope,
  kAttnOut,
  kWoOut,
  kResidualPostAttn,
  kFfnNormIn,
  kMlpOut,
  kResidualPostMlp,
  kFinalNorm,
  kLogits,
  kPoints,
  kNoPoint = kPoints
};

extern const char* const kTensors[kPoints];  // their names

// Rows of one trace point, until no later node can be meant.
struct held {
  bool any;
  greta_dtype dtype;
  size_t n_rows, n, stride, room;
  char* data;
};

// What the graph that runs computes, and what becomes of it.
struct tracer {
  greta_run* run;
  int n_layers;
  bool wants[kPoints], *wants_layer, every, failed;
  const char* prompt;
  const llama_token* ids;      // of the batch
  int n_tokens, first_traced;  // of the batch; first_traced == n_tokens: none
  int first_pos, step;         // of the batch
  greta_phase last, others;
  int layer;  // that `held` is of
  struct held held[kPoints];
};

bool is_wanted(const struct tracer* tracer, enum point point, int layer);

// For llama_context_params, with a struct tracer as its data.
bool on_node(struct ggml_tensor* node, bool ask, void* data);

// Writes the rows that are held: after a batch.
void flush_rows(struct tracer* tracer);

#endif
