#include "cli/show/page.h"

#include <openssl/evp.h>

#include <cmath>
#include <cstdio>

#include "common/json_text.h"
#include "common/sha256.h"
#include "common/utf8.h"

namespace greta {
namespace {

/// \uXXXX, twice beyond the first 65,536.
void append_escape(std::string& out, uint32_t code) {
  const auto unit = [&out](uint32_t bits) {
    char text[16];
    std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(bits));
    out += text;
  };
  if (code < 0x10000) return unit(code);
  unit(0xd800 + ((code - 0x10000) >> 10));
  unit(0xdc00 + (code & 0x3ff));
}

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

std::string json_of_words(std::initializer_list<TextId> all, const Wording& words) {
  JsonObject object;
  for (const TextId id : all) object.add(id.text().id, std::string_view(words(id)));
  return object.str();
}

Html& Html::text(std::string_view data, std::string_view kept) {
  for (const char c : utf8::printable(data, kept)) {
    switch (c) {
      case '&':
        out_ += "&amp;";
        break;
      case '<':
        out_ += "&lt;";
        break;
      case '>':
        out_ += "&gt;";
        break;
      case '"':
        out_ += "&quot;";
        break;
      case '\'':
        out_ += "&#39;";
        break;
      default:
        out_ += c;
    }
  }
  return *this;
}

Html& Html::number(int64_t value) {
  out_ += std::to_string(value);
  return *this;
}

Html& Html::place(double value) {
  std::string text = real_text(std::round(value * 10) / 10, "%.1f");
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  out_ += text;
  return *this;
}

std::string json_for_script(std::string_view json) {
  std::string safe;
  while (!json.empty()) {
    const utf8::Head head = utf8::head(json);
    if (json[0] == '<') {
      safe += "\\u003c";
    } else if (head.code >= 0x80 && !utf8::is_shown(head.code)) {
      append_escape(safe, head.code);
    } else {
      safe += json.substr(0, head.bytes);
    }
    json.remove_prefix(head.bytes);
  }
  return safe;
}

std::string source_hash(std::string_view content) {
  const Sha256::Digest digest = Sha256::digest_of(content);
  unsigned char base64[45];  // with a NUL
  EVP_EncodeBlock(base64, digest.data(), static_cast<int>(digest.size()));
  return std::string("sha256-") + reinterpret_cast<const char*>(base64);
}

}  // namespace greta
