#pragma once
#include "tests/engine/engine_fixture.h"

namespace greta {

/// Two layers, odd sizes where a storage type allows them.
inline SynthShape tiny_shape() {
  SynthShape shape = small_shape();
  shape.n_layers = 2;
  shape.n_heads = 4;
  shape.n_kv_heads = 2;
  shape.ffn_dim = 256;
  shape.vocab = 515;
  return shape;
}

}  // namespace greta
