#include "cli/options/format_option.h"

#include "cli/options/choice.h"

namespace greta {

CLI::Option* add_format_option(CLI::App& app, Format& format, bool pages) {
  Choices<Format> choices{{"table", Format::kTable},
                          {"json", Format::kJson},
                          {"csv", Format::kCsv},
                          {"tsv", Format::kTsv},
                          {"md", Format::kMarkdown}};
  if (pages) choices.emplace_back("html", Format::kHtml);
  return add_choice_option<Format>(
             app, "--format", format, choices,
             std::string("table (default, also when not on a terminal), json, csv, tsv or md") +
                 (pages ? "; html of report, compare, history and gate" : ""))
      ->option_text("FORMAT");
}

}  // namespace greta
