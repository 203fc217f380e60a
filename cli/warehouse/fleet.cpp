#include "cli/warehouse/fleet.h"

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>

#include "common/environment.h"
#include "common/exit_status.h"
#include "common/stop_signal.h"

namespace greta {
namespace {

/// What a file's first line says.
std::string password_of_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string line;
  if (!in || (!std::getline(in, line) && !in.eof())) {
    throw UsageError("$GRETA_FLEET_PASSWORD_FILE: " + file +
                     " cannot be read: " + std::generic_category().message(errno));
  }
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

/// A terminal that does not show what is typed.
class Terminal {
 public:
  Terminal() : file_(open("/dev/tty", O_RDWR | O_CLOEXEC)) {}
  ~Terminal() {
    if (file_ >= 0) close(file_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::optional<std::string> ask(const std::string& question) {
    termios shown{};
    if (file_ < 0 || tcgetattr(file_, &shown) != 0) return std::nullopt;
    termios hidden = shown;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (tcsetattr(file_, TCSAFLUSH, &hidden) != 0) return std::nullopt;
    say(question);
    std::string line;
    char c = 0;
    bool is_read = false;
    while (stop_signal() == 0) {
      const ssize_t n = read(file_, &c, 1);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      if (c == '\n') {
        is_read = true;
        break;
      }
      line += c;
    }
    tcsetattr(file_, TCSAFLUSH, &shown);
    say("\n");
    throw_if_stopped();
    return is_read ? std::optional(line) : std::nullopt;
  }

 private:
  void say(const std::string& text) const {
    for (size_t at = 0; at < text.size();) {
      const ssize_t n = write(file_, text.data() + at, text.size() - at);
      if (n <= 0) return;
      at += static_cast<size_t>(n);
    }
  }
  int file_;
};

clickhouse::ClientOptions options_from_environment(bool& has_password) {
  clickhouse::ClientOptions options;
  options.password = environment_variable("GRETA_FLEET_PASSWORD");
  has_password = !options.password.empty();
  if (const std::string file = environment_variable("GRETA_FLEET_PASSWORD_FILE");
      !has_password && !file.empty()) {
    options.password = password_of_file(file);
    has_password = true;
  }
  for (const char c : options.password) {
    if (static_cast<unsigned char>(c) < 0x20)
      throw UsageError("the password of the warehouse has a control character");
  }
  options.ca_file = environment_variable("GRETA_FLEET_CA");
  return options;
}

bool is_about_password(const clickhouse::Refused& refused) {
  return refused.code == 192 || refused.code == 193 || refused.code == 194 || refused.code == 516;
}

}  // namespace

std::unique_ptr<FleetServer> connect_to_fleet(const std::string& text,
                                              const clickhouse::Retries& retries) {
  const clickhouse::Address address = clickhouse::parse_address(text);
  bool has_password = false;
  clickhouse::ClientOptions options = options_from_environment(has_password);
  options.retries = retries;
  auto server = std::make_unique<FleetServer>(address, options);
  try {
    server->client().check_settings();
  } catch (const clickhouse::Refused& refused) {
    if (has_password || !is_about_password(refused)) throw;
    const auto password = Terminal().ask("password of " + address.text() + ": ");
    if (!password) throw;
    options.password = *password;
    server = std::make_unique<FleetServer>(address, options);
    server->client().check_settings();
  }
  return server;
}

std::unique_ptr<FleetServer> open_fleet(const std::string& address) {
  std::unique_ptr<FleetServer> server = connect_to_fleet(address);
  server->open();
  return server;
}

}  // namespace greta
