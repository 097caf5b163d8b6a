// libcuda.so.1 for tests: the driver's functions that package cuda calls, over the memory of the host. PTX is interpreted, one
// thread after the other (ptx.c), so that a test runs the kernels that a GPU would run. What a driver would not forgive is an
// error here: a call without a context, an address outside of what was allocated, PTX that is not understood.
//
// Built with -DOLD it lacks cuMemAlloc_v2. The environment says what it has, once:
//   FAKE_CUDA_UUIDS=GPU-...,GPU-...  its devices
//   FAKE_CUDA_INIT=code              the result of cuInit
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx.h"

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_PTX = 218, NOT_FOUND = 500, ILLEGAL_ADDRESS = 700 };

#define MOST_DEVICES 16
#define MOST_ALLOCATIONS 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // guards all but current
static int devices = -1;                                  // -1 before cuInit
static unsigned char uuids[MOST_DEVICES][16];
static int retained[MOST_DEVICES];
static int broken[MOST_DEVICES];  // the error of a kernel, which every later call returns
static struct { char *at; size_t n; int device; } allocations[MOST_ALLOCATIONS];
static long long launches, fails_at, limit = 1LL << 40, used;
static int fails_with;
static __thread int current;  // 1 + the device of this thread's context; 0: none

// What tests ask and say.
long long fake_launches(void) { return launches; }
long long fake_used(void) { return used; }
int fake_retained(void) { int n = 0; for (int i = 0; i < MOST_DEVICES; i++) n += retained[i]; return n; }
void fake_memory(long long bytes) { limit = bytes; }
// fake_fail has the n-th launch from now on fail, which the next call says, and each until nobody uses the device any more.
void fake_fail(long long n, int code) { pthread_mutex_lock(&lock); fails_at = launches + n; fails_with = code; pthread_mutex_unlock(&lock); }

// parse_uuid reads the hexadecimal digits of a UUID.
static void parse_uuid(const char *s, unsigned char *to) {
  memset(to, 0, 16);
  if (strncmp(s, "GPU-", 4) == 0) s += 4;
  for (int n = 0; *s && *s != ',' && n < 32; s++) {
    const char *digits = "0123456789abcdef", *d = strchr(digits, *s);
    if (d) to[n / 2] |= (d - digits) << (n % 2 ? 0 : 4), n++;
  }
}

// fake_devices says which devices there are, before cuInit.
void fake_devices(const char *list) {
  for (devices = 0; list && *list && devices < MOST_DEVICES;) {
    parse_uuid(list, uuids[devices++]);
    if ((list = strchr(list, ','))) list++;
  }
}

int cuInit(unsigned flags) {
  const char *result = getenv("FAKE_CUDA_INIT");
  if (result && atoi(result)) return atoi(result);
  if (flags) return INVALID_VALUE;
  pthread_mutex_lock(&lock);
  if (devices < 0) fake_devices(getenv("FAKE_CUDA_UUIDS"));
  pthread_mutex_unlock(&lock);
  return devices ? OK : NO_DEVICE;
}

int cuDriverGetVersion(int *v) { *v = 12040; return OK; }

int cuGetErrorString(int code, const char **text) {
  switch (code) {
  case OUT_OF_MEMORY: *text = "out of memory"; return OK;
  case NO_DEVICE: *text = "no CUDA-capable device is detected"; return OK;
  case INVALID_CONTEXT: *text = "invalid device context"; return OK;
  case ILLEGAL_ADDRESS: *text = "an illegal memory access was encountered"; return OK;
  }
  *text = NULL;
  return INVALID_VALUE;
}

int cuDeviceGetCount(int *n) {
  if (devices < 0) return NOT_INITIALIZED;
  *n = devices;
  return OK;
}

int cuDeviceGet(int *d, int ordinal) {
  if (ordinal < 0 || ordinal >= devices) return INVALID_DEVICE;
  *d = ordinal;
  return OK;
}

int cuDeviceGetName(char *b, int n, int d) { snprintf(b, n, "Test GPU %d", d); return OK; }
int cuDeviceGetUuid_v2(void *to, int d) { memcpy(to, uuids[d], 16); return OK; }
int cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; *n = (size_t)limit; return OK; }

int cuDevicePrimaryCtxRetain(void **ctx, int d) {
  pthread_mutex_lock(&lock);
  retained[d]++;
  pthread_mutex_unlock(&lock);
  *ctx = (void *)(uintptr_t)(d + 1);
  return OK;
}

int cuDevicePrimaryCtxRelease_v2(int d) {
  pthread_mutex_lock(&lock);
  int left = --retained[d];
  if (left == 0) {  // the driver makes the context anew for who comes next
    broken[d] = 0;
    for (int i = 0; i < MOST_ALLOCATIONS; i++)
      if (allocations[i].at && allocations[i].device == d) used -= allocations[i].n, free(allocations[i].at), allocations[i].at = NULL;
  }
  pthread_mutex_unlock(&lock);
  return left < 0 ? INVALID_CONTEXT : OK;
}

int cuCtxSetCurrent(void *ctx) { current = (int)(uintptr_t)ctx; return OK; }

// ready is what every call on a device asks first.
static int ready(void) {
  if (!current || retained[current - 1] <= 0) return INVALID_CONTEXT;
  return broken[current - 1];
}

#ifndef OLD
int cuMemAlloc_v2(uint64_t *p, size_t n) {
  int r = ready();
  if (r) return r;
  pthread_mutex_lock(&lock);
  r = OUT_OF_MEMORY;
  if (used + (long long)n <= limit)
    for (int i = 0; i < MOST_ALLOCATIONS && r; i++)
      if (!allocations[i].at && (allocations[i].at = malloc(n))) {
        memset(allocations[i].at, 0xff, n);  // what is not cleared is NaN
        allocations[i].n = n, allocations[i].device = current - 1, used += n, *p = (uintptr_t)allocations[i].at, r = OK;
      }
  pthread_mutex_unlock(&lock);
  return r;
}
#endif

int cuMemFree_v2(uint64_t p) {
  if (!current) return INVALID_CONTEXT;
  int r = INVALID_VALUE;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < MOST_ALLOCATIONS && r; i++)
    if (allocations[i].at && (uintptr_t)allocations[i].at == p) used -= allocations[i].n, free(allocations[i].at), allocations[i].at = NULL, r = OK;
  pthread_mutex_unlock(&lock);
  return r;
}

// room reports whether the bytes lie in one allocation of this thread's device. lock is held.
static int room(uint64_t p, size_t n) {
  static __thread int last;
  for (int k = 0; k < MOST_ALLOCATIONS; k++) {
    int i = (last + k) % MOST_ALLOCATIONS;
    char *at = allocations[i].at;
    if (at && allocations[i].device == current - 1 && p >= (uintptr_t)at && p + n <= (uintptr_t)at + allocations[i].n) return last = i, 1;
  }
  return 0;
}

static int copy(void *to, const void *from, uint64_t device_side, size_t n) {
  int r = ready();
  pthread_mutex_lock(&lock);
  if (!r && !room(device_side, n)) r = INVALID_VALUE;
  if (!r) memcpy(to, from, n);
  pthread_mutex_unlock(&lock);
  return r;
}
int cuMemcpyHtoD_v2(uint64_t p, const void *from, size_t n) { return copy((void *)(uintptr_t)p, from, p, n); }
int cuMemcpyDtoH_v2(void *to, uint64_t p, size_t n) { return copy(to, (void *)(uintptr_t)p, p, n); }

int cuModuleLoadData(struct module **m, const char *image) {
  int r = ready();
  if (r) return r;
  return (*m = ptx_parse(image)) ? OK : INVALID_PTX;
}
int cuModuleUnload(struct module *m) { ptx_free(m); return OK; }
int cuModuleGetFunction(struct kernel **k, struct module *m, const char *name) { return (*k = ptx_kernel(m, name)) ? OK : NOT_FOUND; }

int cuLaunchKernel(struct kernel *k, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **args, void **extra) {
  int r = ready();
  if (r) return r;
  if (!gx || !gy || gz != 1 || !bx || !by || bz != 1 || bx * by > 1024 || gy > 65535 || shared || stream || extra) return INVALID_VALUE;
  pthread_mutex_lock(&lock);
  launches++;
  if (fails_at && launches == fails_at) broken[current - 1] = fails_with;
  else if (!ptx_run(k, gx, gy, bx, by, args, room)) broken[current - 1] = ILLEGAL_ADDRESS;
  pthread_mutex_unlock(&lock);
  return OK;
}
