#include "ingest/record/run_event.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "common/json_document.h"
#include "common/run_name_rule.h"
#include "common/utc_time.h"
#include "db/run_records.h"
#include "db/trace_writer.h"
#include "ingest/text.h"

namespace greta {
namespace {

using Json = nlohmann::json;

/// A content is told by its run_start, which must be in what is looked at of it.
constexpr size_t kMaxStartBytes = 48u << 10;
constexpr size_t kMaxEventValues = 1 << 20;  // a prompt has its token ids

/// A field that is not what it must be.
struct BadField {
  std::string what;
};

void check(bool holds, const std::string& what) {
  if (!holds) throw BadField{what};
}

/// nullptr where the field is absent, or null, which says the same.
const Json* field(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string text_field(const Json& object, const char* key) {
  const Json* text = field(object, key);
  if (text == nullptr) return "";
  if (!text->is_string()) throw BadField{std::string(key) + " is not a text"};
  return text->get<std::string>();
}

std::string day_field(const Json& object, const char* key) {
  std::string day = text_field(object, key);
  if (!utc_time(day).empty()) day.resize(10);  // of a time, where it is
  check(day.empty() || is_day(day), std::string(key) + " is no day as YYYY-MM-DD");
  return day;
}

/// 5 of 5 and of 5.0.
std::optional<int64_t> whole_number(const Json& number) {
  constexpr double kMost = 1e15;
  if (number.is_number_float()) {
    const auto value = number.get<double>();
    const bool is_whole = std::fabs(value) <= kMost && value == std::trunc(value);
    return is_whole ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
  }
  if (!number.is_number_integer()) return std::nullopt;
  if (number.is_number_unsigned() && number.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return number.get<int64_t>();
}

std::optional<int64_t> count(const Json& object, const char* key) {
  const Json* number = field(object, key);
  if (number == nullptr) return std::nullopt;
  const auto value = whole_number(*number);
  check(value.value_or(-1) >= 0, std::string(key) + " is not a count");
  return value;
}

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void read_attributes(const Json& object, RunEvent& event) {
  const Json* attributes = field(object, "attributes");
  if (attributes == nullptr) return;
  if (!attributes->is_object()) throw BadField{"attributes is not an object"};
  const auto add = [&event](const std::string& name, const Json& value) {
    if (value.is_null()) return;
    event.attributes.emplace_back(name, text_of(value));
  };
  for (const auto& [name, value] : attributes->items()) {
    if (!value.is_array()) {
      add(name, value);
      continue;
    }
    for (const Json& one : value) add(name, one);
  }
}

void read_plan(const Json& object, RunEvent& event) {
  const Json* plan = field(object, "plan");
  if (plan == nullptr) return;
  if (!plan->is_array()) throw BadField{"plan is not a list"};
  for (const Json& entry : *plan) {
    if (!entry.is_object()) throw BadField{"an entry of the plan is not an object"};
    const std::string side = text_field(entry, "side");
    const bool decode = side == "decode";
    if (!decode && side != "prefill")
      throw BadField{"a side of the plan is neither prefill nor decode"};
    const auto layer = whole_number(entry.value("layer", Json()));
    check(layer && *layer >= -1 && *layer <= kMaxLayer, "a layer of the plan is not a layer");
    const auto points = entry.find("points");
    if (points == entry.end() || !points->is_array())
      throw BadField{"an entry of the plan has no points"};
    for (const Json& point : *points) {
      if (!point.is_string() || point == "") throw BadField{"a point of the plan is not a name"};
      event.plan.push_back({decode, *layer, point.get<std::string>()});
    }
  }
}

void read_prompt(const Json& object, const char* name, RunEvent& event) {
  event.prompt = text_field(object, name);
  if (event.prompt.empty()) throw BadField{std::string("run_prompt without ") + name};
  event.n_tokens = count(object, "n_tokens");
  if (std::string sha = text_field(object, "text_sha256"); !sha.empty()) event.text_sha256 = sha;
  if (const Json* ids = field(object, "token_ids")) {
    if (!ids->is_array()) throw BadField{"token_ids is not a list"};
    Json whole = Json::array();
    for (const Json& id : *ids) {
      const auto value = whole_number(id);
      check(value.has_value(), "a token id is not an integer");
      whole.push_back(*value);
    }
    event.token_ids = whole.dump();
  }
  read_plan(object, event);
}

void read_end(const Json& object, RunEvent& event) {
  const std::string status = text_field(object, "status");
  event.complete = status == "complete";
  if (!event.complete && status != "failed")
    throw BadField{"status is neither complete nor failed"};
  event.finished_at = text_field(object, "finished_at");
  event.rows = count(object, "rows");
}

/// What a line says that is none of the event's fields.
std::string other_fields(const Json& object, std::initializer_list<std::string_view> known) {
  Json others = Json::object();
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) others[name] = value;
  }
  return others.empty() ? "" : json_text(others);
}

// ---- The row format

/// Throws for a field that the line has no place for.
void check_fields(const Json& object, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : object.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw BadField{"unknown field \"" + name.substr(0, 64) + "\""};
    }
  }
}

/// Puts a time into UTC.
void take_time(std::string& text, const char* name) {
  if (text.empty()) return;
  const std::string utc = utc_time(text);
  check(!utc.empty(),
        std::string(name) + " " + text.substr(0, 64) + " is not a time as 2026-02-07T12:00:00Z");
  text = utc;
}

/// Puts a hash into small letters.
void take_sha256(std::string& text, const char* name) {
  text = text::to_lower(text);
  check(text.empty() ||
            (text.size() == 64 && text.find_first_not_of("0123456789abcdef") == text.npos),
        std::string(name) + " is not 64 hexadecimal digits");
}

void check_names(const RunEvent& event) {
  const std::string rule = ": " + std::string(kNamePartRule);
  check(!event.experiment.empty(), "run_start without experiment");
  check(is_name_part(event.experiment), "experiment " + event.experiment.substr(0, 64) + rule);
  check(event.run.empty() || is_run_name(event.run), "run " + event.run.substr(0, 64) + rule);
  check(event.mode.empty() || is_name_part(event.mode), "mode " + event.mode.substr(0, 64) + rule);
}

/// An attribute may repeat what a field of run_start says, and not say it otherwise.
void leave_out_repeats(const Json& object, RunEvent& event) {
  const auto is_repeat = [&object](const RunEvent::Attribute& attribute) {
    const auto& [name, value] = attribute;
    for (const char* own : {"experiment", "date", "commit", "mode", "dtype", "seed", kTraceRows}) {
      if (name != own) continue;
      const Json* stated = name == kTraceRows ? nullptr : field(object, own);
      check(stated != nullptr && value == text_of(*stated),
            "attribute " + name + ": run_start has a field of that name");
      return true;
    }
    return false;
  };
  std::erase_if(event.attributes, is_repeat);
}

void read_row_format_start(const Json& object, RunEvent& event) {
  event.kind = RunEvent::kStart;
  check_fields(object,
               {"event", "format", "run", "experiment", "date", "started_at", "commit", "mode",
                "dtype", "backend", "model", "model_sha256", "model_root", "seed", "attributes"});
  const std::string format = text_field(object, "format");
  check(format == kRowFormat, "format " + format.substr(0, 64) + " is not " +
                                  std::string(kRowFormat) + ", which this greta-db reads");
  event.run = text_field(object, "run");
  event.experiment = text_field(object, "experiment");
  event.date = day_field(object, "date");
  event.started_at = text_field(object, "started_at");
  take_time(event.started_at, "started_at");
  event.mode = text_field(object, "mode");
  check_names(event);
  read_attributes(object, event);
  leave_out_repeats(object, event);
  for (const char* name :
       {"commit", "mode", "dtype", "backend", "model", "model_sha256", "model_root"}) {
    std::string value = text_field(object, name);
    if (std::string_view(name).starts_with("model_")) take_sha256(value, name);
    if (!value.empty()) event.attributes.emplace_back(name, value);
  }
  if (const Json* seed = field(object, "seed")) {
    const std::string written = text_of(*seed);
    const std::string number =
        written.ends_with(".0") ? written.substr(0, written.size() - 2) : written;
    check(text::number<int64_t>(number) || text::number<uint64_t>(number),
          "seed is not a 64-bit integer");
    event.attributes.emplace_back("seed", number);
  }
}

void read_row_format_line(const Json& object, RunEvent& event) {
  const std::string kind = text_field(object, "event");
  if (kind == "run_start") return read_row_format_start(object, event);
  if (kind == "run_attributes") {
    check_fields(object, {"event", "attributes"});
    event.kind = RunEvent::kAttributes;
    read_attributes(object, event);
    return check(!event.attributes.empty(), "run_attributes without attributes");
  }
  if (kind == "run_prompt") {
    check_fields(object, {"event", "prompt", "n_tokens", "text_sha256", "token_ids", "plan"});
    event.kind = RunEvent::kPrompt;
    read_prompt(object, "prompt", event);
    if (event.text_sha256) take_sha256(*event.text_sha256, "text_sha256");
    const Json* ids = field(object, "token_ids");
    if (ids == nullptr) return;
    const auto n = static_cast<int64_t>(ids->size());
    check(event.n_tokens.value_or(n) == n, "n_tokens is not the number of token_ids");
    event.n_tokens = n;
    return;
  }
  check_fields(object, {"event", "status", "rows", "finished_at"});
  event.kind = RunEvent::kEnd;
  read_end(object, event);
  take_time(event.finished_at, "finished_at");
  check(event.rows.has_value(), "run_end without rows, their number");
  event.counts_lines = true;
}

/// A line of an event outside of the row format.
void read_export_line(const Json& object, RunEvent& event) {
  const std::string kind = text_field(object, "event");
  if (kind == "run_start") {
    event.kind = RunEvent::kStart;
    event.experiment = text_field(object, "experiment");
    event.date = day_field(object, "date");
    event.started_at = text_field(object, "started_at");
    read_attributes(object, event);
    event.beside =
        other_fields(object, {"event", "experiment", "date", "started_at", "attributes"});
  } else if (kind == "run_attributes") {
    event.kind = RunEvent::kAttributes;
    read_attributes(object, event);
    event.beside = other_fields(object, {"event", "attributes"});
  } else if (kind == "run_prompt") {
    event.kind = RunEvent::kPrompt;
    read_prompt(object, "prompt_id", event);
  } else {
    event.kind = RunEvent::kEnd;
    read_end(object, event);
    event.beside = other_fields(object, {"event", "status", "rows", "finished_at"});
  }
}

/// Gives the line's object to `read`; returns why it cannot be taken.
std::string read_event(std::string_view line, RunEvent& event,
                       void (*read)(const Json& object, RunEvent& event)) {
  Json object;
  std::string why = parse_json(line, kMaxEventValues, object);
  if (!why.empty() && line.find("\"attributes\"") != line.npos) {  // json.dumps writes NaN bare
    constexpr int kInField = 2;
    if (parse_json(with_quoted_nonfinite(line, kInField), kMaxEventValues, object).empty()) {
      why.clear();
    }
  }
  if (!why.empty()) return why;
  if (!object.is_object()) return "an event of a run that is no JSON object";
  try {
    read(object, event);
  } catch (const BadField& bad) {
    return bad.what;
  }
  return "";
}

}  // namespace

bool is_run_event(std::string_view event) {
  return event == "run_start" || event == "run_attributes" || event == "run_prompt" ||
         event == "run_end";
}

std::string read_run_event(std::string_view line, RunEvent& event) {
  return read_event(line, event, read_export_line);
}

std::string read_row_format_event(std::string_view line, RunEvent& event) {
  if (line.size() > kMaxStartBytes && line.find("run_start") < kMaxStartBytes) {
    return "a run_start of more than 48 KiB: say the rest by run_attributes";
  }
  return read_event(line, event, read_row_format_line);
}

std::optional<RunEvent> row_format_start(std::string_view content) {
  std::string_view rest = text::without_mark(content), line;
  while (text::take_line(rest, line)) {
    line = text::trim(line);
    if (line.empty()) continue;
    RunEvent event;
    const bool is_start = line.starts_with('{') && line.find("\"format\"") != line.npos &&
                          line.find("run_start") != line.npos;
    if (!is_start || !read_row_format_event(line, event).empty()) return std::nullopt;
    return event.kind == RunEvent::kStart ? std::optional(event) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace greta
