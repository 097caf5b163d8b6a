/* A library for tests that stands in for that of the NVIDIA driver. What it has is chosen when it is built, what it says by
 * NVML_FAKE_* variables when it runs:
 *
 *   -DOLD          only what the first drivers had: no version 2 of anything, no MIG, NVLink, ECC, events
 *   -DEMPTY        nothing
 *
 *   GPUS=2         how many there are
 *   INIT=9         the result of nvmlInit; -1: it hangs
 *   HANG=1         the call for the ECC errors of that GPU hangs; HANG_ALL=1: the one that opens it does
 *   HANG_WAIT=1    the call that waits for an Xid hangs
 *   LOST=1         that GPU is lost: calls for its state say so
 *   ECC=1          that GPU has two uncorrectable ECC errors; ECC_LATER=1: from the second time that it is asked on
 *   MIG=1          that GPU is split into two instances
 *   XID=1:79       that GPU reports that Xid, once
 *   SWITCH=1       links lead to two switches and not from GPU to GPU
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef EMPTY

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMED_OUT = 10, IS_LOST = 15 };
enum { MAX = 16, INSTANCES = 2 };

typedef struct { char bus_id_legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } event;

/* A handle is the address of one of these. */
typedef struct { int gpu, instance; } handle; /* instance: 0 is the GPU itself */
static handle handles[MAX][1 + INSTANCES];

static int number(const char *name, int otherwise) {
	const char *v = getenv(name);
	return v ? atoi(v) : otherwise;
}

static void hang(void) {
	for (;;) pause();
}

/* state is the result of a call for the state of a GPU. */
static int state(handle *h) {
	return number("NVML_FAKE_LOST", -1) == h->gpu ? IS_LOST : SUCCESS;
}

static void address(pci_info *p, int bus) {
	memset(p, 0, sizeof *p);
	snprintf(p->bus_id_legacy, sizeof p->bus_id_legacy, "0000:%02X:00.0", bus);
	p->bus = bus;
}

static int init(void) {
	int r = number("NVML_FAKE_INIT", SUCCESS);
	if (r < 0) hang();
	return r;
}

static int count(unsigned *n) {
	*n = number("NVML_FAKE_GPUS", 2);
	return SUCCESS;
}

static int open_gpu(unsigned i, handle **h) {
	if (number("NVML_FAKE_HANG_ALL", -1) == (int)i) hang();
	*h = &handles[i][0];
	(*h)->gpu = i;
	return SUCCESS;
}

int nvmlDeviceGetUUID(handle *h, char *uuid, unsigned length) {
	snprintf(uuid, length, h->instance ? "MIG-%08x-0000-0000-0000-00000000000%d" : "GPU-%08x-0000-0000-0000-000000000000", h->gpu, h->instance);
	return SUCCESS;
}

int nvmlDeviceGetName(handle *h, char *name, unsigned length) {
	snprintf(name, length, h->instance ? "Test GPU MIG 1g.5gb" : "Test GPU");
	return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(handle *h, memory *m) {
	m->total = h->instance ? 5ull << 30 : 40ull << 30;
	m->used = 1ull << 30;
	m->free = m->total - m->used;
	return state(h);
}

#ifdef OLD

int nvmlInit(void) { return init(); }
int nvmlDeviceGetCount(unsigned *n) { return count(n); }
int nvmlDeviceGetHandleByIndex(unsigned i, handle **h) { return open_gpu(i, h); }
int nvmlDeviceGetPciInfo(handle *h, pci_info *p) {
	address(p, 6 + h->gpu);
	return SUCCESS;
}

#else

int nvmlInit_v2(void) { return init(); }
int nvmlDeviceGetCount_v2(unsigned *n) { return count(n); }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, handle **h) { return open_gpu(i, h); }
const char *nvmlErrorString(int r) { (void)r; abort(); } /* rule 2 */

int nvmlDeviceGetPciInfo_v3(handle *h, pci_info *p) {
	address(p, 6 + h->gpu);
	snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", 6 + h->gpu);
	return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(handle *h, utilization *u) {
	u->gpu = 70, u->memory = 5;
	return h->instance ? NOT_SUPPORTED : state(h);
}

int nvmlDeviceGetTotalEccErrors(handle *h, int kind, int counter, unsigned long long *n) {
	if (number("NVML_FAKE_HANG", -1) == h->gpu) hang();
	static int asked[MAX];
	int errors = number("NVML_FAKE_ECC", -1) == h->gpu || (number("NVML_FAKE_ECC_LATER", -1) == h->gpu && asked[h->gpu]++);
	*n = errors && kind == 1 && counter == 0 ? 2 : 0;
	return state(h);
}

int nvmlDeviceGetMigMode(handle *h, unsigned *now, unsigned *later) {
	*now = *later = number("NVML_FAKE_MIG", -1) == h->gpu;
	return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(handle *h, unsigned *n) {
	(void)h;
	*n = 7;
	return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(handle *h, unsigned i, handle **mig) {
	if (i % 2 || i / 2 >= INSTANCES) return NOT_FOUND; /* there are gaps */
	*mig = &handles[h->gpu][1 + i / 2];
	(*mig)->gpu = h->gpu, (*mig)->instance = 1 + i / 2;
	return SUCCESS;
}

/* Two links from each GPU to the next, in a ring, or three to switches. */
int nvmlDeviceGetNvLinkState(handle *h, unsigned link, unsigned *up) {
	(void)h;
	*up = link < 4 && link != 2;
	return link < 6 ? SUCCESS : INVALID;
}

static int remote(handle *h, unsigned link) {
	int n = number("NVML_FAKE_GPUS", 2);
	if (getenv("NVML_FAKE_SWITCH")) return 0xc0 + (link == 3);
	return 6 + (link == 3 ? h->gpu + n - 1 : h->gpu + 1) % n;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(handle *h, unsigned link, pci_info *p) {
	address(p, remote(h, link));
	snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", remote(h, link));
	return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(handle *h, unsigned link, unsigned *type) {
	(void)h, (void)link;
	*type = getenv("NVML_FAKE_SWITCH") ? 2 : 0;
	return SUCCESS;
}

static int reported;

int nvmlEventSetCreate(int **set) {
	*set = &reported;
	return SUCCESS;
}

int nvmlDeviceRegisterEvents(handle *h, unsigned long long types, int *set) {
	(void)h, (void)set;
	return types == 8 ? SUCCESS : NOT_SUPPORTED;
}

int nvmlEventSetWait_v2(int *set, event *e, unsigned ms) {
	int gpu, xid;
	const char *v = getenv("NVML_FAKE_XID");
	if (getenv("NVML_FAKE_HANG_WAIT")) hang();
	memset(e, 0, sizeof *e);
	if (v && !*set && sscanf(v, "%d:%d", &gpu, &xid) == 2) {
		*set = 1;
		e->device = &handles[gpu][0], e->type = 8, e->data = xid, e->gi = e->ci = ~0u;
		return SUCCESS;
	}
	usleep(ms * 1000);
	return TIMED_OUT;
}

#endif
#endif
