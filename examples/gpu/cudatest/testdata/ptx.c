#include "ptx.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_KERNELS 16
#define MOST_NAMES 512
#define MOST_CODE 1024
#define MOST_PARAMS 16
#define MOST_SHARED 4

enum op { ADD, SUB, MUL, MULWIDE, MAD, FMA, DIV, REM, AND, OR, XOR, NOT, SHL, SHR, MIN, MAX, NEG, ABS, SQRT, EX2, LG2, RCP, MOV, SETP, SELP, CVT, LD, ST, LDPARAM, BRA, BAR, RET };
enum type { F32, S32, U32, S64, U64, PRED };
enum compare { EQ, NE, LT, LE, GT, GE };

// An operand is a place in the registers of a thread: constants, and what %tid and the like are, have places of their own.
struct insn {
  enum op op;
  enum type type, from;  // from: the source of CVT
  enum compare compare;
  int down, sat, toward0;      // rounding of FMA, of CVT
  int guard, unless;           // the predicate's place, or -1
  int dst, src[3];
  long offset;                 // of an address; of LDPARAM the parameter; of BRA its target
  char label[64];
};

struct kernel {
  char name[64];
  struct { char name[48]; uint64_t value; } names[MOST_NAMES];  // registers, and constants with their values
  int count;
  struct insn code[MOST_CODE];
  int length;
  struct { char name[64]; int at; } labels[MOST_NAMES];
  int label_count;
  struct { char name[64]; char *at; size_t n; } shared[MOST_SHARED];
  int shared_count;
};

struct module { struct kernel *kernels[MOST_KERNELS]; int count; };

static const char *specials[] = {"%tid.x", "%tid.y", "%ntid.x", "%ntid.y", "%ctaid.x", "%ctaid.y"};  // they have the first places

static int place(struct kernel *k, const char *name, uint64_t value) {
  for (int i = 0; i < k->count; i++)
    if (!strcmp(k->names[i].name, name)) return i;
  if (k->count == MOST_NAMES || strlen(name) >= sizeof k->names[0].name) return -1;
  strcpy(k->names[k->count].name, name);
  k->names[k->count].value = value;
  return k->count++;
}

static struct kernel *new_kernel(const char *name) {
  struct kernel *k = calloc(1, sizeof *k);
  snprintf(k->name, sizeof k->name, "%s", name);
  for (int i = 0; i < 6; i++) place(k, specials[i], 0);
  return k;
}

// operand is the place of a register, a number, or a shared array's address.
static int operand(struct kernel *k, const char *s) {
  for (int i = 0; i < k->shared_count; i++)
    if (!strcmp(k->shared[i].name, s)) return place(k, s, (uintptr_t)k->shared[i].at);
  if (*s == '%') return place(k, s, 0);
  if (!strncmp(s, "0f", 2)) return place(k, s, strtoul(s + 2, NULL, 16));
  char *end;
  uint64_t v = (uint64_t)strtoll(s, &end, 0);
  return *end ? -1 : place(k, s, v);
}

static int type_of(const char *s) {
  static const struct { const char *name; enum type t; } types[] = {{"f32", F32}, {"s32", S32}, {"u32", U32}, {"b32", U32}, {"s64", S64}, {"u64", U64}, {"b64", U64}, {"pred", PRED}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, s)) return types[i].t;
  return -1;
}

static int code_of(const char *s) {
  static const struct { const char *name; enum op op; } ops[] = {
      {"add", ADD}, {"sub", SUB}, {"mul", MUL}, {"mad", MAD}, {"fma", FMA}, {"div", DIV}, {"rem", REM}, {"and", AND}, {"or", OR}, {"xor", XOR}, {"not", NOT},
      {"shl", SHL}, {"shr", SHR}, {"min", MIN}, {"max", MAX}, {"neg", NEG}, {"abs", ABS}, {"sqrt", SQRT}, {"ex2", EX2}, {"lg2", LG2}, {"rcp", RCP}, {"mov", MOV},
      {"cvta", MOV}, {"setp", SETP}, {"selp", SELP}, {"cvt", CVT}, {"ld", LD}, {"st", ST}, {"bra", BRA}, {"bar", BAR}, {"ret", RET}};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (!strcmp(ops[i].name, s)) return ops[i].op;
  return -1;
}

// opcode reads "mul.wide.s32" and the like; 0 where it has a word that it does not know.
static int opcode(struct insn *n, char *text) {
  char *save, *word = strtok_r(text, ".", &save);
  int op = code_of(word), types = 0;
  if (op < 0) return 0;
  n->op = op;
  while ((word = strtok_r(NULL, ".", &save))) {
    static const char *compares[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    int t = type_of(word), known = t >= 0;
    if (known && types++ == 0) n->type = t;
    if (known) n->from = t;
    for (int i = 0; i < 6; i++)
      if (op == SETP && !strcmp(word, compares[i])) n->compare = i, known = 1;
    if (!strcmp(word, "wide")) n->op = MULWIDE, known = 1;
    if (!strcmp(word, "param")) n->op = LDPARAM, known = 1;
    if (!strcmp(word, "rm")) n->down = 1, known = 1;
    if (!strcmp(word, "sat")) n->sat = 1, known = 1;
    if (!strcmp(word, "rzi")) n->toward0 = 1, known = 1;
    for (const char *const *same = (const char *const[]){"lo", "rn", "approx", "ftz", "global", "shared", "to", "uni", "sync", NULL}; *same; same++) known |= !strcmp(word, *same);
    if (!known) return 0;
  }
  return 1;
}

// address reads what stands in brackets: a register or a name, and an offset.
static int address(struct kernel *k, struct insn *n, char *s, int *at) {
  char *close = strchr(s, ']'), *plus;
  if (!close) return 0;
  *close = 0;
  if (n->op == LDPARAM) {
    char *number = strrchr(s, '_');
    n->offset = number ? atol(number + 1) : -1;
    return n->offset >= 0 && n->offset < MOST_PARAMS;
  }
  if ((plus = strpbrk(s + 1, "+-"))) n->offset = strtol(plus, NULL, 10), *plus = 0;
  return (*at = operand(k, s + 1)) >= 0;
}

static int instruction(struct kernel *k, char *s) {
  if (k->length == MOST_CODE) return 0;
  struct insn *n = &k->code[k->length++];
  n->guard = n->dst = -1;
  if (*s == '@') {
    n->unless = s[1] == '!';
    char *name = s + 1 + n->unless, *end = strpbrk(name, " \t");
    if (!end) return 0;
    *end = 0;
    n->guard = operand(k, name);
    s = end + 1 + strspn(end + 1, " \t");
  }
  char *rest = s + strcspn(s, " \t");
  if (*rest) *rest++ = 0;
  if (!opcode(n, s)) return 0;
  int at = 0;
  char *save;
  for (char *o = strtok_r(rest, ", \t", &save); o; o = strtok_r(NULL, ", \t", &save), at++) {
    if (n->op == BRA) { snprintf(n->label, sizeof n->label, "%s", o); continue; }
    if (at > 3) return 0;
    int *to = at == 0 ? &n->dst : &n->src[at - 1];
    if (*o == '[') {
      if (!address(k, n, o, to)) return 0;
    } else if (n->op != BAR && (*to = operand(k, o)) < 0) return 0;
  }
  return 1;
}

// line takes one statement of a kernel; 0 where it does not understand it.
static int line(struct kernel *k, char *s) {
  char name[64];
  unsigned n;
  if (!strncmp(s, ".reg", 4) || !strncmp(s, ".param", 6) || !strncmp(s, ".pragma", 7)) return 1;
  if (sscanf(s, ".shared .align %*u .b8 %63[^[][%u]", name, &n) == 2) {
    if (k->shared_count == MOST_SHARED) return 0;
    strcpy(k->shared[k->shared_count].name, name);
    k->shared[k->shared_count].at = calloc(1, n);
    k->shared[k->shared_count++].n = n;
    return 1;
  }
  return instruction(k, s);
}

static int resolve(struct kernel *k) {
  for (int i = 0; i < k->length; i++) {
    if (k->code[i].op != BRA) continue;
    k->code[i].offset = -1;
    for (int j = 0; j < k->label_count; j++)
      if (!strcmp(k->labels[j].name, k->code[i].label)) k->code[i].offset = k->labels[j].at;
    if (k->code[i].offset < 0) return 0;
  }
  return 1;
}

struct module *ptx_parse(const char *text) {
  struct module *m = calloc(1, sizeof *m);
  struct kernel *k = NULL;
  char *copy = strdup(text), *save;
  for (char *s = strtok_r(copy, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
    s += strspn(s, " \t");
    char name[64], shown[128], *end = s + strlen(s);
    if (!*s || !strncmp(s, "//", 2)) continue;
    if (sscanf(s, ".visible .entry %63[^(]", name) == 1) {
      if (m->count == MOST_KERNELS) break;
      k = m->kernels[m->count++] = new_kernel(name);
      continue;
    }
    if (!k || strchr("{})", *s)) {
      if (*s == '}') k = resolve(k) ? NULL : (fprintf(stderr, "a branch to nowhere in %s\n", k->name), ptx_free(m), m = NULL, NULL);
      if (!m) break;
      continue;
    }
    if (end[-1] == ':' && k->label_count < MOST_NAMES) {
      end[-1] = 0;
      snprintf(k->labels[k->label_count].name, sizeof name, "%s", s);
      k->labels[k->label_count++].at = k->length;
      continue;
    }
    snprintf(shown, sizeof shown, "%s", s);
    if (end[-1] == ';') end[-1] = 0;
    if (!line(k, s)) {
      fprintf(stderr, "PTX that the interpreter does not know, in %s: %s\n", k->name, shown);
      ptx_free(m);
      m = NULL;
      break;
    }
  }
  free(copy);
  return m;
}

void ptx_free(struct module *m) {
  for (int i = 0; i < m->count; i++) {
    for (int j = 0; j < m->kernels[i]->shared_count; j++) free(m->kernels[i]->shared[j].at);
    free(m->kernels[i]);
  }
  free(m);
}

struct kernel *ptx_kernel(struct module *m, const char *name) {
  for (int i = 0; i < m->count; i++)
    if (!strcmp(m->kernels[i]->name, name)) return m->kernels[i];
  return NULL;
}

static float f(uint64_t v) { uint32_t b = (uint32_t)v; float x; memcpy(&x, &b, 4); return x; }
static uint64_t bits(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }

// fma_down is a*b + c rounded towards minus infinity: the product is exact in double.
static float fma_down(float a, float b, float c) {
  double exact = (double)a * b + c;
  float x = (float)exact;
  return x > exact ? nextafterf(x, -INFINITY) : x;
}

static int holds(enum compare c, int less, int equal, int unordered) {
  switch (c) {
  case EQ: return equal && !unordered;
  case NE: return !equal && !unordered;
  case LT: return less && !unordered;
  case LE: return (less || equal) && !unordered;
  case GT: return !less && !equal && !unordered;
  default: return !less && !unordered;
  }
}

static int compares(const struct insn *n, uint64_t a, uint64_t b) {
  switch (n->type) {
  case F32: return holds(n->compare, f(a) < f(b), f(a) == f(b), isnan(f(a)) || isnan(f(b)));
  case S32: return holds(n->compare, (int32_t)a < (int32_t)b, (int32_t)a == (int32_t)b, 0);
  case U32: return holds(n->compare, (uint32_t)a < (uint32_t)b, (uint32_t)a == (uint32_t)b, 0);
  case S64: return holds(n->compare, (int64_t)a < (int64_t)b, a == b, 0);
  default: return holds(n->compare, a < b, a == b, 0);
  }
}

static uint64_t real(const struct insn *n, float a, float b, float c) {
  switch (n->op) {
  case ADD: return bits(a + b);
  case SUB: return bits(a - b);
  case MUL: return bits(a * b);
  case FMA: return bits(n->down ? fma_down(a, b, c) : fmaf(a, b, c));
  case DIV: return bits(a / b);
  case MIN: return bits(fminf(a, b));
  case MAX: return bits(fmaxf(a, b));
  case NEG: return bits(-a);
  case ABS: return bits(fabsf(a));
  case SQRT: return bits(sqrtf(a));
  case EX2: return bits(exp2f(a));
  case LG2: return bits(log2f(a));
  default: return bits(1 / a);  // RCP
  }
}

static uint64_t whole(const struct insn *n, uint64_t a, uint64_t b, uint64_t c) {
  int wide = n->type == S64 || n->type == U64, is_signed = n->type == S32 || n->type == S64;
  if (!wide && is_signed) a = (int64_t)(int32_t)a, b = (int64_t)(int32_t)b;
  if (!wide && !is_signed) a = (uint32_t)a, b = (uint32_t)b;
  uint64_t v;
  switch (n->op) {
  case ADD: v = a + b; break;
  case SUB: v = a - b; break;
  case MUL: v = a * b; break;
  case MULWIDE: return a * b;
  case MAD: v = a * b + c; break;
  case DIV: v = !b ? ~0ull : is_signed ? (uint64_t)((int64_t)a / (int64_t)b) : a / b; break;
  case REM: v = !b ? a : is_signed ? (uint64_t)((int64_t)a % (int64_t)b) : a % b; break;
  case AND: v = a & b; break;
  case OR: v = a | b; break;
  case XOR: v = a ^ b; break;
  case NOT: v = n->type == PRED ? !a : ~a; break;
  case SHL: v = b > 63 ? 0 : a << b; break;
  case SHR: v = is_signed ? (uint64_t)((int64_t)a >> (b > 63 ? 63 : b)) : b > 63 ? 0 : a >> b; break;
  case NEG: v = -a; break;
  case MIN: v = is_signed ? ((int64_t)a < (int64_t)b ? a : b) : a < b ? a : b; break;
  default: v = is_signed ? ((int64_t)a > (int64_t)b ? a : b) : a > b ? a : b; break;  // MAX
  }
  return wide ? v : (uint32_t)v;
}

static uint64_t convert(const struct insn *n, uint64_t a) {
  if (n->type == F32 && n->from == F32) return bits(n->sat ? fminf(1, fmaxf(0, f(a))) : f(a));
  if (n->type == F32) return bits(n->from == S32 ? (float)(int32_t)a : n->from == U32 ? (float)(uint32_t)a : n->from == S64 ? (float)(int64_t)a : (float)a);
  if (n->from == F32) return n->type == S32 ? (uint32_t)(int32_t)f(a) : (uint64_t)f(a);
  uint64_t v = n->from == S32 ? (uint64_t)(int64_t)(int32_t)a : n->from == U32 ? (uint32_t)a : a;
  return n->type == S64 || n->type == U64 ? v : (uint32_t)v;
}

// touch is an address that may be used, or NULL.
static void *touch(struct kernel *k, uint64_t p, size_t n, int (*room)(uint64_t, size_t)) {
  for (int i = 0; i < k->shared_count; i++)
    if (p >= (uintptr_t)k->shared[i].at && p + n <= (uintptr_t)k->shared[i].at + k->shared[i].n) return (void *)(uintptr_t)p;
  return room(p, n) ? (void *)(uintptr_t)p : NULL;
}

// run goes on with a thread at *pc, up to a barrier (1), its end (0), or an address that is none (-1).
static int run(struct kernel *k, uint64_t *r, int *pc, void **args, int (*room)(uint64_t, size_t)) {
  for (;;) {
    const struct insn *n = &k->code[(*pc)++];
    if (n->guard >= 0 && (!r[n->guard]) != n->unless) continue;
    uint64_t a = r[n->src[0]], b = r[n->src[1]], c = r[n->src[2]];
    size_t size = n->type == S64 || n->type == U64 ? 8 : 4;
    void *p;
    switch (n->op) {
    case RET: return 0;
    case BAR: return 1;
    case BRA: *pc = (int)n->offset; break;
    case MOV: r[n->dst] = a; break;
    case SETP: r[n->dst] = compares(n, a, b); break;
    case SELP: r[n->dst] = c ? a : b; break;
    case CVT: r[n->dst] = convert(n, a); break;
    case LDPARAM: r[n->dst] = 0, memcpy(&r[n->dst], args[n->offset], size); break;
    case LD:
      if (!(p = touch(k, a + n->offset, size, room))) return -1;
      r[n->dst] = 0, memcpy(&r[n->dst], p, size);
      break;
    case ST:
      if (!(p = touch(k, r[n->dst] + n->offset, size, room))) return -1;
      memcpy(p, &a, size);
      break;
    default: r[n->dst] = n->type == F32 ? real(n, f(a), f(b), f(c)) : whole(n, a, b, c);
    }
  }
}

int ptx_run(struct kernel *k, unsigned gx, unsigned gy, unsigned bx, unsigned by, void **args, int (*room)(uint64_t, size_t)) {
  unsigned threads = bx * by;
  uint64_t first[MOST_NAMES];
  for (int i = 0; i < k->count; i++) first[i] = k->names[i].value;
  uint64_t *r = malloc(threads * k->count * sizeof *r);
  int *pc = malloc(threads * sizeof *pc), ok = 1;
  for (unsigned block = 0; ok && block < gx * gy; block++) {
    for (unsigned t = 0; t < threads; t++) {
      uint64_t *own = r + (size_t)t * k->count, values[] = {t % bx, t / bx, bx, by, block % gx, block / gx};
      memcpy(own, first, k->count * sizeof *own);
      memcpy(own, values, sizeof values);
      pc[t] = 0;
    }
    for (unsigned at_barrier = threads; ok && at_barrier;) {
      at_barrier = 0;
      for (unsigned t = 0; ok && t < threads; t++) {
        int state = run(k, r + (size_t)t * k->count, &pc[t], args, room);
        ok = state >= 0, at_barrier += state == 1;
      }
      ok &= at_barrier == 0 || at_barrier == threads;
    }
  }
  free(r);
  free(pc);
  return ok;
}
