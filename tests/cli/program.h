// Runs the built greta-db as a shell would, on databases made of rows that a test spells out.
#pragma once
#include <gtest/gtest.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <initializer_list>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/temporary_folder.h"
#include "tests/file_bytes.h"
#include "tests/queries/warehouse.h"

namespace greta {

struct Result {
  int status = -1;  ///< exit status; 128 + signal when one ended it
  std::string out, err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
  /// A failure shows both outputs.
  testing::AssertionResult says(const std::string& text) const {
    const bool found = (out + err).find(text) != std::string::npos;
    return testing::AssertionResult(found) << "\"" << text << "\" in\n" << out << err;
  }
  /// It ended with that status, and says all of these.
  testing::AssertionResult answers(int wanted, const std::vector<std::string>& texts) const {
    for (const std::string& text : texts) {
      if (const testing::AssertionResult said = says(text); !said) return said;
    }
    return testing::AssertionResult(status == wanted) << "status " << status << "\n" << out << err;
  }
};

/// A folder of its own for each test, with a database greta.db in it.
class ProgramTest : public testing::Test {
 public:
  static std::string quoted(const std::string& word) {
    std::string text = "'";
    for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return text + "'";
  }

 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string database() const { return path("greta.db"); }

  static std::string read(const std::string& file) { return bytes_of(file); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  /// greta-db with these words, in the test's folder.
  Result run(std::initializer_list<std::string> words) const {
    std::string command = quoted(GRETA_DB_PROGRAM);
    for (const std::string& word : words) command += " " + quoted(word);
    return shell(command);
  }

  /// A command line of sh, where $G is greta-db.
  Result shell(const std::string& command) const {
    std::string line = "cd " + quoted(folder_.path().string()) +
                       "; unset GRETA_DB NO_COLOR; G=" + quoted(GRETA_DB_PROGRAM) + "; { " +
                       command + "\n} >" + quoted(path(".out")) + " 2>" + quoted(path(".err"));
    int status = std::system(line.c_str());
    Result result;
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.out = read(path(".out"));
    result.err = read(path(".err"));
    return result;
  }

  /// False where a program is not installed, which the list of skipped tests then says.
  bool is_installed(const std::string& program) const {
    if (shell("command -v " + program).status == 0) return true;
    std::cout << "skipped: " << program << " is not installed\n";
    return false;
  }

  /// A program with these words, in the test's folder, on a terminal so many columns wide without
  /// colours, where `typed` is typed: both outputs in one.
  Result on_terminal(const std::string& program, std::vector<std::string> words,
                     const std::string& typed = "", unsigned short columns = 500) const {
    words.insert(words.begin(), program);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int master = -1;
    winsize size{.ws_row = 50, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    const pid_t child = forkpty(&master, nullptr, nullptr, &size);
    if (child == 0) {
      setenv("NO_COLOR", "1", 1);
      if (chdir(folder_.path().c_str()) == 0) execv(argv[0], argv.data());
      _exit(127);
    }
    Result result;
    if (!typed.empty() && ::write(master, typed.data(), typed.size()) < 0) result.err = "no input";
    char buffer[4096];
    for (ssize_t n; (n = ::read(master, buffer, sizeof buffer)) > 0;) {
      result.out.append(buffer, static_cast<size_t>(n));
    }
    close(master);
    int status = 0;
    waitpid(child, &status, 0);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
  }

  TemporaryFolder folder_;
};

}  // namespace greta
