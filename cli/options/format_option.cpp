#include "cli/options/format_option.h"

#include "cli/options/choice.h"

namespace greta {

CLI::Option* add_format_option(CLI::App& app, Format& format) {
  return app
      .add_option_function<std::string>(
          "--format",
          [&format](const std::string& name) {
            format = choose<Format>("--format", name,
                                    {{"table", Format::kTable},
                                     {"json", Format::kJson},
                                     {"csv", Format::kCsv},
                                     {"tsv", Format::kTsv},
                                     {"md", Format::kMarkdown}});
          },
          "table (default, also when not on a terminal), json, csv, tsv or md")
      ->option_text("FORMAT");
}

}  // namespace greta
