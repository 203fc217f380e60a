#include "cli/show/page.h"

#include "common/json_text.h"

namespace greta {
namespace {

std::string script_of(const std::string& kind) {
  std::string script(core_script());
  if (kind == "history") {
    script += history_script();
  } else if (kind != "gate") {
    script += map_script();
  }
  return script + "page.start();\n";
}

}  // namespace

std::string page_start(const std::string& kind, Language language) {
  return std::string("<!DOCTYPE html>\n<html lang=\"") +
         (language == Language::kSpanish ? "es" : "en") + "\" class=\"" + kind +
         "\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ";
}

std::string page_of(const PageContent& content, Language language) {
  const Wording words(language);
  const std::string script = script_of(content.kind);
  Html html;
  html.verbatim(page_start(content.kind, language)) << "script-src '";
  html.text(source_hash(script)) << "'; style-src '";
  html.text(source_hash(page_style()))
      << "'; base-uri 'none'; form-action 'none'\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n"
         "<meta name=\"referrer\" content=\"no-referrer\">\n<title>";
  html.text(content.title) << "</title>\n<style>";
  html.verbatim(page_style()) << "</style>\n</head>\n<body>\n<main>\n";
  print_html(content.body, html);
  html << "</main>\n<footer><p>";
  html.text(words("page.made")) << "</p></footer>\n<aside id=\"panel\" hidden></aside>\n"
                                   "<script type=\"application/json\" id=\"data\">";
  html.verbatim(json_for_script(content.data)) << "</script>\n<script>";
  html.verbatim(script) << "</script>\n</body>\n</html>\n";
  return html.take();
}

std::string json_of_words(std::span<const ScriptWord> all, const Wording& words) {
  JsonObject object;
  for (const auto& [name, id] : all) object.add(name, std::string_view(words(id)));
  return object.str();
}

}  // namespace greta
