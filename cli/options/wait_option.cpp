#include "cli/options/wait_option.h"

#include <string>

#include "db/lock_wait.h"

namespace greta {

CLI::Option* add_wait_option(CLI::App& app) {
  return app
      .add_option_function<std::string>(
          "--wait",
          [](const std::string& text) {
            const auto patience = parse_duration(text);
            if (!patience) throw CLI::ValidationError("--wait", "'" + text + "' is not like 10m");
            LockWait::usual().set_patience(*patience);
          },
          "How long to wait for others that write to the database, as 90s or 2h (10m)")
      ->option_text("DURATION");
}

}  // namespace greta
