#include "ingest/record/run_event.h"

#include <nlohmann/json.hpp>

#include "db/trace_writer.h"
#include "ingest/repeated_keys.h"

namespace greta {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 8;
constexpr int64_t kMaxEventValues = 1 << 20;  // a prompt has its token ids

/// A field that is not what it must be.
struct BadField {
  std::string what;
};

std::string text_field(const Json& object, const char* key) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return "";
  if (!it->is_string()) throw BadField{std::string(key) + " is not a text"};
  return it->get<std::string>();
}

std::optional<int64_t> count(const Json& object, const char* key) {
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return std::nullopt;
  if (!it->is_number_integer() || *it < 0 || *it > INT64_MAX) {
    throw BadField{std::string(key) + " is not a count"};
  }
  return it->get<int64_t>();
}

void read_attributes(const Json& object, RunEvent& event) {
  auto it = object.find("attributes");
  if (it == object.end()) return;
  if (!it->is_object()) throw BadField{"attributes is not an object"};
  const auto add = [&event](const std::string& name, const Json& value) {
    if (!value.is_string()) throw BadField{"attribute " + name + " is not a text"};
    event.attributes.emplace_back(name, value.get<std::string>());
  };
  for (const auto& [name, value] : it->items()) {
    if (!value.is_array()) {
      add(name, value);
      continue;
    }
    for (const Json& one : value) add(name, one);
  }
}

void read_plan(const Json& object, RunEvent& event) {
  auto it = object.find("plan");
  if (it == object.end()) return;
  if (!it->is_array()) throw BadField{"plan is not a list"};
  for (const Json& entry : *it) {
    if (!entry.is_object()) throw BadField{"an entry of the plan is not an object"};
    const std::string side = text_field(entry, "side");
    const bool decode = side == "decode";
    if (!decode && side != "prefill")
      throw BadField{"a side of the plan is neither prefill nor decode"};
    auto layer = entry.find("layer"), points = entry.find("points");
    if (layer == entry.end() || !layer->is_number_integer() || *layer < -1 || *layer > kMaxLayer) {
      throw BadField{"a layer of the plan is not a layer"};
    }
    if (points == entry.end() || !points->is_array())
      throw BadField{"an entry of the plan has no points"};
    for (const Json& point : *points) {
      if (!point.is_string() || point == "") throw BadField{"a point of the plan is not a name"};
      event.plan.push_back({decode, layer->get<int64_t>(), point.get<std::string>()});
    }
  }
}

void read_prompt(const Json& object, RunEvent& event) {
  event.prompt = text_field(object, "prompt_id");
  if (event.prompt.empty()) throw BadField{"run_prompt without prompt_id"};
  event.n_tokens = count(object, "n_tokens");
  if (std::string sha = text_field(object, "text_sha256"); !sha.empty()) event.text_sha256 = sha;
  if (auto ids = object.find("token_ids"); ids != object.end()) {
    if (!ids->is_array()) throw BadField{"token_ids is not a list"};
    for (const Json& id : *ids) {
      if (!id.is_number_integer()) throw BadField{"a token id is not an integer"};
    }
    event.token_ids = ids->dump();
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

}  // namespace

bool is_run_event(std::string_view event) {
  return event == "run_start" || event == "run_attributes" || event == "run_prompt" ||
         event == "run_end";
}

std::string read_run_event(std::string_view line, RunEvent& event) {
  bool too_deep = false;
  int64_t values = 0;
  RepeatedKeys repeated;
  const Json::parser_callback_t limit = [&](int depth, Json::parse_event_t what, Json& parsed) {
    too_deep |= depth > kMaxDepth;
    const bool takes = !too_deep && ++values <= kMaxEventValues;
    if (takes) repeated.watch(what, parsed);
    return takes;
  };
  const Json object = Json::parse(line, limit, false);
  if (values > kMaxEventValues) return "an event of a run with more values than one has";
  if (too_deep || !object.is_object()) return "an event of a run that is not one flat JSON object";
  if (!repeated.first().empty()) return repeated.first() + " is written twice";
  try {
    const std::string kind = text_field(object, "event");
    if (kind == "run_start") {
      event.kind = RunEvent::kStart;
      event.experiment = text_field(object, "experiment");
      event.date = text_field(object, "date");
      event.started_at = text_field(object, "started_at");
      read_attributes(object, event);
    } else if (kind == "run_attributes") {
      event.kind = RunEvent::kAttributes;
      read_attributes(object, event);
    } else if (kind == "run_prompt") {
      event.kind = RunEvent::kPrompt;
      read_prompt(object, event);
    } else {
      event.kind = RunEvent::kEnd;
      read_end(object, event);
    }
  } catch (const BadField& bad) {
    return bad.what;
  }
  return "";
}

}  // namespace greta
