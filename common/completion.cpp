#include "common/completion.h"

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace greta {
namespace {

/// Validators by which an option says what it offers: these names are theirs.
constexpr const char* kWords = "offers words";
constexpr const char* kList = "offers a list";
constexpr const char* kRows = "offers rows";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(word).append("\n");
  return text;
}

bool is_asked = false;  ///< else an error would print what an option offers as its type

/// Refuses nothing, and tells what is offered by its description while that is asked for.
class Offer : public CLI::Validator {
 public:
  Offer(const char* name, std::function<std::string()> text) {
    name_ = name;
    desc_function_ = [text = std::move(text)] { return is_asked ? text() : std::string(); };
    func_ = [](std::string&) { return std::string(); };
  }
};

/// What the value of an option or an argument can be.
struct Values {
  std::vector<std::string> words;
  bool is_list = false, files = false;
  std::string sql;  ///< the first column of its rows
};

Values values_of(CLI::Option& option) {
  Values values;
  for (const char* part : {"FILE", "DIR", "PATH", ".db"}) {
    values.files |= option.get_option_text().find(part) != std::string::npos;
  }
  is_asked = true;
  for (int i = 0;; ++i) {
    CLI::Validator* validator = nullptr;
    try {
      validator = option.get_validator(i);
    } catch (const CLI::OptionNotFound&) {
      break;  // that was the last
    }
    const std::string text = validator->get_description(), &name = validator->get_name();
    values.is_list |= name == kList;
    if (name == kRows) values.sql = text;
    if (name == kWords || name == kList) values.words = split(text, '\n');
    if (text.starts_with('{') && text.ends_with('}')) {  // CLI::IsMember
      values.words = split(text.substr(1, text.size() - 2), ',');
    }
  }
  is_asked = false;
  return values;
}

/// A command line up to the word that is being typed.
struct Typed {
  std::vector<CLI::App*> apps;     ///< the program, its command, a command of that
  CLI::Option* option = nullptr;   ///< whose value comes next
  std::string database, head, at;  ///< head: what of the word stands before its value `at`
};

std::vector<CLI::App*> subcommands_of(CLI::App& app) {
  return app.get_subcommands([](CLI::App*) { return true; });
}

CLI::Option* option_named(const Typed& typed, const std::string& name) {
  for (CLI::App* app : typed.apps) {
    if (CLI::Option* option = app->get_option_no_throw(name)) return option;
  }
  return nullptr;
}

Typed typed_of(CLI::App& app, const std::vector<std::string>& words) {
  Typed typed{{&app}, nullptr, "", "", words.back()};
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t sign = word.starts_with("--") ? word.find('=') : std::string::npos;
    const bool is_last = i + 1 == words.size();
    CLI::Option* before = std::exchange(typed.option, nullptr);
    if (sign != std::string::npos) {
      CLI::Option* option = option_named(typed, word.substr(0, sign));
      if (option && option->check_name("--db")) typed.database = word.substr(sign + 1);
      if (!is_last) continue;
      typed.option = option;
      typed.head = word.substr(0, sign + 1);
      typed.at = word.substr(sign + 1);
    } else if (before) {
      if (is_last) typed.option = before;
      if (before->check_name("--db")) typed.database = word;
    } else if (word.starts_with('-') && !is_last) {
      CLI::Option* option = option_named(typed, word);
      if (option && option->get_items_expected_max() > 0) typed.option = option;
    } else if (!is_last) {
      for (CLI::App* command : subcommands_of(*typed.apps.back())) {
        if (command->check_name(word)) typed.apps.push_back(command);
      }
    }
  }
  return typed;
}

class Candidates {
 public:
  explicit Candidates(const Typed& typed) : typed_(typed) {}

  void add(const std::string& word, std::string description = "") {
    if (!word.starts_with(typed_.at) || word.find_first_of("\t\n") != std::string::npos) return;
    std::replace(description.begin(), description.end(), '\n', ' ');
    if (!seen_.insert(word).second) return;
    lines_ += typed_.head + word + (description.empty() ? "" : "\t" + description) + "\n";
  }

  void add(CLI::Option& option, const FirstColumn& ask) {
    const Values values = values_of(option);
    const size_t comma = values.is_list ? typed_.at.rfind(',') : std::string::npos;
    const std::string begun = comma == std::string::npos ? "" : typed_.at.substr(0, comma + 1);
    for (const std::string& word : values.words) add(begun + word);
    if (!values.sql.empty() && ask) {
      for (const std::string& word : ask(typed_.database, values.sql)) add(word);
    }
    if (values.is_list) lines_ += ":nospace\n";
    if (values.files) lines_ += ":files\n";
  }

  std::string lines() const { return lines_; }

 private:
  const Typed& typed_;
  std::set<std::string> seen_;
  std::string lines_;
};

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string result;
  for (size_t at; (at = text.find(what)) != std::string_view::npos;) {
    result.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + what.size());
  }
  return result.append(text);
}

// @P@ stands for the program's name, @F@ for that of a function.

constexpr const char* kBash = R"bash(# bash completion of @P@, written by `@P@ completion bash`.
@F@() {
  local words=() stem='' word cur i
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
  cur=${words[${#words[@]}-1]}
  while IFS=$'\t' read -r word _; do
    case $word in
      :nospace) compopt -o nospace 2>/dev/null ;;
      :files)
        compopt -o filenames 2>/dev/null
        [[ $cur == --*=* && -z $stem ]] && stem=${cur%%=*}=
        while IFS= read -r word; do
          COMPREPLY+=("$stem$word")
        done < <(compgen -f -- "${cur#"$stem"}") ;;
      *)
        printf -v word '%q' "$word"
        COMPREPLY+=("${word//\\,/,}") ;;  # a comma needs no backslash
    esac
  done < <(@P@ completion bash "${words[@]}" 2>/dev/null)
  [[ -n $stem ]] && COMPREPLY=("${COMPREPLY[@]#"$stem"}")
  return 0
}
complete -F @F@ @P@
)bash";

constexpr const char* kZsh = R"zsh(#compdef @P@
# zsh completion of @P@, written by `@P@ completion zsh`.
@F@() {
  local line word
  local -a described
  for line in "${(@f)$(@P@ completion zsh "${(@)words[1,CURRENT]}" 2>/dev/null)}"; do
    word=${line%%$'\t'*}
    case $line in
      '' | :nospace) ;;
      :files) _files ;;
      *$'\t'*) described+=("${word//:/\\:}:${line#*$'\t'}") ;;
      *) described+=("${word//:/\\:}") ;;
    esac
  done
  _describe word described
}
if [[ ${funcstack[1]} == @F@ ]]; then
  @F@ "$@"
else
  compdef @F@ @P@
fi
)zsh";

constexpr const char* kFish = R"fish(# fish completion of @P@, written by `@P@ completion fish`.
function @F@
  for line in (@P@ completion fish (commandline -opc) (commandline -ct) 2>/dev/null)
    switch $line
      case ':nospace'
      case ':files'
        __fish_complete_path (commandline -ct)
      case '*'
        echo $line
    end
  end
end
complete -c @P@ -f -a '(@F@)'
)fish";

/// A word of roff, in which a hyphen is one and nothing is a request.
std::string roff(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (c == '\\') {
      result += "\\e";
    } else {
      if (c == '-') result += '\\';
      result += c;
    }
  }
  return result.find_first_of(".'") == 0 ? "\\&" + result : result;
}

bool is_heading(const std::string& line) {
  return !line.empty() &&
         line.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ ") == std::string::npos;
}

std::string roff_prose(const std::string& text) {
  std::string page;
  bool is_example = false;
  for (const std::string& line : split(text, '\n')) {
    const bool is_indented = line.starts_with("  ");
    if (is_example && !is_indented) page += ".EE\n.RE\n";
    if (!is_example && is_indented) page += ".RS 4\n.EX\n";
    is_example = is_indented;
    if (line.empty()) {
      page += ".PP\n";
    } else if (is_heading(line)) {
      page += ".SH " + line + "\n";
    } else {
      page += roff(is_indented ? line.substr(2) : line) + "\n";
    }
  }
  return page + (is_example ? ".EE\n.RE\n" : "");
}

const char* text_of(const std::vector<ManualText>& texts, const std::string& command) {
  for (const ManualText& text : texts) {
    if (text.command == command) return text.text;
  }
  return "";
}

std::string roff_options(const CLI::App& app) {
  std::string page;
  for (const CLI::Option* option : app.get_options()) {
    if (option->check_name("--help")) continue;
    page += ".TP\n\\fB" + roff(option->get_name(false, true)) + "\\fR";
    if (option->get_items_expected_max() > 0) {
      const std::string& value = option->get_option_text();
      page += " \\fI" + roff(value.empty() ? option->get_type_name() : value) + "\\fR";
    }
    page += "\n" + roff(option->get_description()) + "\n";
  }
  return page;
}

void add_commands_to_page(const CLI::App& app, const std::string& name,
                          const std::vector<ManualText>& texts, std::string& page) {
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string whole = name + (name.empty() ? "" : " ") + command->get_name();
    page += ".SS " + roff(whole) + "\n" + roff(command->get_description()) + ".\n" +
            roff_options(*command) + roff_prose(text_of(texts, whole));
    add_commands_to_page(*command, whole, texts, page);
  }
}

}  // namespace

CLI::Validator offers(std::vector<std::string> words) {
  return Offer(kWords, [text = joined(words)] { return text; });
}

CLI::Validator offers(std::function<std::vector<std::string>()> words) {
  return Offer(kWords, [words = std::move(words)] { return joined(words()); });
}

CLI::Validator offers_list(std::vector<std::string> words) {
  return Offer(kList, [text = joined(words)] { return text; });
}

CLI::Validator offers_rows(const std::string& sql) {
  return Offer(kRows, [sql] { return sql; });
}

std::string completions(CLI::App& app, const std::vector<std::string>& words,
                        const FirstColumn& ask) {
  if (words.empty()) return "";
  const Typed typed = typed_of(app, words);
  Candidates candidates(typed);
  if (typed.option) {
    candidates.add(*typed.option, ask);
  } else if (typed.at.starts_with('-')) {
    for (const CLI::App* of : typed.apps) {
      for (const CLI::Option* option : of->get_options()) {
        if (of != typed.apps.back() && option == of->get_help_ptr()) continue;  // once is enough
        for (const std::string& name : option->get_lnames()) {
          candidates.add("--" + name, option->get_description());
        }
      }
    }
  } else {
    CLI::App& last = *typed.apps.back();
    for (const CLI::App* command : subcommands_of(last)) {
      candidates.add(command->get_name(), command->get_description());
    }
    for (CLI::Option* option : last.get_options()) {
      if (option->get_positional()) candidates.add(*option, ask);
    }
  }
  return candidates.lines();
}

const std::vector<std::string>& completed_shells() {
  static const std::vector<std::string> shells{"bash", "zsh", "fish"};
  return shells;
}

std::string completion_script(const std::string& program, const std::string& shell) {
  const std::string script = shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish;
  const std::string function =
      "_" + (shell == "zsh" ? program : replaced(program, "-", "_"));  // zsh looks for this name
  return replaced(replaced(script, "@F@", function), "@P@", program);
}

void add_manual(CLI::App& app, const std::vector<ManualText>& texts) {
  for (const ManualText& text : texts) {
    CLI::App* command = &app;
    for (const std::string& name : split(text.command, ' '))
      command = command->get_subcommand(name);
    if (command != &app) command->footer(text.text + ("\n" + command->get_footer()));
  }
}

std::string manual_page(const CLI::App& app, const std::vector<ManualText>& texts) {
  std::string name = app.get_name();
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return std::toupper(c); });
  std::string page = ".TH " + name + " 1\n.SH NAME\n" + roff(app.get_name()) + " \\- " +
                     roff(replaced(app.get_description(), "\n", " ")) + "\n.SH SYNOPSIS\n.B " +
                     roff(app.get_name()) +
                     "\n[\\fIOPTIONS\\fR] \\fICOMMAND\\fR ...\n.SH OPTIONS\n" + roff_options(app) +
                     ".SH COMMANDS\n";
  add_commands_to_page(app, "", texts, page);
  return page + roff_prose(text_of(texts, ""));
}

void add_self_description(CLI::App& app, std::vector<ManualText> texts,
                          std::function<void(std::function<std::string()>)> run, FirstColumn ask) {
  CLI::App* completion = app.add_subcommand(
      "completion", "Prints the completion script of a shell, or candidates for the last WORD");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish; then the words of a command line")
      ->required()
      ->check(CLI::IsMember(completed_shells()))
      ->option_text("SHELL [WORD...]");
  completion->fallthrough(false)->prefix_command();  // what follows is read by nobody else
  completion->callback([&app, completion, shell, run, ask] {
    run([&app, words = completion->remaining(), shell, ask] {
      return words.empty() ? completion_script(app.get_name(), *shell)
                           : completions(app, words, ask);
    });
  });
  app.add_subcommand("manual", "Prints the manual page, as for `man -l -`")
      ->callback([&app, texts, run] { run([&app, texts] { return manual_page(app, texts); }); });
  add_manual(app, texts);
}

}  // namespace greta
