#pragma once
#include <string>
#include <string_view>

#include "ingest/foreign/source.h"

namespace greta {

/// dump.json of msprobe: what each call got and gave, as statistics of whole tensors and, in its
/// md5 mode, a hash. `construct` is the text of the construct.json beside it, which says in which
/// module a call was made; "" when there is none.
void read_msprobe(const ForeignSource& source, const std::string& construct);
bool is_msprobe(std::string_view head);
/// construct.json of msprobe, which has no rows of its own.
bool is_msprobe_construct(std::string_view head);

/// What PyTorch's DebugMode.save_logs writes: operators with hashes of their tensors.
void read_debug_mode(const ForeignSource& source);
bool is_debug_mode(std::string_view head);

/// What llama.cpp's debug callback prints: an operation of the graph, some of its values and their
/// sum.
void read_llama_text(const ForeignSource& source);
bool is_llama_text(std::string_view head);

}  // namespace greta
