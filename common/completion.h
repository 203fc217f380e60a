#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

/// What a program says of its own command line: candidates for a shell's completion, and the manual
/// page. Both are read off the CLI::App: what a command takes, and what its values can be, is said
/// where the option is added, and nowhere else. A value that is one of a few has CLI::IsMember; a
/// file or folder has an option_text that says FILE, DIR, PATH or .db; for others there are the
/// validators below, which refuse nothing.
namespace greta {

/// These words are offered for the value.
CLI::Validator offers(std::vector<std::string> words);
/// The same, worked out when they are asked for.
CLI::Validator offers(std::function<std::vector<std::string>()> words);
/// Several of these words are offered, with commas between them.
CLI::Validator offers_list(std::vector<std::string> words);
/// The first column of this SQL's rows is offered.
CLI::Validator offers_rows(const std::string& sql);

/// First column of what `sql` finds in `database` ("": the usual one); nothing where it cannot be
/// asked.
using FirstColumn =
    std::function<std::vector<std::string>(const std::string& database, const std::string& sql)>;

/// Candidates for the last of `words`, which begin with the program's name: a line each, with its
/// description behind a tab. A line that begins with ':' is for the script: ":files" asks for names
/// of files, too; ":nospace" says that the word may go on.
std::string completions(CLI::App& app, const std::vector<std::string>& words,
                        const FirstColumn& ask = {});

/// The shells that there is a script for.
const std::vector<std::string>& completed_shells();

/// The script of one of them, which asks `PROGRAM completion SHELL WORD...` for candidates.
std::string completion_script(const std::string& program, const std::string& shell);

/// Prose of the manual of a command, or of the program itself where `command` is empty. Paragraphs
/// stand between blank lines, examples are indented, and a line of capitals is a heading.
struct ManualText {
  const char* command;
  const char* text;
};

/// Puts each text behind its command's --help.
void add_manual(CLI::App& app, const std::vector<ManualText>& texts);

/// The page that man(1) shows, in its macros.
std::string manual_page(const CLI::App& app, const std::vector<ManualText>& texts);

/// Adds the commands `completion` and `manual`. The one that is named gives `run` what it prints.
void add_self_description(CLI::App& app, std::vector<ManualText> texts,
                          std::function<void(std::function<std::string()>)> run,
                          FirstColumn ask = {});

}  // namespace greta
