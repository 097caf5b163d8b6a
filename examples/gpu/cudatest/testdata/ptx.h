// An interpreter of the PTX that kernels.ptx is made of. It knows the instructions of that file and no others.
#include <stddef.h>
#include <stdint.h>

struct module;
struct kernel;

// ptx_parse returns NULL for text that it does not understand, and says on standard error which.
struct module *ptx_parse(const char *text);
void ptx_free(struct module *m);
struct kernel *ptx_kernel(struct module *m, const char *name);

// ptx_run runs all threads of all blocks. room reports whether bytes may be touched; 0 is returned where it says no, or where
// threads of a block end at different barriers.
int ptx_run(struct kernel *k, unsigned gx, unsigned gy, unsigned bx, unsigned by, void **args, int (*room)(uint64_t p, size_t n));
