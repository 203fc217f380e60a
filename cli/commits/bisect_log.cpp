#include "cli/commits/bisect_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/exit_status.h"
#include "common/shell_word.h"
#include "common/utf8.h"

namespace greta {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

std::string yes_or_no(bool value) { return value ? "yes" : "no"; }

std::string on_one_line(const std::string& text, const char* what) {
  if (text.find_first_of("\n\r") == std::string::npos) return text;
  throw UsageError(std::string(what) + " has a line end in it, which --log cannot keep: " + text);
}

/// Written, and on the disk.
void write_file(const std::string& file, const std::string& text) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) fail("cannot write " + file);
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(descriptor, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    done += static_cast<size_t>(n);
  }
  const bool written = done == text.size() && fsync(descriptor) == 0;
  const int error = errno;
  close(descriptor);
  if (written) return;
  unlink(file.c_str());
  errno = error;
  fail("cannot write " + file);
}

/// Host, process, its start and the path, between tabs.
std::string tree_text(const BisectTree& tree) {
  const Process& user = tree.user;
  return user.host + "\t" + std::to_string(user.pid) + "\t" + user.start + "\t" + tree.path;
}

std::optional<BisectTree> tree_of(const std::string& text) {
  std::vector<std::string> fields;
  std::istringstream in(text);
  for (std::string field; fields.size() < 3 && std::getline(in, field, '\t');) {
    fields.push_back(field);
  }
  BisectTree tree;
  if (fields.size() < 3 || !std::getline(in, tree.path)) return std::nullopt;
  const std::string& pid = fields[1];
  const auto [end, error] = std::from_chars(pid.data(), pid.data() + pid.size(), tree.user.pid);
  if (error != std::errc() || end != pid.data() + pid.size()) return std::nullopt;
  tree.user.host = fields[0];
  tree.user.start = fields[2];
  return tree;
}

}  // namespace

BisectLog::BisectLog(std::string file) : file_(std::move(file)) {
  std::error_code error;
  if (file_.empty() || !std::filesystem::exists(file_, error)) return;
  if (!std::filesystem::is_regular_file(file_, error)) throw UsageError(file_ + " is no file");
  errno = 0;
  std::ifstream in(file_, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (!in.is_open() || in.bad()) fail("cannot read " + file_);
  read(text);
}

void BisectLog::read(const std::string& text) {
  int line_number = 0;
  std::string comment;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::string where = file_ + ":" + std::to_string(++line_number);
    if (line.empty()) continue;
    if (line.front() == '#') {
      comment = line.substr(std::min<size_t>(2, line.size()));
      continue;
    }
    const size_t blank = std::min(line.find(' '), line.size());
    take(line.substr(0, blank), line.substr(std::min(blank + 1, line.size())), where);
    comments_.resize(answers_.size(), comment);
    comment.clear();
  }
  if (question_ == BisectQuestion{}) return;
  begun_ = true;
  const BisectQuestion& q = question_;
  if (q.repository.empty() || q.good.empty() || q.bad.empty() || q.lineage.empty() ||
      q.gate.empty()) {
    throw UsageError(file_ + " is no whole log of a bisect: name another file with --log");
  }
}

void BisectLog::take(const std::string& word, const std::string& rest, const std::string& where) {
  BisectQuestion& q = question_;
  if (word == "repo") {
    q.repository = rest;
  } else if (word == "good-end") {
    q.good = rest;
  } else if (word == "bad-end") {
    q.bad = rest;
  } else if (word == "lineage") {
    q.lineage = rest;
  } else if (word == "gate" && (rest == "verdict" || rest == "strict" || rest == "numeric")) {
    q.gate = rest;
  } else if (word == "first-parent" && (rest == "yes" || rest == "no")) {
    q.first_parent = rest == "yes";
  } else if (word == "fix" && (rest == "yes" || rest == "no")) {
    q.fix = rest == "yes";
  } else if (word == "good" || word == "bad" || word == "skip") {
    const size_t blank = std::min(rest.find(' '), rest.size());
    answers_.push_back(
        {word, rest.substr(0, blank), rest.substr(std::min(blank + 1, rest.size()))});
  } else if (word == "tree") {
    tree_ = tree_of(rest);
    if (!tree_)
      throw UsageError(where + " is no line of a bisect's log: name another file with --log");
  } else if (word == "found") {
    found_ = rest;
  } else {
    throw UsageError(where + " is no line of a bisect's log: name another file with --log");
  }
}

void BisectLog::begin(const BisectQuestion& question) {
  if (!file_.empty()) {
    on_one_line(question.repository, "the folder of --repo");
    on_one_line(question.lineage, "the lineage");
  }
  question_ = question;
  begun_ = true;
  write();
}

void BisectLog::add(const BisectAnswer& answer, const std::string& subject) {
  const auto same = std::find_if(answers_.begin(), answers_.end(), [&](const BisectAnswer& other) {
    return other.commit == answer.commit;
  });
  if (same != answers_.end() && *same == answer) return;
  if (same != answers_.end()) {
    comments_.erase(comments_.begin() + (same - answers_.begin()));
    answers_.erase(same);
  }
  answers_.push_back(answer);
  comments_.push_back(subject);
  found_.clear();
  write();
}

void BisectLog::found(const std::string& commit, const std::string& subject) {
  const std::string line = commit + (subject.empty() ? "" : " " + utf8::printable(subject));
  if (std::exchange(found_, line) != line) write();
}

void BisectLog::set_tree(std::optional<BisectTree> tree) {
  if (tree && tree->path.find_first_of("\t\n\r") != std::string::npos) return;  // it is not kept
  tree_ = std::move(tree);
  if (begun_) write();
}

void BisectLog::write() const {
  if (file_.empty()) return;
  std::string text = "# greta-db bisect --log " + shell_word(file_) + " goes on from here\n";
  const BisectQuestion& q = question_;
  text += "repo " + q.repository + "\ngood-end " + q.good + "\nbad-end " + q.bad + "\nlineage " +
          q.lineage + "\ngate " + q.gate + "\nfirst-parent " + yes_or_no(q.first_parent) +
          "\nfix " + yes_or_no(q.fix) + "\n";
  for (size_t i = 0; i < answers_.size(); ++i) {
    const BisectAnswer& answer = answers_[i];
    if (!comments_[i].empty()) text += "# " + utf8::printable(comments_[i]) + "\n";
    text += answer.word + " " + answer.commit + " " + utf8::printable(answer.reason) + "\n";
  }
  if (tree_) text += "tree " + tree_text(*tree_) + "\n";
  if (!found_.empty()) text += "found " + found_ + "\n";
  const std::string beside = file_ + ".new";
  write_file(beside, text);
  if (rename(beside.c_str(), file_.c_str()) != 0) fail("cannot write " + file_);
}

}  // namespace greta
