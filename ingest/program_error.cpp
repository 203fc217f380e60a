#include "ingest/program_error.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>
#include <unordered_set>
#include <vector>

#include "ingest/text.h"

namespace greta {
namespace {

constexpr int kMostErrors = 160;       // numbers of errors that Linux names, and some more
constexpr size_t kMaxErrorBytes = 64;  // of such a name
constexpr size_t kMostTokens = 64;

using said::is_any_of;

/// Words that follow each other; the last may go on ("errors").
using Phrase = std::array<std::string_view, 3>;
constexpr Phrase kCrashes[] = {{"segmentation", "fault"},
                               {"bus", "error"},
                               {"illegal", "instruction"},
                               {"illegal", "memory", "access"},
                               {"memory", "access", "fault"},
                               {"floating", "point", "exception"},
                               {"core", "dumped"},
                               {"out", "of", "memory"},
                               {"bad", "alloc"},
                               {"cannot", "allocate", "memory"},
                               {"no", "space", "left"},
                               {"terminate", "called"},
                               {"traceback", "most", "recent"},
                               {"stack", "smashing"},
                               {"double", "free"},
                               {"corrupted", "size"},
                               {"assertion", "error"},
                               {"address", "sanitizer"},
                               {"runtime", "error"},
                               {"unhandled", "exception"},
                               {"uncaught", "exception"},
                               {"panicked", "at"},
                               {"kernel", "panic"},
                               {"killed", "by", "signal"},
                               {"killed", "process"},
                               {"terminated", "by", "signal"},
                               {"non", "zero", "status"},
                               {"non", "zero", "exit"},
                               {"overflow", "detected"},
                               {"invalid", "pointer"},
                               {"out", "of", "tolerance"},
                               {"outside", "tolerance"},
                               {"outside", "the", "tolerance"},
                               {"not", "within", "tolerance"},
                               {"oom", "kill"},
                               {"timed", "out"},
                               {"to", "time", "limit"},
                               {"cuda", "error"},
                               {"hip", "error"},
                               {"nccl", "error"},
                               {"rccl", "error"},
                               {"device", "lost"},
                               {"gpu", "hang"},
                               {"nan", "detected"},
                               {"drift", "detected"},
                               {"mismatch", "detected"},
                               {"nvrm", "xid"},
                               {"gpu", "reset"},
                               {"gpu", "has", "fallen"},
                               {"general", "protection", "fault"}};

/// Words of the phrase at the start of `words`; 0: it is not there.
size_t phrase_words(SaidWords words, const Phrase& phrase) {
  if (words[0].text[0] != phrase[0][0]) return 0;
  size_t n = 0;
  while (n < phrase.size() && !phrase[n].empty()) {
    if (n == words.size() || words[n].text != phrase[n]) return 0;
    ++n;
  }
  return n;
}

/// "sigsegv", as which a process ended.
bool is_deadly_signal(std::string_view word) {
  return is_any_of(word, {"sigsegv", "sigabrt", "sigbus", "sigfpe", "sigill", "sigkill", "sigxcpu",
                          "sigxfsz", "sigsys", "sigtrap"});
}

/// As Linux and systemd say it: "greta[12]: segfault at 0 ip 00007f", "code=killed, status=9/KILL".
/// What follows is a number of theirs, which denies nothing.
bool is_end_of_process(SaidWords words) {
  return words.size() > 1 &&
         ((words[0].text == "segfault" && words[1].text == "at") ||
          (words[0].text == "code" && is_any_of(words[1].text, {"killed", "dumped"})));
}

/// What follows denies it, "CUDA error: no error", "HIP error: hipSuccess", "runtime error = 0", or
/// makes it the name of a type, hipError_t.
bool is_denied(SaidWords rest) {
  const SaidWords first = rest.first(std::min<size_t>(2, rest.size()));
  return std::any_of(first.begin(), first.end(),
                     [](const SaidWord& word) { return said::is_fine(word.text); }) ||
         counts_no_failure(rest) ||
         (!rest.empty() && is_any_of(rest[0].text, {"t", "checking", "handling"})) ||
         (!rest.empty() && rest[0].text == "no" && rest.size() > 1 && rest[1].text == "error");
}

/// What the system calls its errors, in lower case: "no such file or directory".
bool is_name_of_error(std::string_view text) {
  static const std::unordered_set<std::string> names = [] {
    std::unordered_set<std::string> all;
    for (int error = 1; error < kMostErrors; ++error) {
      all.insert(text::to_lower(std::generic_category().message(error)));
    }
    return all;
  }();
  return names.contains(text::to_lower(text));
}

/// Signals that end a program which does not look at them.
constexpr int kDeadlySignals[] = {SIGHUP,  SIGINT,  SIGILL,    SIGTRAP, SIGABRT, SIGBUS,  SIGFPE,
                                  SIGKILL, SIGUSR1, SIGSEGV,   SIGUSR2, SIGPIPE, SIGALRM, SIGTERM,
                                  SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGSYS};

/// What the system calls them: "Killed".
bool is_name_of_signal(std::string_view text, bool in_any_case) {
  return std::any_of(std::begin(kDeadlySignals), std::end(kDeadlySignals), [&](int signal) {
    const std::string_view name = ::strsignal(signal);
    return in_any_case ? text::to_lower(name) == text::to_lower(text) : name == text;
  });
}

/// The line without "[1]+  ", "[1]  1234 " or "zsh: " before it.
std::string_view without_job(std::string_view line) {
  const size_t end = line.starts_with('[') ? line.find(']') : line.npos;
  if (end != line.npos && end > 1 &&
      std::all_of(line.begin() + 1, line.begin() + end, text::is_digit)) {
    line.remove_prefix(std::min(line.find_first_not_of("]+- \t0123456789", end), line.size()));
    return line;
  }
  const size_t of_script = line.substr(0, kMaxErrorBytes).find(": line ");
  if (of_script != line.npos) {
    line.remove_prefix(of_script + std::string_view(": line ").size());
    line.remove_prefix(std::min(line.find_first_not_of("0123456789: "), line.size()));
    return line;
  }
  const size_t colon = line.substr(0, kMaxErrorBytes).find(": ");
  return colon != line.npos && line.substr(0, colon).find(' ') == line.npos &&
                 line.substr(0, colon).ends_with("sh")
             ? text::trim(line.substr(colon + 2))
             : line;
}

/// The text without its last part behind a colon, which goes to `last`: all of it if that is long.
std::string_view take_last_part(std::string_view text, std::string_view& last) {
  const size_t from = text.size() - std::min(text.size(), 2 * kMaxErrorBytes);
  const size_t in_end = text.substr(from).rfind(": ");
  const size_t colon = in_end == text.npos ? text.npos : from + in_end;
  last = text::trim(colon == text.npos ? text : text.substr(colon + 2));
  return colon == text.npos ? std::string_view() : text.substr(0, colon);
}

/// "sh: 1: greta: not found": the parts before the last.
bool is_of_a_shell(std::string_view before) {
  std::string_view command, line;
  take_last_part(take_last_part(before, command), line);
  return !line.empty() && std::all_of(line.begin(), line.end(), text::is_digit);
}

/// Whether a line is a warning or a note, or says what was done instead.
bool goes_on(std::string_view line) {
  const std::vector<std::string_view> tokens = said::tokens_of(line, kMostTokens);
  return std::any_of(tokens.begin(), tokens.end(), [](std::string_view token) {
    const std::string word = text::to_lower(token);
    return is_any_of(word,
                     {"warning",  "warn",     "info",       "debug",    "note",     "notice",
                      "using",    "default",  "defaults",   "instead",  "optional", "disabled",
                      "creating", "retrying", "ignored",    "ignoring", "skipped",  "skipping",
                      "fallback", "falling",  "continuing", "expected"});
  });
}

/// What is done to a file or a device before there are numbers.
bool is_of_a_start(std::string_view verb) {
  return is_any_of(verb, {"open", "read", "write", "load", "create", "find", "allocate", "access",
                          "execute", "run", "start", "launch", "connect", "map", "mmap", "stat",
                          "initialize", "initialise", "init"});
}

}  // namespace

bool is_glog_error(std::string_view line) {
  constexpr std::string_view kShape = "Edddd dd:dd:dd";
  if (line.size() < kShape.size() || (line[0] != 'E' && line[0] != 'F')) return false;
  for (size_t i = 1; i < kShape.size(); ++i) {
    if (kShape[i] == 'd' ? !text::is_digit(line[i]) : line[i] != kShape[i]) return false;
  }
  return true;
}

bool tells_of_crash(SaidWords words) {
  bool asserts = false;
  size_t negated = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i].opens) negated = 0;
    const SaidWords rest = words.subspan(i);
    for (const Phrase& phrase : kCrashes) {
      const size_t n = negated == 0 ? phrase_words(rest, phrase) : 0;
      if (n > 0 && !is_denied(rest.subspan(n))) return true;
    }
    if (negated == 0 && (is_deadly_signal(words[i].text) || is_end_of_process(rest))) return true;
    asserts |= negated == 0 && words[i].text == "assertion";  // "Assertion `x == 0' failed."
    if (asserts && words[i].text == "failed") return true;
    const bool negates = said::is_negation(words[i].text) || said::is_zero(words[i].text) ||
                         is_any_of(words[i].text, {"avoid", "prevent"});
    negated = negates ? kNegatedWords : negated - (negated > 0);
  }
  return false;
}

bool is_system_error(std::string_view line) {
  const bool may_be = !line.empty() && (text::is_letter(line.back()) ||
                                        std::string_view(").'").find(line.back()) != line.npos);
  if (!may_be) return false;  // hardly any line of numbers
  std::string_view last;
  const std::string_view before = take_last_part(line, last);
  const size_t remark = std::min(last.find(" ("), last.size());  // "(os error 2)", "(ignored)"
  if (goes_on(last.substr(remark))) return false;
  last = last.substr(0, remark);
  while (last.ends_with('.') || last.ends_with('\'') || last.ends_with(')')) last.remove_suffix(1);
  if (last.size() > kMaxErrorBytes || last.find(' ') == last.npos) return false;
  const bool is_error = is_name_of_error(last) || last == "command not found" ||
                        (last == "not found" && is_of_a_shell(before));
  return is_error && !goes_on(before);
}

bool is_death_by_signal(std::string_view line) {
  const std::string_view said = without_job(line);
  const bool is_of_shell = said.size() < line.size();
  std::string_view name = is_of_shell ? said.substr(0, said.find("  ")) : said;
  name = text::trim(name.substr(0, name.find(" (")));  // "(core dumped)"
  return name.size() <= kMaxErrorBytes && is_name_of_signal(name, is_of_shell);
}

bool tells_of_what_could_not_be(std::string_view line, SaidWords words) {
  bool begins = true;  // but for numbers, as of a time
  for (size_t i = 0; i + 2 < words.size(); ++i) {
    begins = words[i].opens || begins;
    const std::string& first = words[i].text;
    const std::string& second = words[i + 1].text;
    const bool is_short = first == "cannot";
    const bool could_not = is_short || (is_any_of(first, {"can", "could"}) && second == "not") ||
                           (is_any_of(first, {"can", "couldn"}) && second == "t") ||
                           (first == "unable" && second == "to");
    const bool is_told = (could_not && is_of_a_start(words[i + 2 - is_short].text)) ||
                         (first == "failed" && second == "to");
    if (begins && is_told && !counts_no_failure(words.subspan(i + 3))) return !goes_on(line);
    begins = begins && text::is_digit(first[0]);
  }
  return false;
}

}  // namespace greta
