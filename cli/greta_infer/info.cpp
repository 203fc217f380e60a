#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <thread>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/model_options.h"
#include "cli/greta_infer/options.h"
#include "common/exit_status.h"
#include "common/utf8.h"
#include "engine/forward/model.h"
#include "engine/session/model_digest.h"
#include "engine/tokenizer/tokenizer.h"

namespace greta {
namespace {

struct InfoArguments {
  std::string model;
  bool tensors = false, root = false;
};

/// The beginning of a text of the model, in one line.
std::string shown(std::string_view text) {
  constexpr size_t kLongest = 60;
  if (text.size() <= kLongest) return utf8::printable(text);
  const std::string_view cut = text.substr(0, kLongest);
  return utf8::printable(utf8::is_valid(text) ? cut.substr(0, utf8::valid_prefix(cut)) : cut) +
         "...";
}

std::string real_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

std::string value_text(const GgufValue& value) {
  struct Visitor {
    std::string operator()(uint64_t v) const { return std::to_string(v); }
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return real_text(v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::string_view v) const { return shown(v); }
    std::string operator()(const GgufArray& v) const {
      return "array of " + std::to_string(v.count) + (v.strings.empty() ? "" : " strings");
    }
  };
  return std::visit(Visitor{}, value);
}

void line(const char* label, const std::string& text) {
  std::printf("%-12s %s\n", label, text.c_str());
}

void print_tensors(const GgufFile& file) {
  std::printf("\ntensors\n");
  for (const GgufTensor& tensor : file.tensors()) {
    std::string shape;
    for (int i = tensor.n_dims - 1; i >= 0; --i) {
      shape += (shape.empty() ? "" : " x ") + std::to_string(tensor.dims[static_cast<size_t>(i)]);
    }
    std::printf("  %-32s %-5s %-16s %12zu bytes\n", shown(tensor.name).c_str(),
                std::string(weight_type_info(tensor.type).name).c_str(), shape.c_str(),
                tensor.data.size());
  }
}

std::string rope_text(const ModelConfig& c) {
  const bool halves = c.architecture.pairing == RopePairing::kHalves;
  const std::string scaling = c.rope_scaling.text();
  return "theta " + real_text(c.rope_theta) + ", " + std::to_string(c.rope_dim) +
         " values of a head, " + (halves ? "i with i + d/2" : "2i with 2i + 1") +
         (scaling.empty() ? "" : ", scaled: " + scaling);
}

std::string window_text(const ModelConfig& c) {
  const auto n = std::ranges::count(c.windowed, true);
  return std::to_string(c.window) + " positions" +
         (c.windowed.empty() ? "" : ", in " + std::to_string(n) + " layers");
}

void print_model(const Model& model) {
  const ModelConfig& c = model.config();
  line("model", shown(model.name()));
  line("architecture", std::string(c.architecture.name));
  line("layers", std::to_string(c.n_layers));
  line("dim", std::to_string(c.dim) + ", ffn " + std::to_string(c.ffn_dim));
  line("heads", std::to_string(c.n_heads) + " query, " + std::to_string(c.n_kv_heads) +
                    " key and value, of " + std::to_string(c.head_dim));
  line("vocabulary",
       std::to_string(c.vocab) + (c.tied ? ", output tied to the embedding table" : ""));
  line("context", std::to_string(c.context));
  line("RoPE", rope_text(c));
  if (c.window > 0) line("window", window_text(c));
  line("weights", model.weight_types());
  const int64_t kv_bytes = 2 * c.n_layers * c.kv_dim() * static_cast<int64_t>(sizeof(float));
  line("KV cache", std::to_string(kv_bytes) + " bytes per position");
}

/// How a byte-level vocabulary's text is split; "" for another one.
std::string splitting(const GgufFile& file) {
  if (file.string_value("tokenizer.ggml.model", "") != "gpt2") return "";
  const std::string_view pre = file.string_value("tokenizer.ggml.pre", "");
  return ", text split as " + (pre.empty() ? "default: the file states nothing" : shown(pre));
}

/// Why greta cannot run the file; "" when it can.
std::string obstacle(const GgufFile& file) {
  try {
    print_model(Model(file));
    const std::unique_ptr<Tokenizer> tokenizer = Tokenizer::load(file);
    line("tokenizer", std::to_string(tokenizer->size()) + " tokens, BOS " +
                          std::to_string(tokenizer->bos()) + ", EOS " +
                          std::to_string(tokenizer->eos()) + splitting(file));
    return "";
  } catch (const GgufError& error) {
    return error.what();
  }
}

int info(const InfoArguments& arguments) {
  const GgufFile file = GgufFile::open(arguments.model);
  int64_t n_weights = 0;
  for (const GgufTensor& tensor : file.tensors()) n_weights += tensor.n_values();
  char size[96];
  std::snprintf(size, sizeof size,
                "GGUF v%" PRIu32 ", %.1f MB, %.1f million weights in %zu tensors", file.version(),
                static_cast<double>(file.bytes().size()) / 1e6,
                static_cast<double>(n_weights) / 1e6, file.tensors().size());
  line("file", shown(arguments.model));
  line("format", size);
  if (arguments.root) {
    const auto n_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    ModelDigest digest(file, arguments.model, n_threads, false, DigestCache::usual());
    line("root", await_digests(digest).root);
    file.check_whole();
  }
  const std::string why = obstacle(file);
  std::printf("\nmetadata\n");
  for (const auto& [key, value] : file.metadata()) {
    std::printf("  %-40s %s\n", shown(key).c_str(), value_text(value).c_str());
  }
  if (arguments.tensors) print_tensors(file);
  std::printf("\n%s\n", why.empty() ? "greta can run it"
                                    : ("greta cannot run it: " + utf8::printable(why)).c_str());
  finish_output();
  return why.empty() ? kExitDone : kExitFail;
}

}  // namespace

void add_infer_info(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand(
      "info", "What a GGUF file holds, and whether greta can run it (exit status 1 if not)");
  auto arguments = std::make_shared<InfoArguments>();
  add_model_option(*command, arguments->model);
  command->add_flag("--tensors", arguments->tensors, "List every tensor");
  command->add_flag("--root", arguments->root,
                    "Also the root of the model, by which runs tell which one they had");
  command->callback(
      [&infer, arguments] { infer.action = [arguments] { return info(*arguments); }; });
}

}  // namespace greta
