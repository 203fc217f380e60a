#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace greta {

/// What the name of an experiment says about its relatives: b3_66_v2 is variant v2 of family b3_66.
struct ExperimentName {
  std::string family;   ///< numbered head, b3_ in lower case; the whole name when it has none
  std::string variant;  ///< what follows it, when that begins with a letter, else ""
};

ExperimentName split_experiment(std::string_view name);

/// Length of the numbered head that `text` begins with (b3_66, b3_10A, b3_70_71_72), 0 for none.
size_t experiment_head_length(std::string_view text);

/// That head, with b3_ in lower case; "" for none.
std::string experiment_head(std::string_view text);

}  // namespace greta
