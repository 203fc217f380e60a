#include <stdexcept>
#include <string>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "common/utf8.h"
#include "db/database.h"
#include "db/transaction.h"
#include "ingest/foreign/name_rules.h"

namespace greta {
namespace {

struct NamesArguments {
  std::string pattern, tensor;
};

constexpr const char* kFromNowOn = "; that is for what is ingested from now on\n";

int list_names(Options& options, const NamesArguments&) {
  SQLite::Database db = open_for_reading(options.database);
  Query query(db,
              "SELECT rule_set AS \"set\", pattern, tensor, ord AS \"order\" FROM name_rule"
              " ORDER BY ord, id");
  print_query(query, options.out, options.format);
  return kExitDone;
}

/// A rule of one's own, before those that greta ships.
int add_name(Options& options, const NamesArguments& a) {
  try {
    const NamePattern pattern(a.pattern);
  } catch (const std::invalid_argument& error) {
    throw UsageError("'" + utf8::printable(a.pattern) + "' is " + error.what());
  }
  SQLite::Database db = open_for_writing(options.database);
  check_known(db, NameOf::kTensor, a.tensor);
  bool is_new = false;
  in_transaction(db, [&] {
    Query(db,
          "INSERT OR IGNORE INTO name_rule(ord, pattern, tensor, rule_set) VALUES (0, ?, ?, 'own')")
        .bind(1, a.pattern)
        .bind(2, a.tensor)
        .step();
    is_new = db.execAndGet("SELECT changes()").getInt() > 0;
  });
  if (!is_new) {
    throw UsageError("there is a rule of this pattern: `greta-db names remove` it first");
  }
  options.out.write("names " + utf8::printable(a.pattern) + " are " + a.tensor + kFromNowOn);
  return kExitDone;
}

int remove_name(Options& options, const NamesArguments& a) {
  SQLite::Database db = open_for_writing(options.database);
  bool was_there = false;
  in_transaction(db, [&] {
    Query(db, "DELETE FROM name_rule WHERE pattern = ?").bind(1, a.pattern).step();
    was_there = db.execAndGet("SELECT changes()").getInt() > 0;
  });
  if (!was_there) {
    throw UsageError("no rule has the pattern '" + utf8::printable(a.pattern) +
                     "': `greta-db names list` has all");
  }
  options.out.write("no rule has pattern " + utf8::printable(a.pattern) + " any more" + kFromNowOn);
  return kExitDone;
}

}  // namespace

void add_names_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("names", "Which names of other tools are which trace points");
  command->require_subcommand(1);
  CLI::App* list =
      command->add_subcommand("list", "Every rule, in the order in which they are tried");
  add_action(*list, options, list_names);
  CLI::App* add = command->add_subcommand(
      "add", "Names that fit a pattern are a trace point; its first group is the layer");
  NamesArguments& added = add_action(*add, options, add_name);
  add_option(*add, "pattern PATTERN", added.pattern, "PCRE2, of the whole name")->required();
  add_option(*add, "tensor TENSOR", added.tensor, "Trace point")
      ->required()
      ->check(offers_rows("SELECT name FROM tensor_name"));
  CLI::App* remove = command->add_subcommand("remove", "Take a rule away, shipped ones too");
  add_option(*remove, "pattern PATTERN", add_action(*remove, options, remove_name).pattern,
             "As `names list` has it")
      ->required();
}

}  // namespace greta
