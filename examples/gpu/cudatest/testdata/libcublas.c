// libcublas for tests: the functions that package cuda calls, over the memory of the host. Matrices lie by columns.
#include <stdint.h>
#include <stdlib.h>

static long long calls;
long long fake_gemms(void) { return calls; }

int cublasCreate_v2(void **h) { return (*h = malloc(1)) ? 0 : 3; }
int cublasDestroy_v2(void *h) { free(h); return 0; }

int cublasSgemm_v2(void *h, int ta, int tb, int m, int n, int k, const float *alpha, const float *a, int lda, const float *b, int ldb, const float *beta, float *c, int ldc) {
  if (!h || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return 7;  // CUBLAS_STATUS_INVALID_VALUE
  calls++;
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int p = 0; p < k; p++) sum += a[ta ? (size_t)i * lda + p : (size_t)p * lda + i] * b[tb ? (size_t)p * ldb + j : (size_t)j * ldb + p];
      float *to = c + (size_t)j * ldc + i;
      *to = *alpha * sum + (*beta ? *beta * *to : 0);
    }
  return 0;
}
