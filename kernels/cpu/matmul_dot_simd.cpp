#include <algorithm>

#include "kernels/cpu/matmul_blocks.h"
#include "kernels/cpu/matmul_dot_block.h"
#include "kernels/cpu/matmul_kernels.h"

// Every output is one dot product whose operations and their order depend on the number of columns
// and the type alone. Several tokens are taken in one pass over a row only to read and expand the
// weights once: token by token they do what a single one does. Many, with weights that are floats,
// are taken with a block of rows (kernels/cpu/matmul_dot_block.h), where they do the same.

namespace greta::GRETA_ISA {
namespace {

constexpr int kTile = kLanes == 16 ? 4 : 2;  // tokens of a pass, as many as registers can hold
constexpr int64_t kAhead = 4096;             // bytes: hides the latency of memory behind arithmetic

// What one pass over a row reads and writes. Places beyond the last token repeat it.
template <int kTokens>
struct Pass {
  const float* x[kTokens];
  const float* sums[kTokens];
  float result[kTokens];
};

template <int kBytes>
GRETA_INLINE void prefetch(const uint8_t* p) {
  for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(p + kAhead + i);
}

// ---- Quantised types.

template <int kTokens>
struct Accumulators {
  F32 scaled[kTokens][2];
  F32 total[kTokens];
};

// Ends a chain of additions before it grows long enough to lose accuracy.
template <int kTokens>
GRETA_INLINE void end_chain(Accumulators<kTokens>& acc) {
  for (int t = 0; t < kTokens; ++t) {
    acc.total[t] += acc.scaled[t][0] + acc.scaled[t][1];
    acc.scaled[t][0] = acc.scaled[t][1] = F32{};
  }
}

// Spans whose scales and mins are made at once: enough for their latency to vanish.
constexpr int kBatch = 8;

// The two sums of a token take turns, so that one addition need not wait for the one before. In
// what is left of a row, shorter than a span, there is one: a number of groups that the compiler
// does not know would keep both in memory.
template <class Type, bool kWhole, int kTokens>
GRETA_INLINE void add_span(const uint8_t* p, int n_groups, const Numbers& numbers, int64_t column,
                           const Pass<kTokens>& pass, Accumulators<kTokens>& acc) {
  Type::visit(
      p, n_groups, [&](int g, const GroupVectors<Type::kGroup>& q) __attribute__((always_inline)) {
        const F32 scale = splat(numbers[g]);
        for (int t = 0; t < kTokens; ++t) {
          const float* x = pass.x[t] + column + g * Type::kGroup;
          F32 sum = q.v[0] * load_f32(x);
          for (int i = 1; i < q.kCount; ++i) sum = madd(q.v[i], load_f32(x + i * kLanes), sum);
          F32& total = acc.scaled[t][kWhole ? g % 2 : 0];
          total = madd(scale, sum, total);
        }
      });
  if constexpr (Type::kHasMin) {
    // Eight mins share a vector with their scales where it has room: beside these the sums are 0.
    constexpr int kFirst = Type::kSpanGroups == 8 && kLanes < 16 ? 8 : 0;
    const float* mins = numbers + (Type::kSpanGroups == 16 ? 16 : 0);
    for (int t = 0; t < kTokens; ++t) {
      const float* sums = pass.sums[t] + column / kSumColumns * kSums;
      // Sixteen are up to four vectors: many for a chain that does not end.
      F32& total = Type::kSpanGroups == 16 ? acc.scaled[t][0] : acc.total[t];
      for (int i = kFirst; i < 16; i += kLanes) {
        total = madd(load_f32(mins + i), load_f32(sums + i), total);
      }
    }
  }
}

template <class Type, int kTokens>
GRETA_INLINE void dot_blocks(const uint8_t* row, int64_t cols, Pass<kTokens>& pass) {
  constexpr int kSpanBytes = kSpanValues / Type::kBlockValues * Type::kBlockBytes;
  alignas(64) Numbers numbers[kBatch];
  Accumulators<kTokens> acc = {};
  const uint8_t* p = row;
  int64_t column = 0;
  for (int64_t n_left = cols / kSpanValues; n_left > 0;) {
    const int n = n_left < kBatch ? static_cast<int>(n_left) : kBatch;
    Type::scales(p, n, Type::kSpanGroups, numbers);
    keep_in_memory(numbers);
    for (int i = 0; i < n; ++i, p += kSpanBytes, column += kSpanValues) {
      prefetch<kSpanBytes>(p);
      add_span<Type, true>(p, Type::kSpanGroups, numbers[i], column, pass, acc);
    }
    end_chain(acc);
    n_left -= n;
  }
  if constexpr (Type::kBlockValues < kSpanValues) {
    if (const int n_groups = static_cast<int>(cols - column) / Type::kGroup; n_groups > 0) {
      Type::scales(p, 1, n_groups, numbers);
      add_span<Type, false>(p, n_groups, numbers[0], column, pass, acc);
      end_chain(acc);
    }
  }
  for (int t = 0; t < kTokens; ++t) pass.result[t] = sum(acc.total[t]);
}

// ---- Float types: four vectors at a time, then one, then what is left of one.

template <class Type, int kTokens>
GRETA_INLINE void dot_floats(const uint8_t* row, int64_t cols, Pass<kTokens>& pass) {
  constexpr int kStep = 4 * kLanes;
  F32 total[kTokens] = {};
  int64_t k = 0;
  while (k + kStep <= cols) {
    const int64_t end = k + kChainColumns < cols ? k + kChainColumns : cols;
    F32 acc[kTokens][4] = {};
    for (; k + kStep <= end; k += kStep) {
      prefetch<kStep * Type::kBytes>(row + k * Type::kBytes);
      for (int i = 0; i < 4; ++i) {
        const F32 w = Type::values(row + (k + i * kLanes) * Type::kBytes);
        for (int t = 0; t < kTokens; ++t) {
          acc[t][i] = madd(w, load_f32(pass.x[t] + k + i * kLanes), acc[t][i]);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      total[t] += (acc[t][0] + acc[t][2]) + (acc[t][1] + acc[t][3]);
    }
  }
  for (; k < cols; k += kLanes) {
    const int64_t n = cols - k < kLanes ? cols - k : kLanes;
    const F32 w = Type::values_part(row + k * Type::kBytes, n);
    for (int t = 0; t < kTokens; ++t) {
      total[t] = madd(w, load_f32_part(pass.x[t] + k, n), total[t]);
    }
  }
  for (int t = 0; t < kTokens; ++t) pass.result[t] = sum(total[t]);
}

// ---- Rows and tokens.

template <class Type, int kTokens>
void rows_for_tokens(const DotTask& task, int64_t row_begin, int64_t row_end, int64_t token,
                     size_t row_bytes) {
  const int64_t cols = task.w.cols;
  Pass<kTokens> pass;
  for (int t = 0; t < kTokens; ++t) {
    const int64_t source = token + t < task.n_tokens ? token + t : task.n_tokens - 1;
    pass.x[t] = task.x + source * task.x_stride;
    pass.sums[t] = task.x_sums + source * task.sums_stride;
  }
  for (int64_t row = row_begin; row < row_end; ++row) {
    const auto* data =
        reinterpret_cast<const uint8_t*>(task.w.data) + static_cast<size_t>(row) * row_bytes;
    if constexpr (requires { Type::kGroup; }) {
      dot_blocks<Type>(data, cols, pass);
    } else {
      dot_floats<Type>(data, cols, pass);
    }
    for (int t = 0; t < kTokens && token + t < task.n_tokens; ++t) {
      task.out[(token + t) * task.w.rows + row] = pass.result[t];
    }
  }
}

/// From how many tokens on expanding a block's weights pays.
constexpr int64_t kManyTokens = 12;

template <class Type>
constexpr bool kTakesBlocks = !requires {
  Type::kGroup;
};

template <class Type>
void rows_of_type(const DotTask& task, int64_t row_begin, int64_t row_end,
                  [[maybe_unused]] float* scratch) {
  const size_t row_bytes = row_bytes_of<Type>(task.w.cols);
  int64_t token = 0;
  if constexpr (kTakesBlocks<Type>) {
    if (task.n_tokens >= kManyTokens) {
      DotBlock<Type> block(task, scratch);
      for (; token < task.n_tokens; token += kBlockTokens) {
        const int64_t n_tokens = std::min(kBlockTokens, task.n_tokens - token);
        for (int64_t row = row_begin; row < row_end; row += kBlockRows) {
          block.multiply(row, std::min(kBlockRows, row_end - row), token, n_tokens);
        }
      }
      return;
    }
  }
  for (; token + 1 < task.n_tokens; token += kTile) {
    rows_for_tokens<Type, kTile>(task, row_begin, row_end, token, row_bytes);
  }
  if (token < task.n_tokens) rows_for_tokens<Type, 1>(task, row_begin, row_end, token, row_bytes);
}

void rows(const DotTask& task, int64_t row_begin, int64_t row_end, float* scratch) {
  with_type(task.w.type,
            [&](auto type) { rows_of_type<decltype(type)>(task, row_begin, row_end, scratch); });
}

int64_t scratch_values(const DotTask& task) {
  int64_t n = 0;
  with_type(task.w.type, [&](auto reader) {
    using Type = decltype(reader);
    if constexpr (kTakesBlocks<Type>) {
      if (task.n_tokens >= kManyTokens) n = DotBlock<Type>::kScratchValues;
    }
  });
  return n;
}

bool needs_sums(WeightType type) {
  bool needed = false;
  with_type(type, [&](auto reader) {
    if constexpr (requires { reader.kHasMin; }) needed = reader.kHasMin;
  });
  return needed;
}

// Beside the numbers of a span: nothing for eight scales, −Σx for its mins.
template <int kGroup>
void sum_groups(const float* x, int64_t n_columns, float* sums) {
  constexpr int kGroups = kSpanValues / kGroup;
  for (int64_t column = 0; column < n_columns; column += kSpanValues, sums += kSums) {
    float* of_mins = sums + kSums - kGroups;
    for (int i = 0; i < kSums; ++i) sums[i] = 0;
    for (int g = 0; g < kGroups && column + g * kGroup < n_columns; ++g) {
      const float* group = x + column + g * kGroup;
      F32 total = load_f32(group);
      for (int k = kLanes; k < kGroup; k += kLanes) total += load_f32(group + k);
      of_mins[g] = -sum(total);
    }
  }
}

void sum_groups(WeightType type, const float* x, int64_t n_columns, float* sums) {
  with_type(type, [&](auto reader) {
    if constexpr (requires { reader.kHasMin; }) sum_groups<reader.kGroup>(x, n_columns, sums);
  });
}

}  // namespace

static_assert(kSumColumns == kSpanValues);

const DotKernels dot_kernels = {needs_sums, sum_groups, kBlockRows, scratch_values, rows};

}  // namespace greta::GRETA_ISA
