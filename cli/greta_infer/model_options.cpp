#include "cli/greta_infer/model_options.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cli/greta_infer/environment.h"
#include "cli/greta_infer/options.h"
#include "common/stop_signal.h"
#include "common/utf8.h"

namespace greta {
namespace {

void warn_of_unknown_keys(const Model& model) {
  constexpr size_t kShown = 5;
  const auto& keys = model.unknown_keys();
  if (keys.empty()) return;
  std::string list;
  for (size_t i = 0; i < std::min(keys.size(), kShown); ++i) {
    list += (i > 0 ? ", " : "") + utf8::printable(keys[i].substr(0, 64));
  }
  if (keys.size() > kShown) list += " and " + std::to_string(keys.size() - kShown) + " more";
  std::fprintf(stderr,
               "greta-infer: warning: the model states %s, which greta does not know and does not "
               "follow\n",
               list.c_str());
}

}  // namespace

void add_model_option(CLI::App& command, std::string& file) {
  add_option(command, "-m,--model FILE", file, "GGUF file of a model (llama, qwen2, qwen3)")
      ->required();
}

void add_model_options(CLI::App& command, ModelArguments& arguments) {
  add_model_option(command, arguments.file);
  add_option(command, "--backend NAME", arguments.backend,
             "What computes: cpu, hip or auto (default)")
      ->check(CLI::IsMember(std::vector<std::string>(kBackendNames.begin(), kBackendNames.end())));
  add_option(command, "--threads N", arguments.threads, "CPU threads (default: one per core)")
      ->check(CLI::Range(1, 1024));
  add_option(command, "--isa NAME", arguments.isa,
             "Instruction set of the CPU's kernels, on which the last bits depend: baseline, "
             "avx2 or avx512 (default: the best of the processor)");
  add_option(command, "--max-seq-len N", arguments.max_seq_len,
             "Use at most N positions of the model's context (default: $GRETA_MAX_SEQ_LEN, "
             "else all)")
      ->check(CLI::PositiveNumber);
  add_option(command, "--batch N", arguments.batch,
             "Most tokens that prefill takes at once (512 on the CPU, 2048 on a GPU)")
      ->check(CLI::Range(1, 1 << 20));
}

void warn_of_missing_pre_tokenizer(const GgufFile& file) {
  if (file.string_value("tokenizer.ggml.model", "") != "gpt2") return;
  if (!file.string_value("tokenizer.ggml.pre", "").empty()) return;
  std::fprintf(stderr,
               "greta-infer: warning: the model states no tokenizer.ggml.pre; its text is split as "
               "by default, which may not be how it was trained (--tokens takes ids)\n");
}

void add_model_sha256_option(CLI::App& command, ModelArguments& arguments) {
  command
      .add_flag("--model-sha256", arguments.sha256,
                "Also record the SHA-256 of the model's file, which takes longer than its root")
      ->option_text(" ")
      ->group("Record");
}

std::unique_ptr<Session> open_session(const ModelArguments& arguments, const SessionNeeds& needs) {
  const bool only_4bit = environment::flag("GRETA_INT4_WEIGHTS");
  const auto progress = std::make_shared<Progress>("loading the model");
  SessionPlan plan{.tokenizer = needs.tokenizer,
                   .digest = needs.digest,
                   .file_sha256 = arguments.sha256,
                   .digests = DigestCache::usual(),
                   .isa = arguments.isa,
                   .on_load = [progress](int64_t done, int64_t all) {
                     throw_if_stopped();
                     progress->show(done, all);
                     if (done == all) progress->clear();
                   }};
  auto session = std::make_unique<Session>(arguments.file, arguments.backend, arguments.threads,
                                           std::move(plan));
  if (only_4bit && !mostly_4bit(session->model())) {
    throw std::invalid_argument("GRETA_INT4_WEIGHTS is set, but the weights of " + arguments.file +
                                " are " + session->model().weight_types() +
                                "; weights run as the file stores them: unset it, or take a model "
                                "in q4_0, q4_1, q4_k or iq4_nl");
  }
  warn_of_unknown_keys(session->model());
  warn_of_missing_pre_tokenizer(session->file());
  return session;
}

const ModelDigests& await_digests(ModelDigest& digest) {
  constexpr int kTurnMs = 50;
  Progress progress("hash of the model");
  while (!digest.advance(kTurnMs)) {
    throw_if_stopped();
    progress.show(digest.done_bytes(), digest.size_bytes());
  }
  return digest.get();
}

int64_t positions_in_use(const ModelArguments& arguments, const Model& model) {
  const auto asked =
      arguments.max_seq_len ? arguments.max_seq_len : environment::number("GRETA_MAX_SEQ_LEN", 1);
  return std::min(asked.value_or(model.config().context), model.config().context);
}

}  // namespace greta
