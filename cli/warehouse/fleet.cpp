#include "cli/warehouse/fleet.h"

#include <termios.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

#include "common/environment.h"
#include "common/exit_status.h"
#include "common/stop_signal.h"

namespace greta {
namespace {

/// The first line of a file.
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

/// Asks on the terminal for what is typed unseen; "" where there is no terminal.
std::string typed_password(const std::string& question) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> terminal(std::fopen("/dev/tty", "r+"),
                                                                 std::fclose);
  termios shown{};
  if (!terminal || tcgetattr(fileno(terminal.get()), &shown) != 0) return "";
  termios hidden = shown;
  hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  if (tcsetattr(fileno(terminal.get()), TCSAFLUSH, &hidden) != 0) return "";
  std::fputs(question.c_str(), terminal.get());
  std::fflush(terminal.get());
  std::array<char, 1024> bytes{};
  const bool is_read = std::fgets(bytes.data(), bytes.size(), terminal.get()) != nullptr;
  tcsetattr(fileno(terminal.get()), TCSAFLUSH, &shown);
  std::fputs("\n", terminal.get());
  throw_if_stopped();
  const std::string_view line(bytes.data());
  return is_read ? std::string(line.substr(0, line.find('\n'))) : "";
}

clickhouse::ClientOptions options_from_environment() {
  clickhouse::ClientOptions options;
  options.password = environment_variable("GRETA_FLEET_PASSWORD");
  const std::string file = environment_variable("GRETA_FLEET_PASSWORD_FILE");
  if (options.password.empty() && !file.empty()) options.password = password_of_file(file);
  for (const char c : options.password) {
    if (static_cast<unsigned char>(c) < 0x20)
      throw UsageError("the password of the warehouse has a control character");
  }
  options.ca_file = environment_variable("GRETA_FLEET_CA");
  return options;
}

}  // namespace

std::unique_ptr<FleetServer> connect_to_fleet(const std::string& text,
                                              const clickhouse::Retries& retries) {
  const clickhouse::Address address = clickhouse::parse_address(text);
  clickhouse::ClientOptions options = options_from_environment();
  options.retries = retries;
  auto server = std::make_unique<FleetServer>(address, options);
  try {
    server->client().check_settings();
  } catch (const clickhouse::Refused& refused) {
    if (refused.code != clickhouse::kWrongPassword || !options.password.empty()) throw;
    options.password = typed_password("password of " + address.text() + ": ");
    if (options.password.empty()) throw;
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
