#include "llama_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char* const kTensors[kPoints] = {
    "embed_out",   "attn_norm_out", "q_pre_rope",        "k_pre_rope", "v_proj",
    "q_post_rope", "k_post_rope",   "attn_out",          "wo_out",     "residual_post_attn",
    "ffn_norm_in", "mlp_out",       "residual_post_mlp", "final_norm", "logits"};

// Nodes of the graph and the trace point that the last one of a name is.
static const struct {
  const char* node;
  enum point point;
} kNodes[] = {{"embd", kEmbedOut},
              {"attn_norm", kAttnNormOut},
              {"Qcur", kQPreRope},
              {"Qcur_normed", kQPreRope},
              {"Kcur", kKPreRope},
              {"Kcur_normed", kKPreRope},
              {"Vcur", kVProj},
              {"kqv_out", kAttnOut},
              {"attn_out", kWoOut},
              {"ffn_inp", kResidualPostAttn},
              {"ffn_norm", kFfnNormIn},
              {"ffn_out", kMlpOut},
              {"l_out", kResidualPostMlp},
              {"result_norm", kFinalNorm},
              {"result_output", kLogits}};

// The point that a node is, and its layer.
static enum point point_of(const struct ggml_tensor* node, int* layer) {
  const char* const dash = strrchr(node->name, '-');
  const size_t length = dash != NULL ? (size_t)(dash - node->name) : strlen(node->name);
  char* end = NULL;
  *layer = dash != NULL ? (int)strtol(dash + 1, &end, 10) : 0;
  if (dash == NULL || (end != dash + 1 && *end == '\0')) {
    for (size_t i = 0; i < sizeof kNodes / sizeof *kNodes; ++i) {
      const enum point point = kNodes[i].point;
      const bool in_layer = point != kEmbedOut && point < kFinalNorm;
      if (in_layer != (dash != NULL) || strlen(kNodes[i].node) != length ||
          strncmp(kNodes[i].node, node->name, length) != 0)
        continue;
      if (point >= kFinalNorm) *layer = GRETA_LAYER_AFTER_STACK;
      if (node->op != GGML_OP_ROPE) return point;
      return point == kQPreRope ? kQPostRope : point == kKPreRope ? kKPostRope : point;
    }
  }
  // Some architectures do not name the product behind attention.
  const struct ggml_tensor* const input = node->src[1];
  const bool follows = node->op == GGML_OP_MUL_MAT && input != NULL;
  return follows && point_of(input, layer) == kAttnOut ? kWoOut : kNoPoint;
}

bool is_wanted(const struct tracer* tracer, enum point point, int layer) {
  if (point == kNoPoint || !tracer->wants[point]) return false;
  if (point == kEmbedOut || point >= kFinalNorm) return true;
  return layer >= 0 && layer < tracer->n_layers && tracer->wants_layer[layer];
}

static void add_rows(struct tracer* tracer, enum point point, size_t from, size_t n_rows,
                     greta_phase phase) {
  const struct held* const held = &tracer->held[point];
  if (n_rows == 0 || tracer->failed) return;
  const int first = tracer->first_traced + (int)from;
  greta_row row = GRETA_ROW_INIT;
  row.prompt = tracer->prompt;
  row.tensor = kTensors[point];
  row.phase = phase;
  row.layer = tracer->layer;
  row.pos_id = tracer->first_pos + first;
  row.step = tracer->step;
  const greta_status status =
      greta_run_add_positions(tracer->run, &row, held->dtype, held->data + from * held->stride,
                              n_rows, held->n, held->stride, tracer->ids + first);
  if (status == GRETA_OK) return;
  fprintf(stderr, "llama_trace: %s: %s\n", kTensors[point], greta_error_text());
  tracer->failed = true;
}

// Writes what was computed of a layer.
void flush_rows(struct tracer* tracer) {
  for (int point = 0; point < kPoints; ++point) {
    struct held* const held = &tracer->held[point];
    if (!held->any) continue;
    add_rows(tracer, (enum point)point, 0, held->n_rows - 1, tracer->others);
    add_rows(tracer, (enum point)point, held->n_rows - 1, 1, tracer->last);
    held->any = false;
  }
}

static bool refuse(struct tracer* tracer, const struct ggml_tensor* node, const char* why) {
  fprintf(stderr, "llama_trace: node %s: %s\n", node->name, why);
  tracer->failed = true;
  return false;
}

// Copies the traced rows of a node. Behind the last attention it may have those alone.
static bool hold(struct tracer* tracer, enum point point, const struct ggml_tensor* node) {
  struct held* const held = &tracer->held[point];
  const bool by_head =
      point >= kQPreRope && point <= kKPostRope;  // perhaps [head_dim, heads, tokens]
  const size_t n_rows = by_head ? (size_t)tracer->n_tokens : (size_t)node->ne[1];
  const size_t n_traced = (size_t)(tracer->n_tokens - tracer->first_traced);
  if (n_rows != (size_t)tracer->n_tokens && n_rows != n_traced) {
    return refuse(tracer, node, "is not a row for each token");
  }
  switch (node->type) {
    case GGML_TYPE_F32:
      held->dtype = GRETA_F32;
      break;
    case GGML_TYPE_F16:
      held->dtype = GRETA_F16;
      break;
    case GGML_TYPE_BF16:
      held->dtype = GRETA_BF16;
      break;
    default:
      return refuse(tracer, node, "is neither f32 nor f16 nor bf16");
  }
  held->n = (size_t)ggml_nelements(node) / n_rows;
  const bool flat = held->n == (size_t)node->ne[0];
  held->stride = flat ? node->nb[1] : node->nb[2];
  const size_t size = ggml_type_size(node->type);
  if (node->nb[0] != size || (!flat && node->nb[1] != (size_t)node->ne[0] * size)) {
    return refuse(tracer, node, "has values that lie apart");
  }
  held->n_rows = n_traced;
  const size_t bytes = (n_traced - 1) * held->stride + held->n * size;
  if (bytes > held->room) {
    free(held->data);
    held->data = malloc(held->room = bytes);
    if (held->data == NULL) return refuse(tracer, node, "no memory for its rows");
  }
  ggml_backend_tensor_get(node, held->data, (n_rows - n_traced) * held->stride, bytes);
  held->any = true;
  return true;
}

bool on_node(struct ggml_tensor* node, bool ask, void* data) {
  struct tracer* const tracer = data;
  int layer = 0;
  const enum point point = point_of(node, &layer);
  const bool wanted = tracer->first_traced < tracer->n_tokens && is_wanted(tracer, point, layer);
  if (ask) return wanted;
  if (layer != tracer->layer) flush_rows(tracer);
  tracer->layer = layer;
  return hold(tracer, point, node) && !tracer->failed;
}
