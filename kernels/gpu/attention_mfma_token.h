#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gpu/attention_mfma_call.h"
#include "kernels/gpu/device.h"

// attention_mfma of one token (kernels/gpu/attention_mfma.hip).

namespace greta::attention_mfma_detail {

/// Device memory that a call needs, in bytes.
size_t token_scratch(const AttentionShape& shape, int64_t max_keys);

/// The attention of one token, call.shape checked. counters: kAttentionCounters words, zero before
/// and left so; memory: token_scratch() bytes, 16-byte aligned; its contents need not be kept.
/// Throws std::invalid_argument when there are more heads than counters.
void attend_token(const Call& call, const ConstKvRows& k, const ConstKvRows& v, int64_t max_keys,
                  uint32_t* counters, void* memory, Stream& stream);

}  // namespace greta::attention_mfma_detail
