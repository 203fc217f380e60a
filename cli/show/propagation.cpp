#include <algorithm>
#include <utility>

#include "cli/show/section.h"
#include "cli/warehouse/origin.h"
#include "common/utf8.h"

namespace greta {

using std::to_string;

void Propagation::load_nodes(const std::string& prompt) {
  const std::string counts = numeric_leads() ? " AND p.class IS NOT 'ROUNDING'" : "";
  auto spread = [&](const char* kind) {
    return std::string(", sum(p.origin = '") + kind + "'" + counts + ")";
  };
  const std::string of_prompt = prompt.empty() ? ""
                                               : " AND p.prompt_id = (SELECT id FROM prompt"
                                                 " WHERE run_id = ?1 AND name = ?2)";
  // MATERIALIZED: an origin is a walk over the inputs, made anew wherever its column is named
  RunQuery rows(
      statements_, run_.id,
      "WITH compared AS MATERIALIZED ("
      " SELECT p.prompt, p.layer, p.tensor, p.canonical_tensor, p.status, p.class," +
          std::string(numeric_leads() ? " p.numeric_origin" : " p.origin") +
          " AS origin, p.caused_by, p.untraced_layers, p.prompt_id, p.tensor_id, p.forward_layer"
          " FROM pair p WHERE p.run_id = ?1 AND p.status <> 'DECODE_ONLY'" +
          of_prompt +
          ") SELECT p.prompt, p.layer, p.tensor, p.canonical_tensor, count(*),"
          "  sum(p.status = 'DRIFT'), sum(p.status = 'NONFINITE'), sum(p.status = 'AMBIGUOUS'),"
          "  sum(p.status = 'CONFLICT'), sum(p.status = 'MISSING'), sum(p.status = 'INCOMPARABLE'),"
          "  max(CASE p.class WHEN 'DIVERGENT' THEN 4 WHEN 'UNKNOWN' THEN 3 WHEN 'EXPLAINED' THEN 2"
          " WHEN 'ROUNDING' THEN 1 END),"
          "  max(CASE p.origin WHEN 'ORIGIN' THEN 3 WHEN 'UNSAMPLED' THEN 2 WHEN 'PROPAGATED' THEN"
          " 1 END),"
          "  min(p.caused_by)" +
          spread("ORIGIN") + spread("PROPAGATED") + spread("UNSAMPLED") +
          ", max(p.untraced_layers) FROM compared p"
          " GROUP BY p.prompt_id, p.layer, p.tensor ORDER BY p.prompt_id, " +
          std::string(kForwardOrder));
  if (!prompt.empty()) rows.bind(2, prompt);
  constexpr const char* kStatus[] = {"DRIFT",    "NONFINITE", "AMBIGUOUS",
                                     "CONFLICT", "MISSING",   "INCOMPARABLE"};
  constexpr const char* kClass[] = {"", "ROUNDING", "EXPLAINED", "UNKNOWN", "DIVERGENT"};
  constexpr const char* kOrigin[] = {"", "PROPAGATED", "UNSAMPLED", "ORIGIN"};
  while (rows.step()) {
    Node node;
    node.prompt = rows.text(0);
    node.tensor = rows.text(2);
    node.canonical = rows.text(3);
    node.layer = rows.cell(1).id();
    node.positions = node.with_status = rows.integer(4);
    node.status = "MATCH";
    for (int i = 5; i >= 0; i--) {
      if (rows.integer(5 + i) == 0) continue;
      node.status = kStatus[i];
      node.with_status = rows.integer(5 + i);
    }
    node.row_class = kClass[rows.integer(11)];
    node.origin = kOrigin[rows.integer(12)];
    node.caused_by = rows.text(13);
    node.untraced = rows.text(17);
    spread_.origins += rows.integer(14);
    spread_.propagated += rows.integer(15);
    spread_.unsampled += rows.integer(16);
    if (node.layer) written_[{node.prompt, to_string(*node.layer), node.canonical}] = node.tensor;
    nodes_.push_back(std::move(node));
  }
}

/// The origin of a propagated drift, told relative to its own layer, so that layers that
/// behave alike read alike. `from` is canonical-tensor@layer.
std::string Propagation::source_of(const Node& node, const std::string& from,
                                   std::optional<int64_t> previous) const {
  size_t at = from.rfind('@');
  if (at == std::string::npos) return words_("tree.propagated");
  std::string tensor = from.substr(0, at), layer = from.substr(at + 1);
  auto named = written_.find({node.prompt, layer, tensor});
  if (named != written_.end()) tensor = named->second;
  tensor = utf8::printable(tensor);
  if (node.layer && layer == to_string(*node.layer)) return words_("tree.from_same", {tensor});
  if (previous && layer == to_string(*previous)) return words_("tree.from_previous", {tensor});
  return words_("tree.from_layer", {tensor, layer});
}

std::string Propagation::node_text(const Node& node, std::optional<int64_t> previous) const {
  std::string name = node.tensor.empty() ? words_("tensor.none") : utf8::printable(node.tensor);
  bool match = node.status == "MATCH", undecided = node.status == "INCOMPARABLE";
  const bool rounding = numeric_leads() && node.status == "DRIFT" && node.row_class == "ROUNDING";
  std::string text = name +
                     (match       ? ": ✓ "
                      : undecided ? ": ? "
                      : rounding  ? ": ≈ "
                                  : ": ✗ ") +
                     node.status;
  if (node.status == "DRIFT" && node.row_class != "UNKNOWN" && !node.row_class.empty()) {
    text += " " + node.row_class;
  }
  std::string why = match                         ? words_("tree.identical")
                    : undecided                   ? words_("tree.undecided")
                    : rounding                    ? words_("tree.rounding")
                    : node.status == "MISSING"    ? words_("tree.missing")
                    : node.origin == "ORIGIN"     ? words_("tree.origin")
                    : node.origin == "PROPAGATED" ? source_of(node, node.caused_by, previous)
                    : !node.untraced.empty()
                        ? words_("tree.untraced", {listed_layers(node.untraced)})
                        : words_("tree.unsampled");
  text += " (" + why + ")";
  if (node.with_status < node.positions) {
    text +=
        ", " + words_("tree.positions", {to_string(node.with_status), to_string(node.positions)});
  }
  return text;
}

/// The tree of nodes [first, last), one prompt's: layers that read alike are one branch.
std::string Propagation::tree(size_t first, size_t last) const {
  std::vector<std::pair<std::vector<std::string>, std::string>> branches;  // layers, body
  std::optional<int64_t> previous;
  for (size_t i = first; i < last;) {
    size_t end = i;
    while (end < last && nodes_[end].layer == nodes_[i].layer) end++;
    std::string body;
    for (size_t n = i; n < end; n++) {
      body += (n + 1 == end ? "  └── " : "  ├── ") + node_text(nodes_[n], previous) + "\n";
    }
    std::string layer = nodes_[i].layer ? to_string(*nodes_[i].layer) : "";
    if (!branches.empty() && branches.back().second == body && !layer.empty()) {
      branches.back().first.push_back(layer);
    } else {
      branches.push_back({{layer}, body});
    }
    if (nodes_[i].layer) previous = nodes_[i].layer;
    i = end;
  }
  std::string text;
  for (const auto& [layers, body] : branches) {
    std::string names = layers[0];
    for (size_t i = 1; i < layers.size(); i++) names += ", " + layers[i];
    if (!text.empty()) text += "\n";
    text += names.empty()
                ? words_("layer.none")
                : words_(layers.size() > 1 ? TextId("layers") : TextId("layer")) + " " + names;
    text += ":\n" + body;
  }
  return text;
}

void Propagation::add() {
  load_nodes("");
  section("propagation");
  std::vector<std::pair<std::string, Line>> trees;  // tree, its prompts
  for (size_t i = 0; i < nodes_.size();) {
    size_t end = i;
    while (end < nodes_.size() && nodes_[end].prompt == nodes_[i].prompt) end++;
    std::string text = tree(i, end);
    const Line prompt = code(nodes_[i].prompt);
    auto same = std::find_if(trees.begin(), trees.end(), [&](auto& t) { return t.first == text; });
    if (same == trees.end()) {
      trees.emplace_back(text, prompt);
    } else {
      same->second += ", " + prompt;
    }
    i = end;
  }
  for (const auto& [text, prompts] : trees) {
    out_.push_back(FactList{{{words_("prompt"), prompts}}});
    out_.push_back(Code{text});
  }
}

void Propagation::add_folded(const std::string& prompt) {
  load_nodes(prompt);
  section("propagation");
  out_.push_back(Group{"tree", {Code{tree(0, nodes_.size())}}, words_.line("page.tree", {prompt})});
}

bool Propagation::traced(const std::string& prompt, const std::string& canonical,
                         int64_t layer) const {
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const Node& node) {
    return node.prompt == prompt && node.canonical == canonical && node.layer == layer;
  });
}

}  // namespace greta
