// Prints what llama.cpp makes of the texts that greta_tokens reads, in the same form.
//
//   tokens_peer MODEL TEXTS [--special]
//
// Needs llama.h and the llama library; loads the vocabulary only.

#include <llama.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char kSeparator[] = "\n__ggml_vocab_test__\n";

static void errors_only(enum ggml_log_level level, const char* message, void* unused) {
  (void)unused;
  if (level == GGML_LOG_LEVEL_ERROR) fputs(message, stderr);
}

static char* read_file(const char* name, size_t* size) {
  FILE* file = fopen(name, "rb");
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  char* bytes = malloc(*size + 1);
  const bool complete = bytes != NULL && fread(bytes, 1, *size, file) == *size;
  fclose(file);
  return complete ? bytes : NULL;
}

// A text may hold NUL, so that strstr does not do.
static const char* find_separator(const char* from, const char* end) {
  const size_t length = sizeof kSeparator - 1;
  for (const char* at = from; (size_t)(end - at) >= length; ++at) {
    if (memcmp(at, kSeparator, length) == 0) return at;
  }
  return NULL;
}

// A text has at most as many tokens as bytes and a space put before each special token.
static int print_ids(const struct llama_vocab* vocab, const char* text, size_t size, bool special) {
  const int32_t capacity = (int32_t)(2 * size + 8);
  llama_token* ids = malloc(sizeof *ids * (size_t)capacity);
  if (ids == NULL) return 1;
  const int32_t n = llama_tokenize(vocab, text, (int32_t)size, ids, capacity, special, special);
  for (int32_t i = 0; i < n; ++i) printf(i == 0 ? "%d" : " %d", ids[i]);
  printf("\n");
  free(ids);
  return n < 0;
}

int main(int argc, char** argv) {
  const bool special = argc == 4 && strcmp(argv[3], "--special") == 0;
  if (argc != 3 && !special) {
    fprintf(stderr, "usage: tokens_peer MODEL TEXTS [--special]\n");
    return 2;
  }
  llama_log_set(errors_only, NULL);
  llama_backend_init();
  struct llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  struct llama_model* model = llama_model_load_from_file(argv[1], params);
  size_t size = 0;
  char* all = read_file(argv[2], &size);
  if (model == NULL || all == NULL) {
    fprintf(stderr, "tokens_peer: cannot read %s\n", argv[model == NULL ? 1 : 2]);
    return 2;
  }
  const struct llama_vocab* vocab = llama_model_get_vocab(model);
  int failed = 0;
  for (const char *text = all, *end = all + size; text != NULL;) {
    const char* separator = find_separator(text, end);
    failed |= print_ids(vocab, text, (size_t)((separator ? separator : end) - text), special);
    text = separator == NULL ? NULL : separator + sizeof kSeparator - 1;
  }
  free(all);
  llama_model_free(model);
  llama_backend_free();
  return failed;
}
