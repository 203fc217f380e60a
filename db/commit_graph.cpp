#include "db/commit_graph.h"

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace greta {
namespace {

struct Node {
  std::string sha;
  int64_t parents = 0;           ///< that have no place yet
  std::vector<size_t> children;  ///< as indexes
};

/// By time and SHA, so that an index tells which of two is the earlier.
std::vector<Node> read_graph(SQLite::Database& db) {
  std::vector<Node> nodes;
  std::unordered_map<std::string, size_t> index;
  SQLite::Statement shas(db, "SELECT sha FROM commit_node ORDER BY committed_at, sha");
  while (shas.executeStep()) {
    index.emplace(shas.getColumn(0).getString(), nodes.size());
    nodes.emplace_back().sha = shas.getColumn(0).getString();
  }
  SQLite::Statement edges(db, "SELECT parent, sha FROM commit_parent");
  while (edges.executeStep()) {
    const auto parent = index.find(edges.getColumn(0).getString());
    const auto child = index.find(edges.getColumn(1).getString());
    if (parent == index.end() || child == index.end()) continue;  // of a shallow clone
    nodes[parent->second].children.push_back(child->second);
    ++nodes[child->second].parents;
  }
  return nodes;
}

}  // namespace

void order_commits(SQLite::Database& db) {
  std::vector<Node> nodes = read_graph(db);
  std::set<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].parents == 0) ready.insert(i);
  }
  SQLite::Statement place(db, "UPDATE commit_node SET ord = ?1 WHERE sha = ?2 AND ord <> ?1");
  int64_t ord = 0;
  const auto give_place = [&](const Node& node) {
    place.bind(1, ord++);
    place.bind(2, node.sha);
    place.exec();
    place.reset();
  };
  while (!ready.empty()) {
    const Node& node = nodes[*ready.begin()];
    ready.erase(ready.begin());
    give_place(node);
    for (const size_t child : node.children) {
      if (--nodes[child].parents == 0) ready.insert(child);
    }
  }
  for (const Node& node : nodes) {
    if (node.parents > 0) give_place(node);
  }
}

}  // namespace greta
