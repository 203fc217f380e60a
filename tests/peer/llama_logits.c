// Logits and speed of llama.cpp, for comparison with greta; see compare.sh.
//
//   llama_logits MODEL IDS OUT [WINDOW]
//       IDS: token ids as text; OUT: f32 [n_ids, vocab] of every position. With a WINDOW tokens are
//       decoded one by one, and what lies before a token's window is taken out of the cache first:
//       llama.cpp looks at no sliding window of these architectures.
//   llama_logits MODEL --bench P G N
//       P tokens of prefill, then G of decode, with N threads (NGL layers on a GPU, none unless
//       set): prints two numbers, tokens per second
//   llama_logits MODEL --to-f32 OUT
//       the model with its weights expanded to f32
//
// For logits the KV cache is f32 and attention plain, so that only weights and activations are
// rounded; for speed everything is left at llama.cpp's defaults. Libraries are found in
// $GRETA_LLAMA_LIBS.
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void errors_only(enum ggml_log_level level, const char* text, void* unused) {
  (void)unused;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void must(int ok, const char* what) {
  if (ok) return;
  fprintf(stderr, "llama_logits: %s failed\n", what);
  exit(1);
}

static int gpu_layers(void) {
  const char* layers = getenv("NGL");
  return layers != NULL ? atoi(layers) : 0;
}

static int read_ids(const char* path, llama_token** ids) {
  FILE* file = fopen(path, "r");
  must(file != NULL, path);
  int n = 0, room = 0, id;
  while (fscanf(file, "%d", &id) == 1) {
    if (n == room) {
      room = room ? 2 * room : 1024;
      *ids = realloc(*ids, sizeof(llama_token) * (size_t)room);
      must(*ids != NULL, "realloc");
    }
    (*ids)[n++] = id;
  }
  fclose(file);
  return n;
}

static void add(struct llama_batch* batch, llama_token id, int pos) {
  const int i = batch->n_tokens++;
  batch->token[i] = id;
  batch->pos[i] = pos;
  batch->n_seq_id[i] = 1;
  batch->seq_id[i][0] = 0;
  batch->logits[i] = 1;
}

static void logits(struct llama_model* model, const char* ids_path, const char* out_path,
                   int window) {
  llama_token* ids = NULL;
  const int n = read_ids(ids_path, &ids);
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = (uint32_t)n + 8;
  params.n_threads = params.n_threads_batch = 2;
  params.type_k = params.type_v = GGML_TYPE_F32;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.op_offload = gpu_layers() > 0;  // else a library with a GPU uses it all the same
  struct llama_context* context = llama_init_from_model(model, params);
  must(context != NULL, "llama_init_from_model");
  FILE* out = fopen(out_path, "wb");
  must(out != NULL, out_path);
  const size_t vocab = (size_t)llama_vocab_n_tokens(llama_model_get_vocab(model));
  struct llama_batch batch = llama_batch_init(n, 0, 1);
  const int at_once = window > 0 ? 1 : n;
  for (int first = 0; first < n; first += at_once) {
    if (window > 0 && first >= window) {
      llama_memory_t cache = llama_get_memory(context);
      must(llama_memory_seq_rm(cache, 0, 0, first - window + 1), "llama_memory_seq_rm");
    }
    batch.n_tokens = 0;
    for (int i = first; i < first + at_once; ++i) add(&batch, ids[i], i);
    must(llama_decode(context, batch) == 0, "llama_decode");
    for (int i = 0; i < at_once; ++i) {
      must(fwrite(llama_get_logits_ith(context, i), sizeof(float), vocab, out) == vocab, "fwrite");
    }
  }
  must(fclose(out) == 0, out_path);
}

static void bench(struct llama_model* model, int n_prompt, int n_decode, int threads) {
  const int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = (uint32_t)(n_prompt + n_decode + 8);
  params.n_batch = params.n_ubatch = (uint32_t)n_prompt;
  params.n_threads = params.n_threads_batch = threads;
  struct llama_context* context = llama_init_from_model(model, params);
  must(context != NULL, "llama_init_from_model");
  llama_token* ids = malloc(sizeof(llama_token) * (size_t)n_prompt);
  must(ids != NULL, "malloc");
  for (int i = 0; i < n_prompt; ++i) ids[i] = (llama_token)((i * 7919 + 13) % vocab);
  double start = 0;
  for (int round = 0; round < 2; ++round) {  // the first warms up
    llama_memory_clear(llama_get_memory(context), true);
    start = seconds();
    must(llama_decode(context, llama_batch_get_one(ids, n_prompt)) == 0, "prefill");
    llama_synchronize(context);
  }
  const double prefill = seconds() - start;
  start = seconds();
  for (int i = 0; i < n_decode; ++i) {
    llama_token id = (llama_token)((i * 31 + 5) % vocab);
    must(llama_decode(context, llama_batch_get_one(&id, 1)) == 0, "decode");
  }
  llama_synchronize(context);
  printf("%.2f %.2f\n", n_prompt / prefill, n_decode / (seconds() - start));
}

static void expand(const char* model_path, const char* out_path) {
  struct llama_model_quantize_params params = llama_model_quantize_default_params();
  params.ftype = LLAMA_FTYPE_ALL_F32;
  params.allow_requantize = true;
  params.nthread = 2;
  must(llama_model_quantize(model_path, out_path, &params) == 0, "llama_model_quantize");
}

int main(int argc, char** argv) {
  const int benching = argc == 6 && strcmp(argv[2], "--bench") == 0;
  if (argc != 4 && argc != 5 && !benching) {
    fputs(
        "usage: llama_logits MODEL IDS OUT [WINDOW] | llama_logits MODEL --bench P G THREADS"
        " | llama_logits MODEL --to-f32 OUT\n",
        stderr);
    return 2;
  }
  llama_log_set(errors_only, NULL);
  llama_backend_init();
  ggml_backend_load_all_from_path(getenv("GRETA_LLAMA_LIBS"));
  if (strcmp(argv[2], "--to-f32") == 0) {
    expand(argv[1], argv[3]);
    return 0;
  }
  struct llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = gpu_layers();
  struct llama_model* model = llama_model_load_from_file(argv[1], params);
  must(model != NULL, argv[1]);
  if (benching) {
    bench(model, atoi(argv[3]), atoi(argv[4]), atoi(argv[5]));
  } else {
    logits(model, argv[2], argv[3], argc == 5 ? atoi(argv[4]) : 0);
  }
  return 0;
}
