// The kernels of the training step, in single precision. kernels.ptx is made of this file:
//
//	pip download --no-deps nvidia-cuda-nvrtc-cu12==12.0.140 && unzip -q nvidia_cuda_nvrtc_cu12-12.0.140-*.whl -d /tmp/nvrtc
//	LD_LIBRARY_PATH=/tmp/nvrtc/nvidia/cuda_nvrtc/lib go generate -C examples/gpu ./mlp
//
// That compiler writes PTX of ISA 8.0, which drivers since 525 (CUDA 12.0) read, for compute_50, which all GPUs since
// Maxwell run. Matrices lie by rows. No kernel adds in an order that depends on how its threads run.

#define TILE 16

// matmul: c = a b, of m x k and k x n. Element (i, p) of a lies at a[i*ai + p*ap], (p, j) of b at b[p*bp + j*bj], so that
// either may be transposed. A block makes a tile of c.
extern "C" __global__ void matmul(float *c, const float *a, const float *b, int m, int n, int k, int ai, int ap, int bp, int bj) {
  __shared__ float as[TILE][TILE], bs[TILE][TILE];
  int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
  float sum = 0;
  for (int at = 0; at < k; at += TILE) {
    int p = at + threadIdx.x, q = at + threadIdx.y;
    as[threadIdx.y][threadIdx.x] = row < m && p < k ? a[(size_t)row * ai + (size_t)p * ap] : 0;
    bs[threadIdx.y][threadIdx.x] = q < k && col < n ? b[(size_t)q * bp + (size_t)col * bj] : 0;
    __syncthreads();
    for (int i = 0; i < TILE; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && col < n) c[(size_t)row * n + col] = sum;
}

// bias adds b to each row of z; then, where relu is set, what is negative becomes 0.
extern "C" __global__ void bias(float *z, const float *b, int count, int cols, int relu) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float v = z[i] + b[i % cols];
  z[i] = relu && v < 0 ? 0 : v;
}

// softmax: z, a row of scores for each example with a label, becomes the gradient of the mean cross entropy; losses has that of each row.
extern "C" __global__ void softmax(float *z, const float *labels, float *losses, int rows, int cols) {
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  float *row = z + (size_t)r * cols;
  int label = (int)labels[r];
  float top = row[0], sum = 0;
  for (int j = 1; j < cols; j++) top = fmaxf(top, row[j]);
  for (int j = 0; j < cols; j++) sum += expf(row[j] - top);
  losses[r] = logf(sum) - (row[label] - top);
  for (int j = 0; j < cols; j++) {
    float p = expf(row[j] - top) / sum;
    row[j] = (p - (j == label ? 1.0f : 0.0f)) / rows;
  }
}

// unrelu: a gradient passes where the layer's output a is not 0.
extern "C" __global__ void unrelu(float *d, const float *a, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && !(a[i] > 0)) d[i] = 0;
}

// columns adds up each column of d.
extern "C" __global__ void columns(float *sums, const float *d, int rows, int cols) {
  int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= cols) return;
  float sum = 0;
  for (int i = 0; i < rows; i++) sum += d[(size_t)i * cols + j];
  sums[j] = sum;
}

// adam: a step of Adam (Kingma and Ba, 2015). first and second are 1/(1 - beta1^t) and 1/(1 - beta2^t).
extern "C" __global__ void adam(float *w, float *m, float *v, const float *g, int count, float rate, float first, float second) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  m[i] = 0.9f * m[i] + 0.1f * g[i];
  v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
  w[i] -= rate * (m[i] * first) / (sqrtf(v[i] * second) + 1e-8f);
}
