// greta-infer: runs language models and traces what prefill and decode compute.
#include <SQLiteCpp/SQLiteCpp.h>

#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/greta_infer/commands.h"
#include "cli/options/shared_options.h"
#include "common/trouble.h"
#include "db/database.h"
#include "db/lock_wait.h"
#include "engine/record/run_store.h"

namespace greta {
namespace {

constexpr const char* kProgram = "greta-infer";

/// Parses the command line with `--prompt=` as the empty prompt: CLI11 takes an option with nothing
/// behind the sign for one whose value is missing.
void parse(CLI::App& app, int argc, char** argv) {
  std::vector<const char*> words;
  for (int i = 0; i < argc; ++i) {
    const bool is_empty_prompt = std::string_view(argv[i]) == "--prompt=";
    words.push_back(is_empty_prompt ? "--prompt" : argv[i]);
    if (is_empty_prompt) words.push_back("");
  }
  app.parse(static_cast<int>(words.size()), words.data());
}

/// All of the program: parses the command line, runs the command that it names, and says on stderr
/// what went wrong. Returns the exit status.
int run_greta_infer(int argc, char** argv) {
  Infer infer;
  CLI::App app;
  std::string trouble;
  std::vector<std::string> more;  // lines after it
  try {
    add_infer_commands(app, infer);
    LockWait::usual().on_long_wait = [](const std::string& message) {
      complain(kProgram, message);
    };
    parse(app, argc, argv);
    return infer.action();
  } catch (const CLI::ParseError& error) {  // --help and --version are such, with status 0
    if (error.get_exit_code() == 0) return app.exit(error);
    const auto unknown = unknown_command(app);
    trouble = unknown ? unknown->what() : error.what();
    more = unknown && !unknown->lines.empty()
               ? unknown->lines
               : std::vector<std::string>{"See greta-infer --help, greta-infer COMMAND --help"};
  } catch (const RunExists& error) {
    trouble = error.what();
    if (error.left_behind)
      trouble += "; it failed, or its process is gone: --replace-failed replaces it";
  } catch (const SQLite::Exception& error) {
    trouble = std::string("database: ") + error.what();
  } catch (const std::bad_alloc&) {
    trouble = "out of memory; a smaller --max-seq-len or --batch needs less";
  } catch (const std::exception& error) {
    trouble = error.what();
  }
  return end_in_trouble(kProgram, trouble, "stopped; what was written stays, as an incomplete run",
                        more);
}

}  // namespace
}  // namespace greta

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error like a full disk
  greta::set_up_sqlite();
  return greta::run_greta_infer(argc, argv);
}
