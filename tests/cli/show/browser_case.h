#pragma once
#include <memory>
#include <string>

#include "tests/cli/program.h"
#include "tests/cli/show/browser.h"

namespace greta {

/// Tests of pages in a browser. The pages are made once, by the programs, and the browser stays:
/// Made has a `folder` for them and makes them by make(shell).
template <class Made>
class BrowserCase : public ProgramTest {
 protected:
  static void SetUpTestSuite() {
    if (!Browser::program().empty()) open_ = std::make_unique<Open>();
  }
  static void TearDownTestSuite() { open_.reset(); }
  void SetUp() override {
    if (!open_) GTEST_SKIP() << "there is no chromium: apt-get install chromium";
    if (!open_->browser) {
      open_->made.make([this](const std::string& command) { return shell(command); });
      open_->browser = std::make_unique<Browser>();
    }
    browser().resize(1200, 900);
    browser().prefer("light");
  }

  static Browser& browser() { return *open_->browser; }
  static std::string page(const std::string& name) { return (open_->made.folder / name).string(); }
  static std::string panel() {
    return browser().evaluate(
        "document.getElementById('panel').hidden ? '' :"
        " document.getElementById('panel').innerText");
  }
  static void expect_no_complaint() {
    for (const std::string& text : browser().complaints()) ADD_FAILURE() << text;
  }

 private:
  struct Open {
    Made made;
    std::unique_ptr<Browser> browser;
  };
  static inline std::unique_ptr<Open> open_;
};

}  // namespace greta
