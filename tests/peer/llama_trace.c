// llama.cpp as an engine that greta judges: what its graph computes for prompts, as rows of a run.
//
//   llama_trace --model M.gguf --db greta.db --tokens NAME=1,15043,29892 [--prompt NAME=TEXT ...]
//
// Each prompt is prefilled and its last token is traced (phase prefill_last; with --positions all
// the others too, as prefill); then the cache is cut back to the tokens before it, and that token
// runs alone (decode0). So the run has a verdict of its own, and compares with other engines' of
// the same prompts. The run's name is printed. kUsage has all options; build_llama_trace compiles
// it. The backends of llama.cpp are looked for in $GRETA_LLAMA_LIBS.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "llama_nodes.h"

static const char kUsage[] =
    "usage: llama_trace --model FILE (--db FILE | --jsonl FILE) PROMPTS [OPTIONS]\n"
    "  --tokens NAME=ID,ID,...  a prompt as token ids; repeatable\n"
    "  --prompt NAME=TEXT       a prompt as text; repeatable\n"
    "  --experiment NAME        of the run (llama.cpp)\n"
    "  --run-name NAME          instead of DATE/EXPERIMENT\n"
    "  --commit SHA             of llama.cpp\n"
    "  --model-sha256 HEX       of the file: runs of other models are not compared\n"
    "  --dtype NAME             arithmetic that tolerances go by, where not the model's is meant\n"
    "  --layers N,N,...         to trace (all)\n"
    "  --tensors NAME,NAME,...  to trace (all)\n"
    "  --positions last|all     of prefill (last)\n"
    "  --f32                    KV cache in f32, attention step by step: no fused kernel\n"
    "  --threads N              (2)\n"
    "  --batch N                tokens at once (512)\n"
    "  --gpu-layers N           (0)\n";

enum option_name {
  kModel,
  kDb,
  kJsonl,
  kExperiment,
  kRunName,
  kCommit,
  kModelSha256,
  kDtype,
  kLayers,
  kTensorNames,
  kPositions,
  kThreads,
  kBatch,
  kGpuLayers,
  kOptions,  // those above are texts
  kTokens = kOptions,
  kPrompt,
  kF32,
  kHelp
};

enum { kMaxPrompts = 256 };

struct prompt {
  char* name;
  llama_token* ids;
  int n;
};

struct options {
  const char* text[kOptions];
  const char* given[kMaxPrompts];  // NAME=...
  bool is_text[kMaxPrompts];       // else ids
  int n_prompts, threads, batch, gpu_layers;
  bool f32;
};

static void die(const char* what, const char* why) {
  fprintf(stderr, "llama_trace: %s%s%s\n", what, *why ? ": " : "", why);
  exit(2);
}

static void must(greta_status status, const char* what) {
  if (status != GRETA_OK) die(what, greta_error_text());
}

static void* allocate(void* before, size_t n) {
  void* const memory = realloc(before, n ? n : 1);
  if (memory == NULL) die("no memory", "");
  return memory;
}

// ---- Prompts

static llama_token* parse_ids(const char* text, const char* name, int vocab, int* n) {
  llama_token* ids = NULL;
  for (*n = 0; *text != '\0';) {
    char* end = NULL;
    const long id = strtol(text, &end, 10);
    if (end == text || id < 0 || id >= vocab || (*end != ',' && *end != '\0')) {
      die("no list of this model's token ids", name);
    }
    ids = allocate(ids, sizeof *ids * (size_t)(*n + 1));
    ids[(*n)++] = (llama_token)id;
    text = *end == ',' ? end + 1 : end;
  }
  return ids;
}

static llama_token* tokenize(const char* text, const struct llama_vocab* vocab, int* n) {
  const int length = (int)strlen(text);
  int room = length + 2;
  for (llama_token* ids = NULL;; room = -*n) {
    ids = allocate(ids, sizeof *ids * (size_t)room);
    *n = llama_tokenize(vocab, text, length, ids, room, true, true);
    if (*n >= 0) return ids;
  }
}

static struct prompt read_prompt(const char* given, bool is_text, const struct llama_vocab* vocab) {
  const char* const equals = strchr(given, '=');
  if (equals == NULL || equals == given) die("a prompt is NAME=...", given);
  struct prompt prompt = {.name = strndup(given, (size_t)(equals - given))};
  prompt.ids = is_text ? tokenize(equals + 1, vocab, &prompt.n)
                       : parse_ids(equals + 1, prompt.name, llama_vocab_n_tokens(vocab), &prompt.n);
  if (prompt.n == 0) die("a prompt without tokens", prompt.name);
  return prompt;
}

// Rows of both sides that a run must have of the tracer's prompt.
static void add_plan(const struct tracer* tracer) {
  greta_planned* rows = NULL;
  size_t n = 0;
  for (int point = 0; point < kPoints; ++point) {
    const bool in_layer = point > kEmbedOut && point < kFinalNorm;
    for (int layer = 0; layer < (in_layer ? tracer->n_layers : 1); ++layer) {
      if (!is_wanted(tracer, (enum point)point, layer)) continue;
      const int at = point >= kFinalNorm ? GRETA_LAYER_AFTER_STACK : layer;
      rows = allocate(rows, sizeof *rows * (n + 2));
      rows[n++] = (greta_planned){GRETA_SIDE_PREFILL, at, kTensors[point]};
      rows[n++] = (greta_planned){GRETA_SIDE_DECODE, at, kTensors[point]};
    }
  }
  must(greta_run_add_plan(tracer->run, tracer->prompt, rows, n), "plan");
  free(rows);
}

static void compute(struct llama_context* context, struct tracer* tracer, const llama_token* ids,
                    int n, int first_pos, int first_traced) {
  struct llama_batch batch = llama_batch_init(n, 0, 1);
  for (int i = 0; i < n; ++i) {
    batch.token[i] = ids[i];
    batch.pos[i] = first_pos + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = i >= first_traced;
  }
  batch.n_tokens = n;
  tracer->ids = ids;
  tracer->n_tokens = n;
  tracer->first_pos = first_pos;
  tracer->first_traced = first_traced;
  const int status = llama_decode(context, batch);
  if (status == 0) llama_synchronize(context);
  flush_rows(tracer);
  llama_batch_free(batch);
  if (tracer->failed) exit(2);  // it said why; the run stays unfinished
  if (status != 0) die("llama_decode failed", tracer->prompt);
}

// The last token of a prompt, by prefill and by decode.
static void probe(struct llama_context* context, struct tracer* tracer,
                  const struct prompt* prompt) {
  llama_memory_t cache = llama_get_memory(context);
  llama_memory_clear(cache, true);
  const int n = prompt->n, at_once = (int)llama_n_batch(context);
  tracer->step = 0;
  tracer->others = GRETA_PREFILL;
  for (int first = 0; first < n; first += at_once) {
    const int left = n - first, count = left < at_once ? left : at_once;
    const bool ends = count == left;
    tracer->last = ends ? GRETA_PREFILL_LAST : GRETA_PREFILL;
    const int first_traced = tracer->every ? 0 : ends ? count - 1 : count;
    compute(context, tracer, prompt->ids + first, count, first, first_traced);
  }
  if (!llama_memory_seq_rm(cache, 0, n - 1, -1)) die("the cache cannot be cut back", prompt->name);
  tracer->step = 1;
  tracer->last = GRETA_DECODE0;
  compute(context, tracer, prompt->ids + n - 1, 1, n - 1, 0);
}

static struct llama_context* make_context(const struct options* options, struct llama_model* model,
                                          struct tracer* tracer, int longest) {
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = (uint32_t)longest + 8;
  params.n_batch = params.n_ubatch =
      (uint32_t)(longest < options->batch ? longest : options->batch);
  params.n_threads = params.n_threads_batch = options->threads;
  params.op_offload = options->gpu_layers > 0;
  params.cb_eval = on_node;
  params.cb_eval_user_data = tracer;
  if (options->f32) {
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  }
  struct llama_context* const context = llama_init_from_model(model, params);
  if (context == NULL) die("llama_init_from_model failed", "");
  return context;
}

static void run_prompts(const struct options* options, struct llama_model* model,
                        struct tracer* tracer, const struct prompt* prompts) {
  int longest = 1;
  for (int i = 0; i < options->n_prompts; ++i) {
    if (prompts[i].n > longest) longest = prompts[i].n;
  }
  struct llama_context* const context = make_context(options, model, tracer, longest);
  for (int i = 0; i < options->n_prompts; ++i) {
    greta_prompt prompt = GRETA_PROMPT_INIT;
    tracer->prompt = prompt.name = prompts[i].name;
    prompt.token_ids = prompts[i].ids;
    prompt.n_tokens = (size_t)prompts[i].n;
    must(greta_run_add_prompt(tracer->run, &prompt), prompt.name);
    add_plan(tracer);
    probe(context, tracer, &prompts[i]);
  }
  llama_free(context);
}

// ---- The run

static int find_layer(const char* name, int n) {
  char* end = NULL;
  const long layer = strtol(name, &end, 10);
  return end != name && *end == '\0' && layer >= 0 && layer < n ? (int)layer : -1;
}

static int find_tensor(const char* name, int n) {
  for (int i = 0; i < n; ++i) {
    if (strcmp(kTensors[i], name) == 0) return i;
  }
  return -1;
}

// Sets wanted[i] for every name of a list that `find` knows; NULL: for all.
static void choose(const char* list, bool* wanted, int n, int (*find)(const char*, int)) {
  for (int i = 0; list == NULL && i < n; ++i) wanted[i] = true;
  if (list == NULL) return;
  char *const copy = strdup(list), *rest = NULL;
  bool any = false;
  for (char* name = strtok_r(copy, ",", &rest); name != NULL; name = strtok_r(NULL, ",", &rest)) {
    const int i = find(name, n);
    if (i < 0) die("neither a layer nor a tensor that can be traced", name);
    wanted[i] = any = true;
  }
  if (!any) die("an empty list", list);
  free(copy);
}

static char* chosen_layers(const struct tracer* tracer) {
  char* const text = allocate(NULL, 12 * (size_t)tracer->n_layers + 1);
  int chosen = 0, length = 0;
  for (int i = 0; i < tracer->n_layers; ++i) {
    if (!tracer->wants_layer[i]) continue;
    length += sprintf(text + length, chosen++ > 0 ? ",%d" : "%d", i);
  }
  return text;
}

static char* chosen_tensors(const struct tracer* tracer) {
  char* const text = allocate(NULL, 32 * kPoints);
  int chosen = 0, length = 0;
  for (int i = 0; i < kPoints; ++i) {
    if (!tracer->wants[i]) continue;
    length += sprintf(text + length, chosen++ > 0 ? ",%s" : "%s", kTensors[i]);
  }
  return text;
}

// The arithmetic of a model: activations are rounded to what suits its weights, K and V to f16.
static const char* dtype_of(const struct options* options, const char* weights) {
  if (options->text[kDtype] != NULL) return options->text[kDtype];
  if (strstr(weights, "BF16") != NULL) return "bf16";
  if (strstr(weights, "F16") != NULL) return "f16";
  if (strstr(weights, "F32") == NULL) return "q8";
  return options->f32 ? "f32" : "f16";
}

static void state(greta_run* run, const char* name, const char* value) {
  must(greta_run_add_attribute(run, name, value), name);
}

static greta_run* begin_run(const struct options* options, struct llama_model* model,
                            greta_trace* trace) {
  char weights[128] = "", name[128] = "";
  llama_model_desc(model, weights, sizeof weights);
  llama_model_meta_val_str(model, "general.name", name, sizeof name);
  greta_run_info info = GRETA_RUN_INFO_INIT;
  info.run = options->text[kRunName];
  info.experiment = options->text[kExperiment];
  info.commit = options->text[kCommit];
  info.model_sha256 = options->text[kModelSha256];
  info.backend = options->gpu_layers > 0 ? "gpu" : "cpu";
  info.dtype = dtype_of(options, weights);
  info.model = name;
  greta_run* run = NULL;
  must(greta_run_begin(trace, &info, &run), "the run");
  state(run, "engine", "llama.cpp");
  state(run, "weights", weights);
  state(run, "kv_cache", options->f32 ? "f32" : "f16");
  state(run, "flash_attn", options->f32 ? "off" : "auto");
  return run;
}

// What is traced, as greta-infer says it: runs that were traced otherwise are not compared.
static void state_selection(const struct options* options, const struct tracer* tracer) {
  char* const layers = chosen_layers(tracer);
  char* const tensors = chosen_tensors(tracer);
  state(tracer->run, "trace.layers", options->text[kLayers] == NULL ? "all" : layers);
  state(tracer->run, "trace.tensors", tensors);
  state(tracer->run, "trace.phases",
        tracer->every ? "prefill_last,prefill,decode0" : "prefill_last,decode0");
  free(layers);
  free(tensors);
}

// ---- The program

static void misused(void) {
  fputs(kUsage, stderr);
  exit(2);
}

static int number(const struct options* options, enum option_name option, int least,
                  int otherwise) {
  const char* const text = options->text[option];
  if (text == NULL) return otherwise;
  char* end = NULL;
  const long value = strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < least || value > 1 << 20) die("not a number", text);
  return (int)value;
}

static struct options parse(int argc, char** argv) {
  static const struct option known[] = {{"model", 1, 0, kModel},
                                        {"db", 1, 0, kDb},
                                        {"jsonl", 1, 0, kJsonl},
                                        {"experiment", 1, 0, kExperiment},
                                        {"run-name", 1, 0, kRunName},
                                        {"commit", 1, 0, kCommit},
                                        {"dtype", 1, 0, kDtype},
                                        {"model-sha256", 1, 0, kModelSha256},
                                        {"layers", 1, 0, kLayers},
                                        {"tensors", 1, 0, kTensorNames},
                                        {"positions", 1, 0, kPositions},
                                        {"threads", 1, 0, kThreads},
                                        {"batch", 1, 0, kBatch},
                                        {"gpu-layers", 1, 0, kGpuLayers},
                                        {"tokens", 1, 0, kTokens},
                                        {"prompt", 1, 0, kPrompt},
                                        {"f32", 0, 0, kF32},
                                        {"help", 0, 0, kHelp},
                                        {0, 0, 0, 0}};
  struct options options = {.text = {[kExperiment] = "llama.cpp", [kPositions] = "last"}};
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    if (option == kHelp) exit(fputs(kUsage, stdout) < 0);
    if (option < 0 || option > kHelp) misused();
    if (option < kOptions) options.text[option] = optarg;
    if (option == kF32) options.f32 = true;
    if (option != kTokens && option != kPrompt) continue;
    if (options.n_prompts == kMaxPrompts) die("too many prompts", optarg);
    options.is_text[options.n_prompts] = option == kPrompt;
    options.given[options.n_prompts++] = optarg;
  }
  const bool one_target = (options.text[kDb] == NULL) != (options.text[kJsonl] == NULL);
  const char* const positions = options.text[kPositions];
  if (optind != argc || options.text[kModel] == NULL || !one_target || options.n_prompts == 0 ||
      (strcmp(positions, "all") != 0 && strcmp(positions, "last") != 0)) {
    misused();
  }
  options.threads = number(&options, kThreads, 1, 2);
  options.batch = number(&options, kBatch, 1, 512);
  options.gpu_layers = number(&options, kGpuLayers, 0, 0);
  return options;
}

static void errors_only(enum ggml_log_level level, const char* text, void* unused) {
  (void)unused;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

static struct llama_model* load(const struct options* options) {
  llama_log_set(errors_only, NULL);
  llama_backend_init();
  const char* const libraries = getenv("GRETA_LLAMA_LIBS");
  if (libraries != NULL) ggml_backend_load_all_from_path(libraries);
  struct llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = options->gpu_layers;
  struct llama_model* const model = llama_model_load_from_file(options->text[kModel], params);
  if (model == NULL) die("cannot be loaded", options->text[kModel]);
  return model;
}

int main(int argc, char** argv) {
  const struct options options = parse(argc, argv);
  struct llama_model* const model = load(&options);
  struct prompt prompts[kMaxPrompts];
  for (int i = 0; i < options.n_prompts; ++i) {
    prompts[i] = read_prompt(options.given[i], options.is_text[i], llama_model_get_vocab(model));
  }
  struct tracer tracer = {.n_layers = llama_model_n_layer(model),
                          .every = strcmp(options.text[kPositions], "all") == 0};
  tracer.wants_layer = allocate(NULL, (size_t)tracer.n_layers * sizeof(bool));
  memset(tracer.wants_layer, 0, (size_t)tracer.n_layers * sizeof(bool));
  choose(options.text[kLayers], tracer.wants_layer, tracer.n_layers, find_layer);
  choose(options.text[kTensorNames], tracer.wants, kPoints, find_tensor);

  const bool is_db = options.text[kDb] != NULL;
  const char* const target = options.text[is_db ? kDb : kJsonl];
  greta_trace* trace = NULL;
  must(greta_trace_open(target, is_db ? GRETA_DATABASE : GRETA_JSONL, &trace), target);
  tracer.run = begin_run(&options, model, trace);
  state_selection(&options, &tracer);
  char* const name = strdup(greta_run_name(tracer.run));
  run_prompts(&options, model, &tracer, prompts);
  must(greta_run_end(tracer.run, GRETA_COMPLETE), name);
  must(greta_trace_close(trace), target);
  printf("%s\n", name);
  llama_model_free(model);
  return 0;
}
