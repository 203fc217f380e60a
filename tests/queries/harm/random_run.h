// Runs of every kind that tools leave, made up from a seed.
#pragma once
#include <random>
#include <vector>

#include "tests/queries/harm/told_run.h"

namespace greta::harm {

/// The same numbers on every machine, which the standard's distributions do not promise.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  size_t below(size_t n) { return static_cast<size_t>(engine_() % n); }
  bool one_in(size_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }

 private:
  std::mt19937_64 engine_;
};

/// Values of a row: those of equal content are equal.
std::vector<float> values_of(uint64_t content);

/// Which of a row's numbers a tool writes.
struct Style {
  bool hash = true, statistics = true, sketch = true;
  size_t sample = 0;  // leading values
  int64_t more = 0;   // values beyond those known here, which a historical hash does not cover
};

/// What is said of a row of these values.
void tell_values(ToldRow& row, const std::vector<float>& values, const Style& style,
                 const std::string& algo);

/// A run: all its rows match, or differ by rounding alone, or it has faults of every kind.
ToldRun random_run(Random& random);

}  // namespace greta::harm
