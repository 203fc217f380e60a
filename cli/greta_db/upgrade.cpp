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

int upgrade(Options& options) {
  int64_t before = 0;
  {
    SQLite::Database db = open_unchanged(options.database);
    before = pragma(db, "user_version");
  }
  SQLite::Database db = before < kSchemaVersion ? open_for_writing(options.database)
                                                : open_for_reading(options.database);
  if (before < kSchemaVersion) judge_rest(db);
  const int64_t after = pragma(db, "user_version"),
                runs = db.execAndGet("SELECT count(*) FROM run_verdict").getInt64();
  if (options.format == Format::kJson) {
    JsonObject object;
    object.add("version_before", before).add("version", after).add("runs", runs);
    options.out.write(object.str() + "\n");
    return kExitDone;
  }
  if (before == after) {
    options.out.write(options.database + " has format version " + std::to_string(after) +
                      " already\n");
    return kExitDone;
  }
  options.out.write(options.database + ": format version " + std::to_string(before) + " -> " +
                    std::to_string(after) + ", " + std::to_string(runs) + " runs judged again\n" +
                    kNews);
  return kExitDone;
}

}  // namespace

void add_upgrade_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "upgrade",
      "Bring the database to this format, as any command does, and say what that changes");
  command->footer("Example: greta-db --db old.db upgrade");
  command->callback([&options] { options.action = [&options] { return upgrade(options); }; });
}

}  // namespace greta
