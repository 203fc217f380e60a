#include "cli/pages/page.h"

#include "cli/pages/page_files.h"
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
  html << content.body;
  html << "</main>\n<footer><p>";
  html.text(words("page.made")) << "</p></footer>\n<aside id=\"panel\" hidden></aside>\n"
                                   "<script type=\"application/json\" id=\"data\">";
  html.verbatim(json_for_script(content.data)) << "</script>\n<script>";
  html.verbatim(script) << "</script>\n</body>\n</html>\n";
  return html.take();
}

Html verdict_badge(const std::string& verdict) {
  Html html;
  html << "<strong class=\"verdict ";
  if (verdict == "PASS") {
    html << "good";
  } else if (verdict == "FAIL") {
    html << "bad";
  } else {
    html << "open";
  }
  html << "\">";
  html.text(verdict) << "</strong>";
  return html;
}

FailKind fail_kind(std::string_view verdict, std::string_view cause, Gate gate,
                   std::string_view other) {
  if (verdict != "FAIL") return FailKind::kNone;
  if (cause == "TRACE_OFFSET") return FailKind::kUnpaired;
  // nothing measures the difference: the numeric verdict is open, and the strict one leads
  const bool open = gate == Gate::kStrict && other != "PASS" && other != "FAIL";
  return open ? FailKind::kUnmeasured : FailKind::kValues;
}

FailKind fail_kind(const Headline& head) {
  return fail_kind(head.verdict, head.fail.cause, head.gate, head.other);
}

Html verdict_badge(const std::string& verdict, FailKind kind, const Wording& words) {
  Html html;
  switch (kind) {
    case FailKind::kNone:
      return verdict_badge(verdict);
    case FailKind::kValues:
      html << "<strong class=\"verdict bad values\">";
      html.text(verdict) << "</strong>";
      break;
    case FailKind::kUnmeasured:
      html << "<strong class=\"verdict bad unmeasured\">";
      html.text(verdict) << "</strong> <span class=remark>";
      html.text(words("fail.unmeasured")) << "</span>";
      break;
    case FailKind::kUnpaired:
      html << "<strong class=\"verdict bad unpaired\">";
      html.text(verdict) << "</strong> <span class=remark>";
      html.text(words("fail.unpaired")) << "</span>";
      break;
  }
  return html;
}

Html table_head(Markup table, std::initializer_list<TextId> columns, const Wording& words) {
  Html html;
  html << "<div class=wide>" << table << "<thead><tr>";
  for (const TextId id : columns) {
    html << "<th scope=col>";
    html.text(words(id)) << "</th>";
  }
  html << "</tr></thead>\n<tbody>\n";
  return html;
}

std::string layer_name(const std::optional<int64_t>& layer, const Wording& words) {
  if (!layer) return words("not_recorded");
  return *layer < 0 ? words("page.head") : std::to_string(*layer);
}

std::string fail_place(const FailPlace& place, const Wording& words) {
  if (place.tensor.empty()) return words("gate.nowhere");
  return words("gate.place", {place.tensor, layer_name(place.layer, words), place.prompt});
}

std::string json_of_words(std::span<const ScriptWord> all, const Wording& words) {
  JsonObject object;
  for (const auto& [name, id] : all) object.add(name, std::string_view(words(id)));
  return object.str();
}

std::string json_of_map_words(const Wording& words, TextId untold) {
  const ScriptWord all[] = {{"prompt", "prompt"},
                            {"layer", "layer"},
                            {"position", "position"},
                            {"hash", "hash"},
                            {"rel_l2", "rel_l2"},
                            {"tolerance", "tolerance"},
                            {"close", "page.close"},
                            {"inputs", "page.inputs"},
                            {"caused_by", "page.caused_by"},
                            {"arises", "page.arises"},
                            {"where", "page.where"},
                            {"furthest", "page.furthest"},
                            {"shares", "page.shares"},
                            {"per_head", "page.per_head"},
                            {"per_slice", "page.per_slice"},
                            {"source", "page.source"},
                            {"interval", "page.interval"},
                            {"rows", "page.rows"},
                            {"same", "page.same_hash"},
                            {"no_row", "page.no_row"},
                            {"route", "page.route"},
                            {"by_exact", "distance.exact"},
                            {"by_sketch", "page.measure.sketch"},
                            {"by_sample", "page.measure.sample"},
                            {"by_hash", "page.measure.hash"},
                            {"untold", untold},
                            {"details", "details"},
                            {"positions", "tree.positions"},
                            {"m", "cell.m"},
                            {"r", "cell.r"},
                            {"f", "cell.f"},
                            {"u", "cell.u"},
                            {"n", "cell.n"},
                            {"x", "cell.x"},
                            {"i", "cell.i"},
                            {"c", "cell.c"},
                            {"o", "cell.o"},
                            {"t", "cell.t"}};
  return json_of_words(all, words);
}

}  // namespace greta
