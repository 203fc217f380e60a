#include "engine/synth/synth.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <tuple>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/progress.h"
#include "common/completion.h"
#include "common/exit_status.h"
#include "common/utf8.h"

namespace greta {
namespace {

struct SynthArguments {
  std::string preset = "tiny";
  std::string type = "q4_k_m";
  std::string out;
  uint64_t seed = 1;
  bool force = false;
  std::optional<int64_t> layers, dim, heads, kv_heads, head_dim, ffn, vocab, context;
  std::optional<std::string> architecture, rope_scaling;
  std::optional<int64_t> original_context, window;
  std::optional<double> rope_theta, rope_factor, rope_attn_factor;
  bool tied = false, rope_freqs = false, sentencepiece = false;
};

SynthShape resolve_shape(const SynthArguments& arguments) {
  SynthShape shape = synth_preset(arguments.preset);
  shape.n_layers = arguments.layers.value_or(shape.n_layers);
  shape.dim = arguments.dim.value_or(shape.dim);
  shape.n_heads = arguments.heads.value_or(shape.n_heads);
  shape.n_kv_heads = arguments.kv_heads.value_or(shape.n_kv_heads);
  shape.head_dim = arguments.head_dim.value_or(shape.head_dim);
  shape.ffn_dim = arguments.ffn.value_or(shape.ffn_dim);
  shape.vocab = arguments.vocab.value_or(shape.vocab);
  shape.context = arguments.context.value_or(shape.context);
  shape.architecture = arguments.architecture.value_or(shape.architecture);
  shape.rope_theta = arguments.rope_theta.value_or(shape.rope_theta);
  shape.rope_scaling = arguments.rope_scaling.value_or(shape.rope_scaling);
  shape.rope_factor = arguments.rope_factor.value_or(shape.rope_factor);
  shape.rope_attn_factor = arguments.rope_attn_factor.value_or(shape.rope_attn_factor);
  shape.original_context = arguments.original_context.value_or(shape.original_context);
  shape.window = arguments.window.value_or(shape.window);
  shape.tied |= arguments.tied;
  shape.rope_freqs |= arguments.rope_freqs;
  shape.sentencepiece |= arguments.sentencepiece;
  return shape;
}

int synth(const SynthArguments& arguments) {
  const SynthShape shape = resolve_shape(arguments);
  const SynthType type = synth_type(arguments.type);
  if (!arguments.force && std::filesystem::exists(arguments.out)) {
    throw std::invalid_argument(arguments.out + " exists; --force replaces it");
  }
  {
    Progress progress("making " + arguments.out);
    synthesise(shape, type, arguments.seed, arguments.out,
               [&](int64_t done, int64_t total) { progress.show(done, total); });
  }
  std::fprintf(stderr, "%s: %s, %s, seed %llu, %.1f MB\n", utf8::printable(arguments.out).c_str(),
               shape.name.c_str(), type.name.c_str(),
               static_cast<unsigned long long>(arguments.seed),
               static_cast<double>(std::filesystem::file_size(arguments.out)) / 1e6);
  return kExitDone;
}

void add_shape_options(CLI::App& command, SynthArguments& arguments) {
  const auto size = [&](const char* name, std::optional<int64_t>& value, const char* what) {
    command.add_option(name, value, what)
        ->check(CLI::PositiveNumber)
        ->option_text("N")
        ->group("Shape, instead of the preset's");
  };
  size("--layers", arguments.layers, "Blocks");
  size("--dim", arguments.dim, "Width of the residual stream");
  size("--heads", arguments.heads, "Query heads");
  size("--kv-heads", arguments.kv_heads, "Key and value heads; divides --heads");
  size("--head-dim", arguments.head_dim, "Values per head; even");
  size("--ffn", arguments.ffn, "Width of the FFN");
  size("--vocab", arguments.vocab, "Tokens");
  size("--context", arguments.context, "Positions");
  size("--window", arguments.window, "Positions that a token attends to (all)");
  size("--original-context", arguments.original_context, "Positions before RoPE scaling by yarn");
  const auto real = [&](const char* name, std::optional<double>& value, const char* what) {
    command.add_option(name, value, what)
        ->check(CLI::PositiveNumber)
        ->option_text("X")
        ->group("Shape, instead of the preset's");
  };
  real("--rope-theta", arguments.rope_theta, "Base frequency of RoPE");
  real("--rope-factor", arguments.rope_factor, "How far RoPE scaling stretches (4)");
  real("--rope-attn-factor", arguments.rope_attn_factor, "Cosines and sines times X (1)");
  command.add_option("--rope-scaling", arguments.rope_scaling, "linear or yarn")
      ->check(CLI::IsMember({"linear", "yarn"}))
      ->option_text("NAME")
      ->group("Shape, instead of the preset's");
  command.add_option("--architecture", arguments.architecture, "llama (default), qwen2 or qwen3")
      ->check(offers(synth_architecture_names))
      ->option_text("NAME")
      ->group("Shape, instead of the preset's");
  for (const auto& [name, value, what] :
       {std::tuple{"--tied", &arguments.tied, "The output matrix is the embedding table"},
        {"--rope-freqs", &arguments.rope_freqs, "With rope_freqs.weight"},
        {"--spm", &arguments.sentencepiece, "A SentencePiece vocabulary, not byte-level BPE"}}) {
    command.add_flag(name, *value, what)->group("Shape, instead of the preset's");
  }
}

}  // namespace

void add_infer_synth(CLI::App& app, Infer& infer) {
  CLI::App* command =
      app.add_subcommand("synth", "Makes a random model that behaves, always the same for a seed");
  auto arguments = std::make_shared<SynthArguments>();
  command->add_option("--preset", arguments->preset, "tiny (default), small, 1b or llama3-8b")
      ->check(offers(synth_preset_names))
      ->option_text("NAME");
  command
      ->add_option(
          "--type", arguments->type,
          "f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl, q2_k, q3_k, q4_k, q5_k, q6_k, "
          "q5_k_m or q4_k_m (default)")
      ->check(offers(synth_type_names))
      ->option_text("TYPE");
  command->add_option("-o,--out", arguments->out, "File to write")->required()->option_text("FILE");
  command->add_option("--seed", arguments->seed, "Seed of the weights (1)")->option_text("N");
  command->add_flag("--force", arguments->force, "Replace the file if it exists");
  add_shape_options(*command, *arguments);
  command->callback(
      [&infer, arguments] { infer.action = [arguments] { return synth(*arguments); }; });
}

}  // namespace greta
