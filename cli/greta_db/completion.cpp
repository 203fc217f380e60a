#include "common/completion.h"

#include <memory>

#include "cli/greta_db/commands.h"

namespace greta {
namespace {

/// Values of options that every shell completes alike.
constexpr const char* kFormats = "table json csv tsv md";
constexpr const char* kGates = "strict numeric";

/// @X@ stands for the word lists of this build.
constexpr const char* kBash =
    R"bash(# bash completion of greta-db, written by `greta-db completion bash`.
_greta_db() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  local command='' options='' db=() i word IFS=$' \t\n'
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case $word in
      --db) db=(--db "${COMP_WORDS[i+1]}"); ((i++)) ;;
      --format) ((i++)) ;;
      -*) ;;
      *) [[ -n $command ]] || command=$word ;;
    esac
  done
  COMPREPLY=()
  case $prev in
    --format) COMPREPLY=($(compgen -W '@FORMATS@' -- "$cur")); return ;;
    --gate) COMPREPLY=($(compgen -W '@GATES@' -- "$cur")); return ;;
    --db|-f|--file) _greta_db_files; return ;;
    --run) _greta_db_names 'SELECT name FROM run'; return ;;
    --experiment) _greta_db_names 'SELECT DISTINCT experiment FROM run'; return ;;
    --mode) _greta_db_names 'SELECT DISTINCT mode FROM run WHERE mode IS NOT NULL'; return ;;
  esac
  case $command in
    '') COMPREPLY=($(compgen -W '@COMMANDS@ @OPTIONS@' -- "$cur")); return ;;
@CASES@  esac
  if [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$options @OPTIONS@" -- "$cur"))
    return
  fi
  case $command in
    compare) _greta_db_names 'SELECT name FROM run' ;;
    query) _greta_db_words query --list ;;
    schema) _greta_db_words schema ;;
    completion) COMPREPLY=($(compgen -W 'bash zsh fish' -- "$cur")) ;;
    ingest|merge) _greta_db_files ;;
  esac
}

_greta_db_files() {
  compopt -o filenames 2>/dev/null
  local IFS=$'\n'
  COMPREPLY=($(compgen -f -- "$cur"))
}

# First column of what a command lists.
_greta_db_words() {
  COMPREPLY=($(compgen -W "$(greta-db --format tsv "$@" 2>/dev/null | tail -n +2 | cut -f1)" -- "$cur"))
}

# Names from the database that the command line names; quietly nothing without one.
_greta_db_names() {
  local name
  while IFS= read -r name; do
    [[ $name == "$cur"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
  done < <(greta-db "${db[@]}" --format tsv query "$1" 2>/dev/null | tail -n +2)
}

complete -F _greta_db greta-db
)bash";

std::string bash_script(const CLI::App& app) {
  return fill_script(kBash, {{"CASES", bash_option_cases(app)},
                             {"COMMANDS", command_words(app)},
                             {"OPTIONS", option_words(app)},
                             {"FORMATS", kFormats},
                             {"GATES", kGates}});
}

std::string zsh_script(const CLI::App& app) {
  return "#compdef greta-db\n# zsh completion of greta-db: the bash one, through bashcompinit.\n"
         "autoload -Uz bashcompinit && bashcompinit\n" +
         bash_script(app);
}

/// The first sentence of a help text, fit for single quotes.
std::string fish_text(const std::string& text) {
  std::string quoted;
  for (char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? ' ' : c;
  }
  return quoted;
}

void add_fish_options(std::string& script, const CLI::App& command, const std::string& condition) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    script += "complete -c greta-db" + condition + " -l " + name;
    if (option->get_expected_max() > 0 && option->get_type_size() > 0) {
      script += name == "format" ? std::string(" -x -a '") + kFormats + "'"
                : name == "gate" ? std::string(" -x -a '") + kGates + "'"
                : name == "run"  ? " -x -a '(__greta_db_runs)'"
                                 : " -r";
    }
    script += " -d '" + fish_text(option->get_description()) + "'\n";
  }
}

std::string fish_script(const CLI::App& app) {
  std::string script =
      "# fish completion of greta-db, written by `greta-db completion fish`.\n"
      "function __greta_db_runs\n"
      "  greta-db --format tsv query 'SELECT name FROM run' 2>/dev/null | tail -n +2\n"
      "end\n";
  add_fish_options(script, app, "");
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    script += "complete -c greta-db -n __fish_use_subcommand -a " + command->get_name() + " -d '" +
              fish_text(command->get_description()) + "'\n";
    add_fish_options(script, *command,
                     " -n '__fish_seen_subcommand_from " + command->get_name() + "'");
  }
  script +=
      "complete -c greta-db -n '__fish_seen_subcommand_from compare' -f -a '(__greta_db_runs)'\n"
      "complete -c greta-db -n '__fish_seen_subcommand_from query' -f -a "
      "'(greta-db query --list --format tsv 2>/dev/null | tail -n +2 | cut -f1)'\n";
  return script;
}

}  // namespace

void add_completion_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "completion", "Prints the completion script of a shell, run names included");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->option_text("SHELL");
  command->callback([&app, &options, shell] {
    options.action = [&app, &options, shell] {
      options.out.write(*shell == "bash"  ? bash_script(app)
                        : *shell == "zsh" ? zsh_script(app)
                                          : fish_script(app));
      return static_cast<int>(kExitDone);
    };
  });
}

}  // namespace greta
