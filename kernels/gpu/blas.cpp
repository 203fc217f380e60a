#include <algorithm>
#include <limits>
#include <string>
#include <type_traits>

#include "kernels/gpu/matmul_mfma.h"
#include "kernels/gpu/runtime.h"

#if !defined(GRETA_EMULATOR)
#include <dlfcn.h>
#endif
#if defined(GRETA_NVIDIA)
#include <cublas_v2.h>
#endif

// out [n_tokens, rows] = x·wᵀ, row-major, is for a library of column-major matrices outᵀ = w·xᵀ: a
// matrix of `rows` rows whose first operand is w, transposed, and whose second is x as it lies.

namespace greta {
namespace {

std::string sizes_text(const HalfProduct& product) {
  return std::string(product.type == HalfType::kF16 ? "f16" : "bf16") + ", " +
         std::to_string(product.n_tokens) + " tokens, " + std::to_string(product.rows) + " rows, " +
         std::to_string(product.cols) + " columns, results " + std::to_string(product.out_stride) +
         " apart";
}

#if defined(GRETA_NVIDIA)

// cuBLAS: "cuBLAS Library" (NVIDIA), the API of 11 and later.
struct Functions {
  static constexpr const char* kLibrary = "cuBLAS";
  static constexpr const char* kGemm = "cublasGemmEx";
  struct Version {
    const char* file;
  };
  static constexpr Version kVersions[] = {
      {"libcublas.so.13"}, {"libcublas.so.12"}, {"libcublas.so"}};
  using Handle = cublasHandle_t;

  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  cublasStatus_t (*gemm_ex)(Handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType a_type, int lda,
                            const void* b, cudaDataType b_type, int ldb, const void* beta, void* c,
                            cudaDataType c_type, int ldc, cublasComputeType_t compute_type,
                            cublasGemmAlgo_t algorithm);
  decltype(&cublasGetStatusString) status_string;

  template <class Find>
  void load(const Version&, Find find) {
    find("cublasCreate_v2", create);
    find("cublasDestroy_v2", destroy);
    find("cublasSetStream_v2", set_stream);
    find("cublasSetWorkspace_v2", set_workspace);
    find("cublasGemmEx", gemm_ex);
    find("cublasGetStatusString", status_string);
  }

  std::string status_text(int status) const {
    return status_string(static_cast<cublasStatus_t>(status));
  }

  int gemm(Handle handle, const HalfProduct& product) const {
    const auto type = product.type == HalfType::kF16 ? CUDA_R_16F : CUDA_R_16BF;
    const auto rows = static_cast<int>(product.rows);
    const auto cols = static_cast<int>(product.cols);
    const int line = std::max(cols, 1);
    const float one = 1, zero = 0;
    return gemm_ex(handle, CUBLAS_OP_T, CUBLAS_OP_N, rows, static_cast<int>(product.n_tokens), cols,
                   &one, product.w, type, line, product.x, type, line, &zero, product.out,
                   CUDA_R_32F, static_cast<int>(product.out_stride), CUBLAS_COMPUTE_32F,
                   CUBLAS_GEMM_DEFAULT);
  }
};

#elif defined(GRETA_AMD)

// hipBLAS: what is needed of "hipBLAS API reference" (AMD). Debian has no headers of it. Written to
// the documentation, never run.
//
// Up to version 1 hipblasGemmEx takes hipBLAS's own numbers for types, and one of them for what to
// compute in. Version 2 has hipblasGemmEx_v2 beside it, with HIP's numbers and a
// hipblasComputeType_t, which version 3 calls hipblasGemmEx. A name without a version would not
// tell which it is, so none is tried.
struct Functions {
  static constexpr const char* kLibrary = "hipBLAS";
  static constexpr const char* kGemm = "hipblasGemmEx";
  struct Types {
    int f16, bf16, f32, compute_f32;
  };
  static constexpr Types kOwnTypes{150, 168, 151, 151};
  static constexpr Types kHipTypes{2, 14, 0, 2};
  struct Version {
    const char* file;
    const char* gemm;
    Types types;
  };
  static constexpr Version kVersions[] = {{"libhipblas.so.3", "hipblasGemmEx", kHipTypes},
                                          {"libhipblas.so.2", "hipblasGemmEx_v2", kHipTypes},
                                          {"libhipblas.so.2", "hipblasGemmEx", kOwnTypes},
                                          {"libhipblas.so.1", "hipblasGemmEx", kOwnTypes},
                                          {"libhipblas.so.0", "hipblasGemmEx", kOwnTypes}};
  static constexpr int kOpN = 111, kOpT = 112, kGemmDefault = 160;
  using Handle = void*;

  int (*create)(Handle*);
  int (*destroy)(Handle);
  int (*set_stream)(Handle, hipStream_t);
  int (*set_workspace)(Handle, void*, size_t);
  int (*gemm_ex)(Handle, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
                 int a_type, int lda, const void* b, int b_type, int ldb, const void* beta, void* c,
                 int c_type, int ldc, int compute_type, int algorithm);
  Types types;

  template <class Find>
  void load(const Version& version, Find find) {
    types = version.types;
    find("hipblasCreate", create);
    find("hipblasDestroy", destroy);
    find("hipblasSetStream", set_stream);
    find("hipblasSetWorkspace", set_workspace, false);  // of later versions
    find(version.gemm, gemm_ex);
  }

  std::string status_text(int status) const { return "status " + std::to_string(status); }

  int gemm(Handle handle, const HalfProduct& product) const {
    const int type = product.type == HalfType::kF16 ? types.f16 : types.bf16;
    const auto rows = static_cast<int>(product.rows);
    const auto cols = static_cast<int>(product.cols);
    const int line = std::max(cols, 1);
    const float one = 1, zero = 0;
    return gemm_ex(handle, kOpT, kOpN, rows, static_cast<int>(product.n_tokens), cols, &one,
                   product.w, type, line, product.x, type, line, &zero, product.out, types.f32,
                   static_cast<int>(product.out_stride), types.compute_f32, kGemmDefault);
  }
};

#endif

#if !defined(GRETA_EMULATOR)

// The library, loaded once and kept.
class Library {
 public:
  Library() {
    for (const Functions::Version& version : Functions::kVersions) {
      if (load(version)) return;
    }
  }

  const Functions* functions() const { return loaded_ ? &functions_ : nullptr; }
  const std::string& why_not() const { return why_not_; }

  DeviceError error(const std::string& call, const std::string& why) const {
    return DeviceError(name_ + ": " + call + " failed: " + why);
  }
  void check(int status, const char* call) const {
    if (status != 0) throw error(call, functions_.status_text(status));
  }

 private:
  bool load(const Functions::Version& version) {
    void* const handle = dlopen(version.file, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      note(dlerror());
      return false;
    }
    bool complete = true;
    functions_.load(version, [&](const char* symbol, auto& function, bool needed = true) {
      using Function = std::remove_reference_t<decltype(function)>;
      function = reinterpret_cast<Function>(dlsym(handle, symbol));
      if (function != nullptr || !needed) return;
      note(std::string(version.file) + " has no " + symbol);
      complete = false;
    });
    if (!complete) {
      dlclose(handle);
      return false;
    }
    name_ = std::string(Functions::kLibrary) + " (" + version.file + ")";
    loaded_ = true;
    return true;
  }

  void note(const std::string& why) { why_not_ += (why_not_.empty() ? "" : "; ") + why; }

  Functions functions_{};
  bool loaded_ = false;
  std::string name_, why_not_;
};

const Library& library() {
  static const Library library;
  return library;
}

#endif

}  // namespace

#if defined(GRETA_EMULATOR)

struct Blas::State {};

Blas::Blas(Stream&) { throw DeviceError("the emulator has no BLAS library"); }
Blas::~Blas() = default;
bool Blas::available() { return false; }
void Blas::matmul(const HalfProduct& product) {
  throw DeviceError("the emulator has no BLAS library: " + sizes_text(product));
}

#else

constexpr size_t kWorkspaceBytes = size_t{64} << 20;

struct Blas::State {
  explicit State(Stream& own_stream) : stream(own_stream) {
    if (library().functions() == nullptr) {
      throw DeviceError(std::string(Functions::kLibrary) +
                        " cannot be loaded: " + library().why_not());
    }
    const Functions& blas = *library().functions();
    library().check(blas.create(&handle), "creating a handle");
    try {
      library().check(blas.set_stream(handle, device_detail::stream_handle(stream)),
                      "setting the stream");
      if (blas.set_workspace != nullptr) {
        // The library's own workspace could not be allocated while a graph is recorded.
        workspace = DeviceBuffer<std::byte>(kWorkspaceBytes, "the workspace of matrix products");
        library().check(blas.set_workspace(handle, workspace.data(), kWorkspaceBytes),
                        "setting the workspace");
      }
    } catch (...) {
      blas.destroy(handle);
      throw;
    }
  }
  ~State() { library().functions()->destroy(handle); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Stream& stream;
  Functions::Handle handle = nullptr;
  DeviceBuffer<std::byte> workspace;
};

Blas::Blas(Stream& stream) : state_(std::make_unique<State>(stream)) {}
Blas::~Blas() = default;

bool Blas::available() { return library().functions() != nullptr; }

void Blas::matmul(const HalfProduct& product) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  const auto fail = [&](const std::string& why) {
    throw library().error(std::string(Functions::kGemm) + " of " + sizes_text(product), why);
  };
  if (std::max({product.n_tokens, product.rows, product.cols, product.out_stride}) > kMost) {
    fail("a size is beyond 2^31 - 1");
  }
  if (product.n_tokens == 0 || product.rows == 0) return;
  const Functions& blas = *library().functions();
  const int status = blas.gemm(state_->handle, product);
  if (status != 0) fail(blas.status_text(status));
  state_->stream.count_launch(Functions::kGemm);
}

#endif

}  // namespace greta
