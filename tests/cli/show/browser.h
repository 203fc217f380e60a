// Headless Chromium, driven by its DevTools protocol over a pipe: JSON messages that end in NUL, to
// its file descriptor 3 and from its 4.
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/environment.h"
#include "common/temporary_folder.h"

namespace greta {

class Browser {
 public:
  using Json = nlohmann::json;

  /// Where the program is; "" without one.
  static std::string program() {
    std::istringstream folders(environment_variable("PATH"));
    for (std::string folder; std::getline(folders, folder, ':');) {
      for (const char* name : {"/chromium", "/chromium-browser", "/google-chrome"}) {
        if (access((folder + name).c_str(), X_OK) == 0) return folder + name;
      }
    }
    return "";
  }

  Browser() {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
      throw std::runtime_error("cannot make a pipe");
    const std::string file = program(), data = "--user-data-dir=" + profile_.path().string();
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      // above what is to become 3 and 4
      const int in = fcntl(to[0], F_DUPFD, 10), out = fcntl(from[1], F_DUPFD, 10);
      dup2(in, 3);
      dup2(out, 4);
      const int nothing = open("/dev/null", O_RDWR);
      dup2(nothing, 0);
      dup2(nothing, 1);
      dup2(nothing, 2);
      execl(file.c_str(), file.c_str(), "--headless=new", "--no-sandbox", "--disable-gpu",
            "--no-first-run", "--disable-background-networking", "--hide-scrollbars",
            "--remote-debugging-pipe", data.c_str(), "about:blank", nullptr);
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    in_ = to[1];
    out_ = from[0];
    const Json target = call("Target.createTarget", {{"url", "about:blank"}});
    session_ = call("Target.attachToTarget",
                    {{"targetId", target["targetId"]}, {"flatten", true}})["sessionId"];
    for (const char* domain : {"Page", "Runtime", "Network", "Log"})
      call(std::string(domain) + ".enable");
  }
  ~Browser() {
    close(in_);
    close(out_);
    ::kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  /// The result of a command; throws what the browser says of one that it refuses.
  Json call(const std::string& method, Json parameters = Json::object()) {
    Json message{{"id", ++id_}, {"method", method}, {"params", std::move(parameters)}};
    if (!session_.empty()) message["sessionId"] = session_;
    const std::string text = message.dump() + '\0';
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t n = ::write(in_, text.data() + sent, text.size() - sent);
      if (n <= 0) throw std::runtime_error("the browser went away");
      sent += static_cast<size_t>(n);
    }
    for (;;) {
      Json answer = read();
      if (!answer.contains("id")) {
        events.push_back(std::move(answer));
      } else if (answer["id"] == id_) {
        if (answer.contains("error"))
          throw std::runtime_error(method + ": " + answer["error"].dump());
        return answer["result"];
      }
    }
  }

  /// How wide and high it is; `phone`: with touch and a small screen's ways.
  void resize(int width, int height, bool phone = false) {
    call("Emulation.setDeviceMetricsOverride",
         {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", phone}});
  }
  void prefer(const std::string& scheme, const std::string& media = "") {
    call("Emulation.setEmulatedMedia",
         {{"media", media},
          {"features", Json::array({{{"name", "prefers-color-scheme"}, {"value", scheme}}})}});
  }

  /// Opens a file and waits until all of it is there.
  void open_file(const std::string& path, const std::string& fragment = "") {
    go_to("about:blank");
    go_to("file://" + path + fragment);
  }

  /// The value of a JavaScript expression.
  Json evaluate(const std::string& expression) {
    const Json result =
        call("Runtime.evaluate",
             {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
    if (result.contains("exceptionDetails"))
      throw std::runtime_error(expression + ": " + result["exceptionDetails"].dump());
    return result["result"].value("value", Json());
  }

  void press(const std::string& key, const std::string& text = "") {
    Json event{{"type", text.empty() ? "rawKeyDown" : "keyDown"}, {"key", key}};
    if (!text.empty()) event["text"] = text;
    call("Input.dispatchKeyEvent", event);
    event["type"] = "keyUp";
    event.erase("text");
    call("Input.dispatchKeyEvent", event);
  }
  void type(const std::string& text) { call("Input.insertText", {{"text", text}}); }
  /// Moves the mouse onto the first element of a selector.
  void point_at(const std::string& selector, bool click = false) {
    const Json at = evaluate("(() => { const e = document.querySelector(" + Json(selector).dump() +
                             "); e.scrollIntoView({block: 'center'}); const r ="
                             " e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height"
                             " / 2]; })()");
    Json event{{"type", "mouseMoved"}, {"x", at[0]}, {"y", at[1]}};
    call("Input.dispatchMouseEvent", event);
    if (!click) return;
    event["button"] = "left";
    event["clickCount"] = 1;
    for (const char* type : {"mousePressed", "mouseReleased"}) {
      event["type"] = type;
      call("Input.dispatchMouseEvent", event);
    }
  }

  void print(const std::filesystem::path& file) {
    save(file, call("Page.printToPDF", {{"printBackground", true}})["data"]);
  }

  /// Errors and warnings of the console, exceptions, and requests for anything but the page.
  std::vector<std::string> complaints() const {
    std::vector<std::string> found;
    for (const Json& event : events) {
      const std::string method = event["method"];
      const Json& p = event["params"];
      if (method == "Runtime.exceptionThrown" || method == "Log.entryAdded")
        found.push_back(p.dump());
      if (method == "Runtime.consoleAPICalled") found.push_back(p.dump());
      if (method == "Network.requestWillBeSent" && p["type"] != "Document")
        found.push_back(p["request"]["url"]);
    }
    return found;
  }

  std::vector<Json> events;  ///< since the page was opened

 private:
  void go_to(const std::string& address) {
    events.clear();
    call("Page.navigate", {{"url", address}});
    const auto loaded = [this] {
      return std::any_of(events.begin(), events.end(), [](const Json& event) {
        return event["method"] == "Page.loadEventFired";
      });
    };
    while (!loaded()) events.push_back(read());
  }

  Json read() {
    for (;;) {
      if (const size_t end = held_.find('\0'); end != std::string::npos) {
        Json message = Json::parse(held_.substr(0, end));
        held_.erase(0, end + 1);
        return message;
      }
      pollfd ready{.fd = out_, .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, 60'000) <= 0) throw std::runtime_error("the browser does not answer");
      char buffer[65536];
      const ssize_t n = ::read(out_, buffer, sizeof buffer);
      if (n <= 0) throw std::runtime_error("the browser went away");
      held_.append(buffer, static_cast<size_t>(n));
    }
  }

  static void save(const std::filesystem::path& file, const std::string& base64) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    uint32_t bits = 0;
    int held = 0;
    for (const char c : base64) {
      const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                        : c >= 'a' && c <= 'z' ? c - 'a' + 26
                        : c >= '0' && c <= '9' ? c - '0' + 52
                        : c == '+'             ? 62
                        : c == '/'             ? 63
                                               : -1;
      if (value < 0) break;
      bits = bits << 6 | static_cast<uint32_t>(value);
      held += 6;
      if (held < 8) continue;
      held -= 8;
      out.put(static_cast<char>(bits >> held & 255));
    }
  }

  TemporaryFolder profile_;
  pid_t pid_ = -1;
  int in_ = -1, out_ = -1, id_ = 0;
  std::string session_, held_;
};

}  // namespace greta
