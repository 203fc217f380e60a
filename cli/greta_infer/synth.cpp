#include "engine/synth/synth.h"

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/options.h"
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
  /// Changes of the preset's shape, by the options that are given.
  std::vector<std::function<void(SynthShape&)>> changes;
};

int synth(const SynthArguments& arguments) {
  SynthShape shape = synth_preset(arguments.preset);
  for (const auto& change : arguments.changes) change(shape);
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

/// An option that sets a member of the shape.
template <class T>
CLI::Option* add_shape_option(CLI::App& command, SynthArguments& arguments, const char* name,
                              T SynthShape::*member, const char* what) {
  return command
      .add_option_function<T>(
          name,
          [&arguments, member](const T& value) {
            arguments.changes.emplace_back([member, value](SynthShape& s) { s.*member = value; });
          },
          what)
      ->group("Shape, instead of the preset's");
}

void add_shape_options(CLI::App& command, SynthArguments& arguments) {
  const auto add = [&](const char* name, auto member, const char* what) {
    return add_shape_option(command, arguments, name, member, what);
  };
  const auto size = [&](const char* name, int64_t SynthShape::*member, const char* what) {
    add(name, member, what)->check(CLI::PositiveNumber)->option_text("N");
  };
  size("--layers", &SynthShape::n_layers, "Blocks");
  size("--dim", &SynthShape::dim, "Width of the residual stream");
  size("--heads", &SynthShape::n_heads, "Query heads");
  size("--kv-heads", &SynthShape::n_kv_heads, "Key and value heads; divides --heads");
  size("--head-dim", &SynthShape::head_dim, "Values per head; even");
  size("--ffn", &SynthShape::ffn_dim, "Width of the FFN");
  size("--vocab", &SynthShape::vocab, "Tokens");
  size("--context", &SynthShape::context, "Positions");
  size("--window", &SynthShape::window, "Positions that a token attends to (all)");
  size("--original-context", &SynthShape::original_context,
       "Positions before RoPE scaling by yarn");
  const auto real = [&](const char* name, double SynthShape::*member, const char* what) {
    add(name, member, what)->check(CLI::PositiveNumber)->option_text("X");
  };
  real("--rope-theta", &SynthShape::rope_theta, "Base frequency of RoPE");
  real("--rope-factor", &SynthShape::rope_factor, "How far RoPE scaling stretches (4)");
  real("--rope-attn-factor", &SynthShape::rope_attn_factor, "Cosines and sines times X (1)");
  real("--score-deviation", &SynthShape::score_deviation,
       "Deviation of attention scores before softmax (1.5)");
  add("--rope-scaling", &SynthShape::rope_scaling, "linear or yarn")
      ->check(CLI::IsMember({"linear", "yarn"}))
      ->option_text("NAME");
  add("--architecture", &SynthShape::architecture, "llama (default), qwen2 or qwen3")
      ->check(offers(synth_architecture_names))
      ->option_text("NAME");
  const auto flag = [&](const char* name, bool SynthShape::*member, const char* what) {
    command
        .add_flag_callback(
            name,
            [&arguments, member] {
              arguments.changes.emplace_back([member](SynthShape& s) { s.*member = true; });
            },
            what)
        ->group("Shape, instead of the preset's");
  };
  flag("--tied", &SynthShape::tied, "The output matrix is the embedding table");
  flag("--rope-freqs", &SynthShape::rope_freqs, "With rope_freqs.weight");
  flag("--spm", &SynthShape::sentencepiece, "A SentencePiece vocabulary, not byte-level BPE");
}

}  // namespace

void add_infer_synth(CLI::App& app, Infer& infer) {
  CLI::App* command =
      app.add_subcommand("synth", "Makes a random model that behaves, always the same for a seed");
  auto arguments = std::make_shared<SynthArguments>();
  add_option(*command, "--preset NAME", arguments->preset, "tiny (default), small, 1b or llama3-8b")
      ->check(offers(synth_preset_names));
  add_option(*command, "--type TYPE", arguments->type,
             "f32, f16, bf16, q4_0, q4_1, q5_0, q5_1, q8_0, iq4_nl, q2_k, q3_k, q4_k, q5_k, q6_k, "
             "q5_k_m or q4_k_m (default)")
      ->check(offers(synth_type_names));
  add_option(*command, "-o,--out FILE", arguments->out, "File to write")->required();
  add_option(*command, "--seed N", arguments->seed, "Seed of the weights (1)");
  command->add_flag("--force", arguments->force, "Replace the file if it exists");
  add_shape_options(*command, *arguments);
  command->callback(
      [&infer, arguments] { infer.action = [arguments] { return synth(*arguments); }; });
}

}  // namespace greta
