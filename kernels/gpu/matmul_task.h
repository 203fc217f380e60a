#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>

#include "kernels/attention_shape.h"
#include "kernels/gpu/device_math.h"
#include "kernels/gpu/matmul_valu.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/weight_planes.h"

// What a launch of products is told, whether vector units or matrix cores compute them: the
// products, and what becomes of them (kernels/gpu/matmul_valu.hip,
// kernels/gpu/matmul_mfma_token.hip).

namespace greta::matmul_detail {

/// What happens to a product.
enum class Finish {
  kStore,
  kAdd,      ///< stored, and stored again with a residual added
  kGated,    ///< of two products, silu(first)·second
  kGateOut,  ///< silu(product)·out, which has the second already
};

struct Part {
  DeviceWeights w;
  uint32_t rows;
  uint32_t first_group;  ///< of rows; groups are numbered through all parts
  float* out;
  float* turned;  ///< out after RoPE; nullptr: it takes none
  KvRows cache;   ///< has a row for what comes of that; nullptr: none
};

/// RoPE and the place in the caches; of one token.
struct Rope {
  const float* table;  ///< nullptr: no part takes any
  uint32_t head_dim, turned_dim;
  const int32_t* pos;
  int64_t row_shift;
};

/// The norm that x still lacks; of one token.
struct Norm {
  const float* weight;  ///< nullptr: x lacks none
  float eps;
  float* out;
};

struct Task {
  const float* x;
  Norm norm;
  int64_t n_tokens;
  uint32_t cols;
  Finish finish;
  int n_parts;
  uint32_t n_groups;
  uint32_t segment_steps;  ///< of which x is kept in shared memory at a time
  bool aligned;            ///< tokens of x, and what the norm reads and writes, to 16 bytes
  Part parts[kMaxProducts];
  Rope rope;
  const float* residual;
  float* sum;
};

// ---- From what callers want to tasks, whoever runs them: a launch has weights of one type. Host
// code.

/// Queues a task whose weights have this type.
using RunTask = void(WeightType type, const Task& task, Stream& stream);

[[noreturn]] inline void fail(const std::string& what) {
  throw std::invalid_argument("matrix product: " + what);
}

inline void check(const Matrix& w, int64_t cols) {
  const WeightTypeInfo& info = weight_type_info(w.type);
  const auto block = static_cast<int64_t>(info.block_values);
  // Rows, columns and eighths of blocks are counted in 32 bits, with room to round up.
  constexpr int64_t kMost = int64_t{1} << 31, kMostBlocks = int64_t{1} << 29;
  if (w.rows < 0 || w.cols != cols || cols < 0 || cols % block != 0 || w.rows >= kMost ||
      cols >= kMost || (!is_float_type(w.type) && w.rows * (cols / block) >= kMostBlocks)) {
    fail(std::to_string(w.rows) + " × " + std::to_string(w.cols) + " weights of type " +
         std::string(info.name) + " for activations of " + std::to_string(cols));
  }
}

inline Task make_task(const float* x, int64_t n_tokens, int64_t cols, Finish finish) {
  Task task{};
  task.x = x;
  task.n_tokens = n_tokens;
  task.cols = static_cast<uint32_t>(cols);
  task.finish = finish;
  task.aligned = cols % 4 == 0 && aligned16(x);
  return task;
}

inline Task make_task(const NormedRow& in, int64_t cols, Finish finish) {
  Task task = make_task(in.x, 1, cols, finish);
  if (in.weight == nullptr) return task;
  task.norm = {in.weight, in.eps, in.out};
  task.aligned = task.aligned && aligned16(in.weight, in.out);
  return task;
}

/// What is left when the first launch of several has normed the row.
inline Task make_later_task(const NormedRow& in, int64_t cols, Finish finish) {
  return make_task(in.weight != nullptr ? in.out : in.x, 1, cols, finish);
}

/// A product and what else becomes of it.
struct Wanted {
  Matrix w;
  float* out;
  float* turned = nullptr;
  KvRows cache = {};
};

inline void add_part(Task& task, const Wanted& wanted) {
  const auto rows = static_cast<uint32_t>(wanted.w.rows);
  task.parts[task.n_parts++] = {
      device_weights(wanted.w), rows, 0, wanted.out, wanted.turned, wanted.cache};
}

/// Lays the groups of all parts out behind each other: of a gated task those of one part.
inline void number_groups(Task& task, int64_t group_rows) {
  task.n_groups = 0;
  const int n_parts = task.finish == Finish::kGated ? 1 : task.n_parts;
  for (int i = 0; i < static_cast<int>(kMaxProducts); ++i) {
    Part& part = task.parts[i];
    part.first_group = i < n_parts ? task.n_groups : std::numeric_limits<uint32_t>::max();
    if (i < n_parts) task.n_groups += blocks_for(part.rows, group_rows);
  }
}
/// The part that a group is of; not of a gated task.
__device__ inline uint32_t part_of(const Task& task, uint32_t group) {
  return (group >= task.parts[1].first_group ? 1u : 0u) +
         (group >= task.parts[2].first_group ? 1u : 0u);
}

/// Checks products; the columns that all of them have.
inline int64_t cols_of(std::span<const Product> products) {
  if (products.size() > kMaxProducts) fail(std::to_string(products.size()) + " products at once");
  for (const Product& product : products) check(product.w, products[0].w.cols);
  return products.empty() ? 0 : products[0].w.cols;
}

/// What is wanted of a task, a launch for each type: `first`, then `others`.
inline void run_all(RunTask* run, std::span<const Wanted> wanted, const Task& first,
                    const Task& others, Stream& stream) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const WeightType type = wanted[i].w.type;
    const auto same_type = [&](const Wanted& other) { return other.w.type == type; };
    if (std::any_of(wanted.begin(), wanted.begin() + static_cast<std::ptrdiff_t>(i), same_type)) {
      continue;  // done with an earlier one
    }
    Task task = i == 0 ? first : others;
    for (const Wanted& one : wanted.subspan(i)) {
      if (same_type(one)) add_part(task, one);
    }
    run(type, task, stream);
  }
}
inline void run_all(RunTask* run, std::span<const Product> products, const Task& first,
                    const Task& others, Stream& stream) {
  std::array<Wanted, kMaxProducts> wanted{};
  std::transform(products.begin(), products.end(), wanted.begin(),
                 [](const Product& product) -> Wanted {
                   return {product.w, product.out};
                 });
  run_all(run, std::span<const Wanted>(wanted.data(), products.size()), first, others, stream);
}

/// first: normed, if at all.
inline void run_gated(RunTask* run, const Matrix& gate, const Matrix& up, float* out, Task first,
                      Task second, Stream& stream) {
  check(gate, gate.cols);
  check(up, gate.cols);
  if (gate.rows != up.rows) fail("gate and up differ in their number of rows");
  if (gate.type == up.type) {
    first.finish = Finish::kGated;
    add_part(first, {gate, out});
    add_part(first, {up, out});
    return run(gate.type, first, stream);
  }
  // Kernels are for one type: up, which out holds meanwhile, and then the rest.
  add_part(first, {up, out});
  run(up.type, first, stream);
  second.finish = Finish::kGateOut;
  add_part(second, {gate, out});
  run(gate.type, second, stream);
}

/// matmul of one row, which may lack its norm.
inline void run_products(RunTask* run, const NormedRow& in, std::span<const Product> products,
                         Stream& stream) {
  const int64_t cols = cols_of(products);
  run_all(run, products, make_task(in, cols, Finish::kStore),
          make_later_task(in, cols, Finish::kStore), stream);
}

inline void run_qkv(RunTask* run, const NormedRow& in, const std::array<Product, 3>& qkv,
                    const RopeRow& rope, Stream& stream) {
  const int64_t cols = cols_of(qkv);
  if (rope.head_dim % 2 != 0) fail("RoPE of heads of " + std::to_string(rope.head_dim) + " values");
  Task first = make_task(in, cols, Finish::kStore);
  Task others = make_later_task(in, cols, Finish::kStore);
  first.rope = others.rope = {rope.table, static_cast<uint32_t>(rope.head_dim),
                              static_cast<uint32_t>(2 * rope.half_dim), rope.pos, rope.row_shift};
  const auto& [q, k, v] = qkv;
  const std::array<Wanted, 3> wanted{{{q.w, q.out, rope.q_out},
                                      {k.w, k.out, rope.k_out, rope.k_cache},
                                      {v.w, v.out, nullptr, rope.v_cache}}};
  run_all(run, std::span<const Wanted>(wanted), first, others, stream);
}

inline void run_add(RunTask* run, const float* x, int64_t n_tokens, const Product& product,
                    const float* residual, float* sum, Stream& stream) {
  check(product.w, product.w.cols);
  Task task = make_task(x, n_tokens, product.w.cols, Finish::kAdd);
  task.residual = residual;
  task.sum = sum;
  add_part(task, {product.w, product.out});
  run(product.w.type, task, stream);
}

inline void run_gated(RunTask* run, const NormedRow& in, const Matrix& gate, const Matrix& up,
                      float* out, Stream& stream) {
  run_gated(run, gate, up, out, make_task(in, gate.cols, Finish::kStore),
            make_later_task(in, gate.cols, Finish::kStore), stream);
}

// ---- What becomes of a product's results. Device code.

/// Turns a value of a part by RoPE, with its neighbour of the pair that rows 2i and 2i + 1 are, and
/// stores it where it belongs.
__device__ inline void store_turned(const Task& task, const Part& part, uint32_t row, float value,
                                    float neighbour) {
  const uint32_t d = part.turned != nullptr ? row % task.rope.head_dim : task.rope.turned_dim;
  if (d < task.rope.turned_dim) {
    const float2 turn = load_as<float2>(task.rope.table + d / 2 * 2);
    value =
        d % 2 == 0 ? turned_first(value, neighbour, turn) : turned_second(neighbour, value, turn);
  }
  if (part.turned != nullptr) part.turned[row] = value;
  if (part.cache.data != nullptr) {
    store_kv(part.cache, (*task.rope.pos + task.rope.row_shift) * part.rows + row, value);
  }
}

/// Stores result `row` of a part for a token, and what comes of it. one_token: there are no others.
/// neighbour(): result row ^ 1. second(): the same result of the product that a gate is for.
template <class Neighbour, class Second>
__device__ inline void finish_row(const Task& task, const Part& part, int64_t token, uint32_t row,
                                  float total, bool one_token, Neighbour neighbour, Second second) {
  const int64_t at = token * part.rows + row;
  switch (task.finish) {
    case Finish::kStore:
      part.out[at] = total;
      if (one_token && task.rope.table != nullptr) {
        store_turned(task, part, row, total, neighbour());
      }
      break;
    case Finish::kAdd:
      part.out[at] = total;
      task.sum[at] = task.residual[at] + total;
      break;
    case Finish::kGated:
      part.out[at] = silu(total) * second();
      break;
    case Finish::kGateOut:
      part.out[at] = silu(total) * part.out[at];
      break;
  }
}

}  // namespace greta::matmul_detail
