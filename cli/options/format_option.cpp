#include "cli/options/format_option.h"

#include "cli/options/choice.h"

namespace greta {

CLI::Option* add_format_option(CLI::App& app, Format& format) {
  return add_choice_option<Format>(
             app, "--format", format,
             {{"table", Format::kTable},
              {"json", Format::kJson},
              {"csv", Format::kCsv},
              {"tsv", Format::kTsv},
              {"md", Format::kMarkdown}},
             "table (default, also when not on a terminal), json, csv, tsv or md")
      ->option_text("FORMAT");
}

}  // namespace greta
