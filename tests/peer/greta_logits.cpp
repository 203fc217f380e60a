// Compares greta's logits with those of another engine; see compare.sh.
//
//   greta_logits MODEL IDS PEER [BACKEND]
//
// IDS: token ids as text; PEER: f32 [n_ids, vocab], host byte order; BACKEND: cpu (default), hip,
// auto.
//
// Prints a line for prefill (all tokens at once) by each route of the products, and one for decode
// (one by one on the cache) by its usual routes: phase, route, arithmetic, normalised mean squared
// error Σ(a−b)²/Σb², and how often both choose the same token.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/forward/forward.h"
#include "engine/session/session.h"
#include "tests/engine/forward/routes_by.h"

namespace greta {
namespace {

struct Score {
  double error = 0;
  double energy = 0;
  int64_t same_top1 = 0;
  int64_t rows = 0;

  void add(const float* mine, const float* theirs, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double difference = static_cast<double>(mine[i]) - static_cast<double>(theirs[i]);
      error += difference * difference;
      energy += static_cast<double>(theirs[i]) * static_cast<double>(theirs[i]);
    }
    same_top1 +=
        std::max_element(mine, mine + n) - mine == std::max_element(theirs, theirs + n) - theirs;
    ++rows;
  }
};

std::vector<float> read_peer(const char* path, size_t n) {
  std::vector<float> values(n);
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(n * sizeof(float)));
  if (!in || in.peek() != std::ifstream::traits_type::eof()) {
    throw std::runtime_error(std::string(path) + " does not hold n_ids x vocab values");
  }
  return values;
}

class Comparison {
 public:
  Comparison(const char* model, const char* ids, const char* peer, const char* backend)
      : session_(model, backend, 0),
        tokens_(read_ids(ids)),
        vocab_(session_.model().config().vocab),
        peer_(read_peer(peer, tokens_.size() * static_cast<size_t>(vocab_))),
        cache_(session_.model().config(), n(), session_.backend()) {}

  void run() {
    Backend& backend = session_.backend();
    const std::vector<Route> products = backend.routes(Op::kQkv);
    const std::vector<Route> attention = backend.routes(Op::kAttention);
    for (const Route product : products) {
      // What reproduces decode goes together, and so does what is fast.
      const bool as_decode = product == products.back();
      const RouteTable routes =
          routes_by(backend, product, as_decode ? attention.back() : attention.front());
      print("prefill", product, routes, prefill(routes));
    }
    const RouteTable routes = routes_by(backend, products.back(), attention.back());
    print("decode", products.back(), routes, decode(routes));
  }

 private:
  static std::vector<int32_t> read_ids(const char* path) {
    std::ifstream ids(path);
    std::vector<int32_t> tokens{std::istream_iterator<int32_t>(ids), {}};
    if (tokens.empty()) throw std::runtime_error(std::string(path) + " holds no token ids");
    return tokens;
  }
  int64_t n() const { return static_cast<int64_t>(tokens_.size()); }

  Forward forward(const RouteTable& routes) {
    cache_.poison_from(0);
    return Forward(session_.model(), session_.weights(), session_.backend(), cache_,
                   {.mode = Mode::kAsDesigned, .routes = routes, .faults = {}, .max_batch = n()});
  }
  /// Adds the logits of n_rows tokens from first_row on.
  void add(const Forward& forward, int64_t first_row, int64_t n_rows, Score& score) {
    std::vector<float> logits(static_cast<size_t>(n_rows * vocab_));
    session_.backend().read(forward.logits(), n_rows * vocab_, logits.data());
    for (int64_t i = 0; i < n_rows; ++i) {
      score.add(logits.data() + i * vocab_, peer_.data() + (first_row + i) * vocab_, vocab_);
    }
  }
  Score prefill(const RouteTable& routes) {
    Forward all = forward(routes);
    all.run({.tokens = tokens_, .n_logits = n()}, nullptr);
    Score score;
    add(all, 0, n(), score);
    return score;
  }
  Score decode(const RouteTable& routes) {
    Forward one = forward(routes);
    Score score;
    for (int64_t i = 0; i < n(); ++i) {
      one.run({.tokens = {&tokens_[static_cast<size_t>(i)], 1}, .first_pos = i, .decode = true},
              nullptr);
      add(one, i, 1, score);
    }
    return score;
  }
  void print(const char* phase, Route product, const RouteTable& routes, const Score& score) const {
    std::printf("%s %s %s %.2e %lld/%lld\n", phase, std::string(route_name(product)).c_str(),
                session_.backend().arithmetic(routes).c_str(), score.error / score.energy,
                static_cast<long long>(score.same_top1), static_cast<long long>(score.rows));
  }

  Session session_;
  std::vector<int32_t> tokens_;
  int64_t vocab_;
  std::vector<float> peer_;
  KvCache cache_;
};

}  // namespace
}  // namespace greta

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fputs("usage: greta_logits MODEL IDS PEER [BACKEND]\n", stderr);
    return 2;
  }
  try {
    greta::Comparison(argv[1], argv[2], argv[3], argc == 5 ? argv[4] : "cpu").run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "greta_logits: %s\n", error.what());
    return 1;
  }
}
