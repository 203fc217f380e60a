#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/report/failure.h"
#include "cli/report/section.h"

namespace greta {

/// How drift spreads through the tensors of a run; knows nothing before write().
class Propagation : public RunSection {
 public:
  /// Every position of a tensor of a layer: a line of the tree.
  struct Node {
    std::string prompt, tensor, canonical, status, row_class, origin, caused_by, untraced;
    std::optional<int64_t> layer;
    int64_t positions = 0, with_status = 0;
  };
  /// Pairs that fail by the verdict that leads, by where they come from.
  struct Spread {
    int64_t origins = 0, propagated = 0, unsampled = 0;
  };

  explicit Propagation(const RunSection& run) : RunSection(run) {}

  /// Reads the rows, of one prompt where one is named, and writes their tree. Throws
  /// SQLite::Exception.
  void write(const std::string& prompt = "");

  const Spread& spread() const { return spread_; }

  /// Whether the run has rows of that canonical tensor of that layer.
  bool traced(const std::string& prompt, const std::string& canonical, int64_t layer) const;

 private:
  void load_nodes(const std::string& prompt);
  std::string source_of(const Node& node, const std::string& from,
                        std::optional<int64_t> previous) const;
  std::string node_text(const Node& node, std::optional<int64_t> previous) const;
  std::string tree(size_t first, size_t last) const;

  std::vector<Node> nodes_;
  Spread spread_;
  /// The name as written of prompt, layer and canonical tensor.
  std::map<std::array<std::string, 3>, std::string> written_;
};

}  // namespace greta
