#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "engine/session/session.h"

// The model of a command: the options that name it and what computes, and the session that they
// open.

namespace greta {

struct ModelArguments {
  std::string file;
  std::string backend = "auto";
  int threads = 0;
  std::string isa;  ///< of the CPU; "": the best that it has
  std::optional<int64_t> max_seq_len;
  int64_t batch = 0;    ///< tokens; 0: what suits the backend
  bool sha256 = false;  ///< of the file, to be recorded beside the model's root
};
/// --model alone, for commands that compute nothing.
void add_model_option(CLI::App& command, std::string& file);
/// --model, --backend, --threads, --isa, --max-seq-len, --batch.
void add_model_options(CLI::App& command, ModelArguments& arguments);

/// Says on standard error when the file does not say how text is split, and how it is split then.
void warn_of_missing_pre_tokenizer(const GgufFile& file);

/// --model-sha256, of commands that record.
void add_model_sha256_option(CLI::App& command, ModelArguments& arguments);

/// What a command is going to ask of a session.
struct SessionNeeds {
  bool tokenizer = false, digest = false;
};

/// The model, ready to run, with progress on standard error while it is loaded. Refuses one that
/// GRETA_INT4_WEIGHTS rules out.
std::unique_ptr<Session> open_session(const ModelArguments& arguments, const SessionNeeds& needs);

/// What it works out, with progress on standard error meanwhile. Throws Stopped.
const ModelDigests& await_digests(ModelDigest& digest);

/// Positions to use: --max-seq-len, else GRETA_MAX_SEQ_LEN, never more than the model's context.
int64_t positions_in_use(const ModelArguments& arguments, const Model& model);

}  // namespace greta
