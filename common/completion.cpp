#include "common/completion.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace greta {
namespace {

/// Validators by which an option says what it offers: these names are theirs.
constexpr const char* kWords = "offers words";
constexpr const char* kList = "offers a list";
constexpr const char* kAnswer = "offers an answer";

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : separator).append(word);
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool is_writing = false;  ///< a script: else an error would print what an option offers as its type

/// Refuses nothing, and tells what is offered by its description while a script is written.
class Offer : public CLI::Validator {
 public:
  Offer(const char* name, std::function<std::string()> text) {
    name_ = name;
    desc_function_ = [text = std::move(text)] { return is_writing ? text() : std::string(); };
    func_ = [](std::string&) { return std::string(); };
  }
};

/// What the value of an option or an argument can be.
struct Values {
  std::vector<std::string> words;
  bool is_list = false, files = false;
  std::string answer;  ///< words of the program's command line that ask for them
};

/// An option, or an argument that has no name.
struct Parameter {
  std::vector<std::string> names;  ///< --gate; -q
  std::string text, description;
  bool takes_value = false, repeats = false;
  Values values;
};

struct Command {
  std::string name, description;
  std::vector<Parameter> options, arguments;
};

Values values_of(CLI::Option& option) {
  Values values;
  for (const char* part : {"FILE", "DIR", "PATH", ".db"}) {
    values.files |= option.get_option_text().find(part) != std::string::npos;
  }
  for (int i = 0;; ++i) {
    CLI::Validator* validator = nullptr;
    try {
      validator = option.get_validator(i);
    } catch (const CLI::OptionNotFound&) {
      return values;  // that was the last
    }
    const std::string text = validator->get_description();
    if (validator->get_name() == kAnswer) values.answer = text;
    if (validator->get_name() == kWords) values.words = split(text, '\n');
    if (validator->get_name() == kList) {
      values.words = split(text, '\n');
      values.is_list = true;
    }
    if (text.starts_with('{') && text.ends_with('}')) {  // CLI::IsMember
      values.words = split(std::string_view(text).substr(1, text.size() - 2), ',');
    }
  }
}

/// The options and arguments of a command, without its subcommands.
Command describe(CLI::App& app) {
  Command command{app.get_name(), app.get_description(), {}, {}};
  for (CLI::Option* option : app.get_options()) {
    Parameter parameter;
    for (const std::string& name : option->get_lnames()) parameter.names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) parameter.names.push_back("-" + name);
    parameter.text = option->get_option_text();
    parameter.description = option->get_description();
    std::replace(parameter.description.begin(), parameter.description.end(), '\n', ' ');
    parameter.takes_value = option->get_items_expected_max() > 0;
    parameter.repeats = option->get_items_expected_max() > 1 ||
                        option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
    parameter.values = values_of(*option);
    (parameter.names.empty() ? command.arguments : command.options).push_back(std::move(parameter));
  }
  return command;
}

/// The program's own options, then every command.
struct Program {
  Command whole;
  std::vector<Command> commands;
};

Program describe_program(CLI::App& app) {
  Program program{describe(app), {}};
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    program.commands.push_back(describe(*command));
  }
  return program;
}

std::string option_words(const Command& command) {
  std::vector<std::string> names;
  for (const Parameter& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return join(names, " ");
}

std::string command_words(const Program& program) {
  std::vector<std::string> names;
  for (const Command& command : program.commands) names.push_back(command.name);
  return join(names, " ");
}

/// The text with these characters behind a backslash.
std::string escaped(const std::string& text, std::string_view special) {
  std::string result;
  for (char c : text) {
    if (special.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result;
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string result;
  for (size_t at; (at = text.find(what)) != std::string_view::npos;) {
    result.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + what.size());
  }
  return result.append(text);
}

/// In single quotes, for bash and zsh.
std::string quoted(const std::string& text) { return "'" + replaced(text, "'", "'\\''") + "'"; }

// bash

/// @F@ stands for the function's name, other @X@ for what is made of the command line.
constexpr const char* kBash =
    R"bash(# bash completion of @PROGRAM@, written by `@PROGRAM@ completion bash`.
@F@() {
  local IFS=$' \t\n' words=() stem='' command='' db=() i word
  COMPREPLY=()
  # readline takes words apart at these: put together again, what stands before the last part is in stem.
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $word == [=:@]* || ${COMP_WORDS[i-1]} == [=:@] ]]; then
      stem=${words[${#words[@]}-1]}
      words[${#words[@]}-1]+=$word
      [[ $word == [=:@] ]] && stem+=$word
    else
      stem=''
      words+=("$word")
    fi
  done
  local cur=${words[${#words[@]}-1]} prev=''
  ((${#words[@]} > 1)) && prev=${words[${#words[@]}-2]}
  if [[ $cur == --*=* ]]; then
    prev=${cur%%=*} cur=${cur#*=} stem=${stem#--*=}
  fi
  for ((i = 1; i < ${#words[@]} - 1; i++)); do
    case ${words[i]} in
      --db) db=(--db "${words[i+1]}"); ((i++)) ;;
      --db=*) db=(--db "${words[i]#*=}") ;;
@SKIPPED@      -*) ;;
      *) [[ -n $command ]] || command=${words[i]} ;;
    esac
  done
  case "$command $prev" in
@VALUES@    *)
      case $command in
        '') @F@_words '@COMMANDS@ @OPTIONS@' ;;
@CASES@      esac ;;
  esac
  [[ -n $stem ]] && COMPREPLY=("${COMPREPLY[@]#"$stem"}")
  return 0
}

@F@_words() { COMPREPLY+=($(compgen -W "$1" -- "$cur")); }

# One more word behind a comma.
@F@_list() {
  local head=${cur%"${cur##*,}"}
  COMPREPLY+=($(compgen -P "$head" -W "$1" -- "${cur##*,}"))
  compopt -o nospace 2>/dev/null
}

@F@_files() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY+=($(compgen -f -- "$cur"))
}

# First column of what the program answers, of the database that the command line names; quietly
# nothing without one.
@F@_answer() {
  local name
  while IFS= read -r name; do
    [[ $name == "$cur"* ]] && COMPREPLY+=("$(printf '%q' "$name")")
  done < <(@PROGRAM@ "${db[@]}" --format tsv "$@" 2>/dev/null | tail -n +2 | cut -f1)
}

complete -F @F@ @PROGRAM@
)bash";

std::string bash_function(const CLI::App& app) { return "_" + replaced(app.get_name(), "-", "_"); }

/// Calls that offer the values: "_greta_db_words 'strict numeric'", "" of any value.
std::string bash_calls(const Values& values, const std::string& function) {
  std::string calls;
  const auto add = [&](const std::string& call) {
    calls.append(calls.empty() ? "" : "; ").append(function).append(call);
  };
  if (!values.words.empty()) {
    add((values.is_list ? "_list " : "_words ") + quoted(join(values.words, " ")));
  }
  if (!values.answer.empty()) add("_answer " + values.answer);
  if (values.files) add("_files");
  return calls;
}

/// Branches for the values of the options of a command; `command` is a pattern.
std::string bash_values(const Command& of, const std::string& command,
                        const std::string& function) {
  std::string cases;
  for (const Parameter& option : of.options) {
    if (!option.takes_value) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) patterns.push_back(command + "' " + name + "'");
    const std::string calls = bash_calls(option.values, function);
    cases += "    " + join(patterns, "|") + ") " + (calls.empty() ? ":" : calls) + " ;;\n";
  }
  return cases;
}

std::string bash_script(CLI::App& app) {
  const Program program = describe_program(app);
  const std::string function = bash_function(app);
  std::string skipped, values, cases;
  for (const Parameter& option : program.whole.options) {
    if (!option.takes_value || option.names.front() == "--db") continue;
    skipped += "      " + join(option.names, "|") + ") ((i++)) ;;\n";
  }
  for (const Command& command : program.commands) {
    values += bash_values(command, command.name, function);
    std::string calls;
    for (const Parameter& argument : command.arguments) {
      const std::string more = bash_calls(argument.values, function);
      if (calls.find(more) == std::string::npos) calls.append(more).append("; ");
    }
    cases += "        " + command.name + ") if [[ $cur == -* ]]; then " + function + "_words '" +
             option_words(command) + " @OPTIONS@'" +
             (calls.empty() ? "" : "; else " + calls.substr(0, calls.size() - 2)) + "; fi ;;\n";
  }
  values += bash_values(program.whole, "*", function);
  std::string script = replaced(kBash, "@SKIPPED@", skipped);
  script = replaced(script, "@VALUES@", values);
  script = replaced(script, "@CASES@", cases);
  script = replaced(script, "@COMMANDS@", command_words(program));
  script = replaced(script, "@OPTIONS@", option_words(program.whole));
  script = replaced(script, "@PROGRAM@", app.get_name());
  return replaced(script, "@F@", function);
}

// zsh

constexpr const char* kZsh = R"zsh(#compdef @PROGRAM@
# zsh completion of @PROGRAM@, written by `@PROGRAM@ completion zsh`.

# First column of what the program answers.
_@PROGRAM@_answer() {
  local -a names
  names=(${(f)"$(@PROGRAM@ --format tsv "$@" 2>/dev/null | tail -n +2 | cut -f1)"})
  compadd -a names
}

_@PROGRAM@() {
  local curcontext=$curcontext state line
  local -a commands options
  commands=(
@COMMANDS@  )
  options=(
@OPTIONS@  )
  _arguments -C $options '1: :->command' '*:: :->rest' && return
  case $state in
    command) _describe command commands ;;
    rest)
      case $line[1] in
@CASES@      esac ;;
  esac
}

if [[ ${funcstack[1]} == _@PROGRAM@ ]]; then
  _@PROGRAM@ "$@"
else
  compdef _@PROGRAM@ @PROGRAM@
fi
)zsh";

/// What _arguments does for a value: "(strict numeric)", "_files"; " " of any value.
std::string zsh_action(const Values& values, const std::string& program) {
  const std::string words = join(values.words, " ");
  if (values.is_list) return "_values -s , word " + words;
  if (!values.words.empty() && values.files) return "{compadd - " + words + "; _files}";
  if (!values.words.empty()) return "(" + words + ")";
  if (!values.answer.empty()) return "{_" + program + "_answer " + values.answer + "}";
  return values.files ? "_files" : " ";
}

std::string zsh_value(const Parameter& parameter, const std::string& program) {
  return ":" + escaped(parameter.text.empty() ? "value" : parameter.text, ":[]") + ":" +
         escaped(zsh_action(parameter.values, program), ":");
}

std::string zsh_options(const Command& command, const std::string& program,
                        const std::string& indent) {
  std::string lines;
  for (const Parameter& option : command.options) {
    for (const std::string& name : option.names) {
      lines +=
          indent +
          quoted((option.repeats ? "*" : "") + name + "[" + escaped(option.description, "[]\\") +
                 "]" + (option.takes_value ? zsh_value(option, program) : "")) +
          "\n";
    }
  }
  return lines;
}

std::string zsh_script(CLI::App& app) {
  const Program program = describe_program(app);
  std::string commands, cases;
  for (const Command& command : program.commands) {
    commands += "    " + quoted(command.name + ":" + command.description) + "\n";
    cases += "        " + command.name + ")\n          options+=(\n" +
             zsh_options(command, app.get_name(), "            ") + "          )\n";
    std::string arguments;
    for (const Parameter& argument : command.arguments) {
      arguments +=
          " " + quoted((argument.repeats ? "*" : "") + zsh_value(argument, app.get_name()));
    }
    cases += "          _arguments $options" + arguments + " ;;\n";
  }
  std::string script = replaced(kZsh, "@CASES@", cases);
  script = replaced(script, "@COMMANDS@", commands);
  script = replaced(script, "@OPTIONS@", zsh_options(program.whole, app.get_name(), "    "));
  return replaced(script, "@PROGRAM@", app.get_name());
}

// fish

std::string fish_quoted(const std::string& text) { return "'" + escaped(text, "'\\") + "'"; }

/// The switches of `complete` that offer the values.
std::string fish_values(const Values& values, const std::string& program) {
  std::string words = join(values.words, " ");
  if (values.is_list) words = "(__fish_complete_list , \"printf '%s\\n' " + words + "\")";
  if (!values.answer.empty()) {
    words =
        "(" + program + " --format tsv " + values.answer + " 2>/dev/null | tail -n +2 | cut -f1)";
  }
  return (values.files ? " -F" : " -f") + (words.empty() ? "" : " -a " + fish_quoted(words));
}

std::string fish_options(const Command& command, const std::string& program,
                         const std::string& condition) {
  std::string lines;
  for (const Parameter& option : command.options) {
    lines += "complete -c " + program + condition;
    for (const std::string& name : option.names) {
      lines += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    }
    if (option.takes_value) lines += " -r" + fish_values(option.values, program);
    lines += " -d " + fish_quoted(option.description) + "\n";
  }
  return lines;
}

std::string fish_script(CLI::App& app) {
  const Program program = describe_program(app);
  const std::string& name = app.get_name();
  std::string script = "# fish completion of " + name + ", written by `" + name +
                       " completion fish`.\ncomplete -c " + name + " -f\n";
  script += fish_options(program.whole, name, "");
  for (const Command& command : program.commands) {
    const std::string seen = " -n '__fish_seen_subcommand_from " + command.name + "'";
    script += "complete -c " + name + " -n __fish_use_subcommand -a " + command.name + " -d " +
              fish_quoted(command.description) + "\n" + fish_options(command, name, seen);
    for (const Parameter& argument : command.arguments) {
      script += "complete -c " + name + seen + fish_values(argument.values, name) + "\n";
    }
  }
  return script;
}

}  // namespace

CLI::Validator offers(std::vector<std::string> words) {
  return Offer(kWords, [text = join(words, "\n")] { return text; });
}

CLI::Validator offers(std::function<std::vector<std::string>()> words) {
  return Offer(kWords, [words = std::move(words)] { return join(words(), "\n"); });
}

CLI::Validator offers_list(std::vector<std::string> words) {
  return Offer(kList, [text = join(words, "\n")] { return text; });
}

CLI::Validator offers_answer(const std::string& command) {
  return Offer(kAnswer, [command] { return command; });
}

const std::vector<std::string>& completed_shells() {
  static const std::vector<std::string> shells{"bash", "zsh", "fish"};
  return shells;
}

std::string completion_script(CLI::App& app, const std::string& shell) {
  is_writing = true;
  std::string script = shell == "bash"  ? bash_script(app)
                       : shell == "zsh" ? zsh_script(app)
                                        : fish_script(app);
  is_writing = false;
  return script;
}

}  // namespace greta
