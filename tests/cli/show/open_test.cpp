// open: which run it shows, where the page is, and who is asked to show it.
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cli/program.h"
#include "tests/cli/show/made_history.h"
#include "tests/cli/show/page_html.h"

namespace greta {
namespace {

class Open : public ProgramTest {
 protected:
  Open() : w(database()) { std::filesystem::create_directory(path("tmp")); }

  void add(const std::string& name, const std::string& date, const std::string& mode, int state) {
    w.run({.name = name, .experiment = "e", .mode = mode, .date = date, .status = "complete"});
    if (state == 0) w.match("x_in", 0);
    if (state == 1) w.rounding("x_in", 0);
    if (state == 2) w.divergent("x_in", 0);
  }
  /// open without a display, with its files in tmp.
  Result open(const std::string& words = "", const std::string& before = "") const {
    return shell("unset DISPLAY WAYLAND_DISPLAY; export TMPDIR=$PWD/tmp; " + before + " $G open " +
                 words);
  }
  static std::string title_of(const std::string& page) {
    const size_t from = page.find("<title>") + 7;
    return page.substr(from, page.find("</title>") - from);
  }
  static std::string line(std::string text) {
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }

  Warehouse w;
};

TEST_F(Open, PrintsWhereThePageOfTheWorstRunOfTheNewestDayIs) {
  add("older", "2026-01-01", "as_designed", 2);
  add("fine", "2026-01-02", "as_designed", 0);
  add("rounds", "2026-01-02", "as_designed", 1);
  add("nothing", "2026-01-02", "as_designed", 3);
  Result result = open();
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.says("run nothing"));
  add("bits", "2026-01-02", "batch_invariant", 1);
  EXPECT_TRUE(open().says("run bits"));
  add("bad", "2026-01-02", "as_designed", 2);
  result = open();
  const std::string page = read(line(result.out));
  EXPECT_TRUE(title_of(page).starts_with("bad: FAIL")) << title_of(page);
  EXPECT_EQ(run({"query", "worst_recent", "--format", "json"}).json()[0]["run"], "bad");
}

TEST_F(Open, AFaultOnPurposeIsShownWhereThereIsNoOther) {
  add("injected", "2026-01-02", "as_designed", 2);
  w.db.exec("INSERT INTO attribute(run_id, dim, value, rank) VALUES (" +
            std::to_string(w.current_run()) + ", 'inject', 'rope_theta@decode', 0)");
  EXPECT_TRUE(open().says("run injected"));
  add("fine", "2026-01-02", "as_designed", 0);
  EXPECT_TRUE(open().says("run fine"));
}

TEST_F(Open, ThePageIsForOneselfAlone) {
  add("r", "2026-01-02", "as_designed", 2);
  const std::string file = line(open("--run r --lang es").out);
  EXPECT_TRUE(file.starts_with(path("tmp") + "/greta-")) << file;
  EXPECT_TRUE(file.ends_with(".html"));
  struct stat status {};
  ASSERT_EQ(stat(file.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_NE(read(file).find("<html lang=\"es\""), std::string::npos);
  EXPECT_NE(line(open("--run r").out), file) << "each has a file of its own";
}

TEST_F(Open, AsksXdgOpenWhereThereIsADisplay) {
  add("r", "2026-01-02", "as_designed", 2);
  std::filesystem::create_directory(path("bin"));
  write("bin/xdg-open", "#!/bin/sh\nprintf '%s|' \"$@\" > " + path("asked.new") + "; mv " +
                            path("asked.new") + " " + path("asked") + "\n");
  chmod(path("bin/xdg-open").c_str(), 0755);
  const std::string display = "export DISPLAY=:1 PATH=$PWD/bin:$PATH;";
  const Result shown = open("", display);
  EXPECT_EQ(shown.status, 0);
  EXPECT_EQ(shown.out, "");
  EXPECT_TRUE(shown.says("a browser is asked to show"));
  for (int i = 0; i < 500 && !std::filesystem::exists(path("asked")); ++i) usleep(20'000);
  const std::string asked = read(path("asked"));
  EXPECT_TRUE(asked.starts_with(path("tmp") + "/greta-") && asked.ends_with(".html|")) << asked;
  std::filesystem::remove(path("asked"));
  EXPECT_TRUE(open("--print", display).out.starts_with(path("tmp")));
  EXPECT_FALSE(std::filesystem::exists(path("asked")));
}

TEST_F(Open, PrintsThePathWhereThereIsNoXdgOpen) {
  add("r", "2026-01-02", "as_designed", 2);
  const Result result =
      shell("export DISPLAY=:1 TMPDIR=$PWD/tmp; mkdir none; PATH=$PWD/none $G open");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with(path("tmp"))) << result.out;
}

TEST_F(Open, SaysWhatIsMissing) {
  Result result = open();
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.says("there is no run to show"));
  add("r", "2026-01-02", "as_designed", 2);
  result = shell("TMPDIR=$PWD/nowhere $G open");
  EXPECT_EQ(result.status, 2);
  EXPECT_TRUE(result.says("nowhere"));
  EXPECT_EQ(open("--run nobody").status, 2);
}

}  // namespace
}  // namespace greta
