#include "common/completion.h"

#include <cstdio>
#include <memory>

#include "cli/greta_infer/commands.h"
#include "cli/greta_infer/options.h"
#include "common/exit_status.h"
#include "engine/forward/fault.h"
#include "engine/forward/trace_point.h"
#include "engine/probe/suite.h"
#include "engine/session/backends.h"

namespace greta {
namespace {

void append(std::string& words, std::string_view word) {
  words.append(words.empty() ? "" : " ").append(word);
}

/// @X@ stands for the word lists of this build.
constexpr const char* kBash =
    R"bash(# bash completion of greta-infer, written by `greta-infer completion bash`.
_greta_infer() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command=${COMP_WORDS[1]} options='' IFS=$' \t\n'
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W '@COMMANDS@ @OPTIONS@' -- "$cur"))
    return
  fi
  case $prev in
    --backend) _greta_infer_words @BACKENDS@; return ;;
    --format) _greta_infer_words table json csv tsv md; return ;;
    --gate) _greta_infer_words strict numeric; return ;;
    --inject) _greta_infer_words @FAULTS@; return ;;
    --mode) _greta_infer_words as_designed kv_aligned batch_invariant; return ;;
    --phases) _greta_infer_words all prefill_last prefill decode0 decode; return ;;
    --preset) _greta_infer_words tiny small 1b llama3-8b; return ;;
    --suite) _greta_infer_words @SUITES@; return ;;
    --tensors) _greta_infer_words all @TENSORS@; return ;;
    --type) _greta_infer_words f32 f16 bf16 q4_0 q8_0 q4_k q5_k q6_k q4_k_m q5_k_m; return ;;
    --model|-m|--out|-o|--db|--prompt-file|-f|--trace-jsonl|--delta-out)
      compopt -o filenames 2>/dev/null
      IFS=$'\n'
      COMPREPLY=($(compgen -f -- "$cur"))
      return ;;
  esac
  case $command in
@CASES@  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ $command == completion ]]; then
    _greta_infer_words bash
  fi
}

_greta_infer_words() { COMPREPLY=($(compgen -W "$*" -- "$cur")); }

complete -F _greta_infer greta-infer
)bash";

std::string bash_script(const CLI::App& app) {
  std::string backends, faults, named_suites, tensors;
  for (const std::string_view name : kBackendNames) append(backends, name);
  for (const FaultInfo& fault : fault_catalogue()) append(faults, fault.name);
  for (const Suite& suite : suites()) append(named_suites, suite.name);
  for (int i = 0; i < kTracePoints; ++i) {
    append(tensors, trace_point_name(static_cast<TracePoint>(i)));
  }
  return fill_script(kBash, {{"CASES", bash_option_cases(app)},
                             {"COMMANDS", command_words(app)},
                             {"OPTIONS", option_words(app)},
                             {"BACKENDS", backends},
                             {"FAULTS", faults},
                             {"SUITES", named_suites},
                             {"TENSORS", tensors}});
}

}  // namespace

void add_infer_completion(CLI::App& app, Infer& infer) {
  CLI::App* command = app.add_subcommand("completion", "Prints the completion script of a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash")
      ->required()
      ->check(CLI::IsMember({"bash"}))
      ->option_text("SHELL");
  command->callback([&app, &infer, shell] {
    infer.action = [&app, shell] {
      std::fputs(bash_script(app).c_str(), stdout);
      finish_output();
      return static_cast<int>(kExitDone);
    };
  });
}

}  // namespace greta
