#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "ingest/foreign/bytes.h"
#include "ingest/foreign/rows.h"

namespace greta {

/// Facts in the path of another tool's file: a pure function of bytes, never the disk.
struct ForeignPath {
  std::optional<int64_t>
      step;  ///< of a directory step3, of PassNNNNN.pt, of step=3___ in a file's name
  std::optional<int64_t> rank;   ///< of a directory rank3 or TP0_PP0_Rank3_pid7, of rank=3___
  std::optional<int64_t> layer;  ///< of layer_id=3___
  std::string name;              ///< of name=X___, else the file's name without its extension
  bool is_pass = false;          ///< PassNNNNN.pt
  bool is_dumped = false;        ///< k=v___k=v.pt
  std::string place;   ///< directories of steps and ranks, and the file: what tells it in its run
  std::string folder;  ///< the directory above those; '/'-separated

  /// Prompt of rows that cover whole tensors: "rank0", also where no rank is said.
  std::string rank_name() const { return "rank" + std::to_string(rank.value_or(0)); }
};

ForeignPath read_foreign_path(const std::string& path);

/// A file of another tool, to be read into `rows`. What cannot be taken is a finding of `rows`;
/// what spoils the whole file is a ForeignError.
struct ForeignSource {
  ForeignPath path;
  Bytes& bytes;
  ForeignRows& rows;

  /// All of a text.
  std::string text() const { return bytes.text(0, static_cast<size_t>(bytes.size())); }
};

/// The object that a text is, as Python writes JSON: numbers that are not finite are texts. Throws
/// ForeignError, `what` it is not and why.
nlohmann::json python_object(std::string_view text, const char* what);

}  // namespace greta
