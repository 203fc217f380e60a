#include "cli/greta_db/commands.h"
#include "common/json_text.h"
#include "db/database.h"
#include "db/judge.h"
#include "db/schema.h"

namespace greta {
namespace {

/// Version 10 made one verdict lead; before it, the strict one did.
constexpr const char* kNews =
    "`verdict` and `first_fail` are now those to act on: the strict ones where the mode promises "
    "equal\n"
    "bits, or where no difference has a distance, else the numeric ones. Exit statuses follow "
    "them.\n"
    "The former `verdict` is now `strict_verdict`; `--gate strict` asks for it.\n";

int upgrade(Options& options, const std::string& file) {
  const int64_t before = [&file] {
    SQLite::Database db = open_unchanged(file);
    return pragma(db, "user_version");
  }();
  SQLite::Database db = open_for_writing(file);
  judge_rest(db);
  const int64_t after = pragma(db, "user_version"),
                runs = db.execAndGet("SELECT count(*) FROM run_verdict").getInt64();
  if (options.format == Format::kJson) {
    JsonObject object;
    object.add("version_before", before).add("version", after).add("runs", runs);
    options.out.write(object.str() + "\n");
    return kExitDone;
  }
  if (before == after) {
    options.out.write(file + " has format version " + std::to_string(after) + " already\n");
    return kExitDone;
  }
  options.out.write(file + ": format version " + std::to_string(before) + " -> " +
                    std::to_string(after) + ", " + std::to_string(runs) + " runs judged again\n" +
                    kNews);
  return kExitDone;
}

}  // namespace

void add_upgrade_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "upgrade", "Bring a database to the format of this build, and say what that changes");
  auto file = std::make_shared<std::string>();
  command->add_option("file", *file, "The database; else that of --db")->option_text("FILE");
  command->footer("Example: greta-db upgrade old.db");
  command->callback([&options, file] {
    options.action = [&options, file] {
      return upgrade(options, file->empty() ? options.database : *file);
    };
  });
}

}  // namespace greta
