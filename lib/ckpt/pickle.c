/*
 * pickle.c - the stack machine of a pickle, which builds values and calls nothing
 *
 * An opcode is a row: the form of its argument and the function that runs it. Every opcode takes at
 * least one byte of the input and makes at most one value and one place on the stack or in the
 * memo, and items are moved, never copied, so memory is linear in the input. Opcodes of protocol 0
 * alone, of persistent names, of extension codes and of buffers outside the stream have no row.
 */
#include "lib/base/mem.h"
#include "lib/ckpt/pickle.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROTOCOL_MAX = 5 };

const struct pickle_limits pickle_limits_torch = {
	.bytes = (uint64_t)1 << 30,
	.values = (uint64_t)1 << 26,
	.memo = (uint64_t)1 << 26,
	.depth = (uint64_t)1 << 24,
};

struct pickle {
	struct mem_pool pool;
	struct pickle_value none, yes, no, empty; /* empty: the empty tuple */
	const struct pickle_value *root;
};

/* A growing array of values. */
struct values {
	struct pickle_value **v;
	size_t len, cap;
};

/* State of reading. */
struct reader {
	struct pickle *out;
	const struct pickle_limits *limits;
	const unsigned char *begin, *p, *end;
	size_t at; /* of the opcode that runs */
	uint64_t num_values;
	struct values stack, memo;         /* an entry of the memo is NULL before it is set */
	size_t *mark, num_marks, mark_cap; /* heights of the stack */
	bool stopped;
	struct err *e;
};

/* The argument of an opcode, as its row says. */
struct argument {
	unsigned char op;
	enum pickle_type type;
	uint64_t number;
	const char *bytes;
	size_t len;
};

enum form {
	FORM_UNKNOWN,
	FORM_NONE,
	FORM_NUMBER, /* of `width` bytes, little-endian */
	FORM_BYTES,  /* after their number, of `width` bytes */
	FORM_LINES,  /* `width` lines */
};

struct opcode {
	enum form form : 8;
	unsigned char width;
	enum pickle_type type : 8; /* of the value it makes, where the function makes several */
	int (*run)(struct reader *r, const struct argument *a);
};

static int fail(struct reader *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The reason after the position of the opcode. Returns -1. */
static int
fail(struct reader *r, const char *fmt, ...)
{
	char why[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	return err_set(r->e, "byte %zu of the pickle: %s", r->at, why);
}

/* A zeroed value of a type, or NULL with the reason. */
static struct pickle_value *
new_value(struct reader *r, enum pickle_type type)
{
	struct pickle_value *v;

	if (++r->num_values > r->limits->values) {
		fail(r, "more than %llu values", (unsigned long long)r->limits->values);
		return NULL;
	}
	v = mem_pool_alloc(&r->out->pool, 1, sizeof *v);
	v->type = type;
	return v;
}

/* Makes room for one more; the new ones are NULL. */
static void
values_grow(struct values *a, size_t len)
{
	size_t cap = a->cap ? a->cap : 64;

	if (len <= a->cap)
		return;
	while (cap < len)
		cap *= 2;
	a->v = mem_realloc(a->v, cap, sizeof *a->v);
	memset(a->v + a->cap, 0, (cap - a->cap) * sizeof *a->v);
	a->cap = cap;
}

/* v is NULL when it could not be made. */
static int
push(struct reader *r, struct pickle_value *v)
{
	if (!v)
		return -1;
	if (r->stack.len >= r->limits->depth)
		return fail(r, "more than %llu values wait on the stack",
		    (unsigned long long)r->limits->depth);
	values_grow(&r->stack, r->stack.len + 1);
	r->stack.v[r->stack.len++] = v;
	return 0;
}

/* The stack does not go below the last mark. */
static size_t
floor_of_stack(const struct reader *r)
{
	return r->num_marks ? r->mark[r->num_marks - 1] : 0;
}

/* Takes n values off the stack; the first of them, valid until the next push. NULL with a reason
 * when there are fewer. */
static struct pickle_value **
take(struct reader *r, size_t n)
{
	if (r->stack.len - floor_of_stack(r) < n) {
		fail(r, "the stack holds fewer than the %zu values that the opcode needs", n);
		return NULL;
	}
	r->stack.len -= n;
	return r->stack.v + r->stack.len;
}

/* Takes the values above the last mark, and the mark. */
static struct pickle_value **
take_marked(struct reader *r, size_t *n)
{
	if (r->num_marks == 0) {
		fail(r, "no mark on the stack");
		return NULL;
	}
	*n = r->stack.len - floor_of_stack(r);
	r->stack.len = r->mark[--r->num_marks];
	return r->stack.v + r->stack.len;
}

/* --- opcodes --------------------------------------------------------------------------------- */

static int
run_protocol(struct reader *r, const struct argument *a)
{
	if (a->number > PROTOCOL_MAX)
		return fail(r, "protocol %d, at most %d is read", (int)a->number, PROTOCOL_MAX);
	return 0;
}

/* Frames only tell how much to read at once. */
static int
run_frame(struct reader *r, const struct argument *a)
{
	if (a->number > (uint64_t)(r->end - r->p))
		return fail(
		    r, "a frame of %llu bytes reaches past the end", (unsigned long long)a->number);
	return 0;
}

static int
run_stop(struct reader *r, const struct argument *a)
{
	(void)a;
	if (r->stack.len != 1 || r->num_marks != 0)
		return fail(r, "%zu values and %zu marks on the stack at the end, one value is due",
		    r->stack.len, r->num_marks);
	if (r->p != r->end)
		return fail(r, "%zu bytes after the end", (size_t)(r->end - r->p));
	r->out->root = r->stack.v[0];
	r->stopped = true;
	return 0;
}

static int
run_mark(struct reader *r, const struct argument *a)
{
	(void)a;
	if (r->num_marks >= r->limits->depth)
		return fail(r, "more than %llu marks wait on the stack",
		    (unsigned long long)r->limits->depth);
	if (r->num_marks == r->mark_cap) {
		r->mark_cap = 2 * r->mark_cap + 64;
		r->mark = mem_realloc(r->mark, r->mark_cap, sizeof *r->mark);
	}
	r->mark[r->num_marks++] = r->stack.len;
	return 0;
}

/* A value, or the mark when no value lies above it. */
static int
run_pop(struct reader *r, const struct argument *a)
{
	(void)a;
	if (r->num_marks > 0 && r->stack.len == floor_of_stack(r)) {
		r->num_marks--;
		return 0;
	}
	return take(r, 1) ? 0 : -1;
}

static int
run_pop_mark(struct reader *r, const struct argument *a)
{
	size_t n;

	(void)a;
	return take_marked(r, &n) ? 0 : -1;
}

/* None, True, False and the empty tuple exist once. */
static int
run_constant(struct reader *r, const struct argument *a)
{
	struct pickle *p = r->out;

	return push(r,
	    a->type == PICKLE_NONE             ? &p->none
		: a->type == PICKLE_TUPLE      ? &p->empty
		: a->op == (unsigned char)0x88 ? &p->yes
					       : &p->no);
}

static int
push_int(struct reader *r, int64_t x)
{
	struct pickle_value *v = new_value(r, PICKLE_INT);

	if (v)
		v->integer = x;
	return push(r, v);
}

/* BININT, of four bytes, has a sign; the shorter ones have none. */
static int
run_int(struct reader *r, const struct argument *a)
{
	return push_int(r, a->op == 'J' ? (int32_t)(uint32_t)a->number : (int64_t)a->number);
}

static int
push_text(struct reader *r, enum pickle_type type, const char *bytes, size_t len)
{
	struct pickle_value *v = new_value(r, type);

	if (v) {
		v->text = mem_pool_strndup(&r->out->pool, bytes, len);
		v->len = (uint32_t)len;
	}
	return push(r, v);
}

static int
run_text(struct reader *r, const struct argument *a)
{
	return push_text(r, a->type, a->bytes, a->len);
}

/* Two's complement of any length, little-endian; no bytes are 0. */
static int
run_long(struct reader *r, const struct argument *a)
{
	uint64_t x = a->len && a->bytes[a->len - 1] & 0x80 ? UINT64_MAX : 0;

	if (a->len > sizeof x)
		return push_text(r, PICKLE_BIG_INT, a->bytes, a->len);
	for (size_t i = a->len; i-- > 0;)
		x = x << 8 | (unsigned char)a->bytes[i];
	return push_int(r, (int64_t)x);
}

/* A line of digits: how protocol 1 writes what does not fit four bytes, and, as 00 and 01, False
 * and True. */
static int
run_decimal(struct reader *r, const struct argument *a)
{
	char text[32], *end;
	size_t n = a->len;
	long long x;

	if (a->op == 'I' && n == 2 && a->bytes[0] == '0' && (a->bytes[1] | 1) == '1')
		return push(r, a->bytes[1] == '1' ? &r->out->yes : &r->out->no);
	if (a->op == 'L' && n > 0 && a->bytes[n - 1] == 'L')
		n--;
	snprintf(text, sizeof text, "%.*s", n < sizeof text ? (int)n : 0, a->bytes);
	x = strtoll(text, &end, 10);
	if (end == text || *end || (size_t)(end - text) != n || x == INT64_MIN || x == INT64_MAX)
		return fail(
		    r, "'%.*s' is not an integer of 64 bits", n < 40 ? (int)n : 40, a->bytes);
	return push_int(r, x);
}

/* Big-endian, alone among the numbers. */
static int
run_float(struct reader *r, const struct argument *a)
{
	struct pickle_value *v = new_value(r, PICKLE_FLOAT);
	uint64_t bits = __builtin_bswap64(a->number);

	if (v)
		memcpy(&v->number, &bits, sizeof bits);
	return push(r, v);
}

static int
run_empty(struct reader *r, const struct argument *a)
{
	return push(r, new_value(r, a->type));
}

/* A tuple or frozen set of values that lay on the stack. */
static int
push_sequence(struct reader *r, enum pickle_type type, struct pickle_value *const *from, size_t n)
{
	struct pickle_value *v = new_value(r, type);

	if (v) {
		v->item = mem_pool_alloc(&r->out->pool, n, sizeof *v->item);
		for (size_t i = 0; i < n; i++)
			v->item[i] = from[i];
		v->len = (uint32_t)n;
		v->boolean = true;
	}
	return push(r, v);
}

static int
run_sequence(struct reader *r, const struct argument *a)
{
	size_t n = 0;
	struct pickle_value **from = take_marked(r, &n);

	return from ? push_sequence(r, a->type, from, n) : -1;
}

/* TUPLE1, TUPLE2 and TUPLE3 have neighbouring codes. */
static int
run_short_tuple(struct reader *r, const struct argument *a)
{
	size_t n = (size_t)a->op - 0x84;
	struct pickle_value **from = take(r, n);

	return from ? push_sequence(r, PICKLE_TUPLE, from, n) : -1;
}

/* Room for n more entries of an array that has len; its room is always the power of two from
 * len on. */
static void *
more(struct reader *r, void *old, size_t len, size_t n, size_t size)
{
	size_t cap = len > 0 ? 1 : 0, want = 1;
	void *p;

	while (cap < len)
		cap *= 2;
	while (want < len + n)
		want *= 2;
	if (want <= cap || n == 0)
		return old;
	p = mem_pool_alloc(&r->out->pool, want, size);
	return len ? memcpy(p, old, len * size) : p;
}

static int
add_items(struct reader *r, struct pickle_value *to, struct pickle_value *const *from, size_t n)
{
	if (to->type == PICKLE_OBJECT)
		return 0;
	if (to->type != PICKLE_LIST && (to->type != PICKLE_SET || to->boolean))
		return fail(r, "items are added to what is neither list nor set");
	to->item = more(r, to->item, to->len, n, sizeof *to->item);
	for (size_t i = 0; i < n; i++)
		to->item[to->len++] = from[i];
	return 0;
}

/* from: key, value, key, value. */
static int
add_pairs(struct reader *r, struct pickle_value *to, struct pickle_value *const *from, size_t n)
{
	if (n % 2 != 0)
		return fail(r, "a key without a value");
	if (to->type == PICKLE_OBJECT)
		return 0;
	if (to->type != PICKLE_DICT)
		return fail(r, "a key is set in what is not a dict");
	to->pair = more(r, to->pair, to->len, n / 2, sizeof *to->pair);
	for (size_t i = 0; i < n; i += 2) {
		if (from[i]->type == PICKLE_LIST || from[i]->type == PICKLE_DICT)
			return fail(r, "a list or dict as a key");
		to->pair[to->len++] = (struct pickle_pair){ from[i], from[i + 1] };
	}
	return 0;
}

/* Runs one of the two on the value under those that are added, which stays on the stack. */
static int
add(struct reader *r, struct pickle_value **from, size_t n,
    int (*one)(struct reader *, struct pickle_value *, struct pickle_value *const *, size_t))
{
	if (!from)
		return -1;
	if (r->stack.len == floor_of_stack(r))
		return fail(r, "nothing on the stack to add to");
	return one(r, from[-1], from, n);
}

static int
run_append(struct reader *r, const struct argument *a)
{
	(void)a;
	return add(r, take(r, 1), 1, add_items);
}

static int
run_appends(struct reader *r, const struct argument *a)
{
	size_t n = 0;
	struct pickle_value **from = take_marked(r, &n);

	(void)a;
	return add(r, from, n, add_items);
}

static int
run_set_item(struct reader *r, const struct argument *a)
{
	(void)a;
	return add(r, take(r, 2), 2, add_pairs);
}

static int
run_set_items(struct reader *r, const struct argument *a)
{
	size_t n = 0;
	struct pickle_value **from = take_marked(r, &n);

	(void)a;
	return add(r, from, n, add_pairs);
}

/* No pickler writes an index beyond the bytes that were read, and it would take memory. */
static int
run_put(struct reader *r, const struct argument *a)
{
	size_t i = a->op == 0x94 ? r->memo.len : (size_t)a->number;

	if (i >= r->limits->memo || i >= (size_t)(r->p - r->begin))
		return fail(r, "index %zu of the memo is too large", i);
	if (r->stack.len == floor_of_stack(r))
		return fail(r, "nothing on the stack to remember");
	values_grow(&r->memo, i + 1);
	r->memo.v[i] = r->stack.v[r->stack.len - 1];
	if (r->memo.len <= i)
		r->memo.len = i + 1;
	return 0;
}

static int
run_get(struct reader *r, const struct argument *a)
{
	if (a->number >= r->memo.len || !r->memo.v[a->number])
		return fail(r, "the memo has no entry %llu", (unsigned long long)a->number);
	return push(r, r->memo.v[a->number]);
}

/* "module.name" of two texts. */
static int
push_global(struct reader *r, const char *const part[2], const size_t len[2])
{
	struct pickle_value *v = new_value(r, PICKLE_GLOBAL);
	char *text;

	if (!v)
		return -1;
	text = mem_pool_alloc(&r->out->pool, len[0] + len[1] + 2, 1);
	memcpy(text, part[0], len[0]);
	text[len[0]] = '.';
	memcpy(text + len[0] + 1, part[1], len[1]);
	v->text = text;
	v->len = (uint32_t)(len[0] + 1 + len[1]);
	return push(r, v);
}

static int
run_global(struct reader *r, const struct argument *a)
{
	const char *second = memchr(a->bytes, '\n', a->len);
	size_t first = (size_t)(second - a->bytes);

	return push_global(r, (const char *const[]){ a->bytes, second + 1 },
	    (const size_t[]){ first, a->len - first - 1 });
}

static int
run_stack_global(struct reader *r, const struct argument *a)
{
	struct pickle_value **v = take(r, 2);

	(void)a;
	if (!v)
		return -1;
	if (v[0]->type != PICKLE_STRING || v[1]->type != PICKLE_STRING)
		return fail(r, "the name of a global is not a string");
	return push_global(r, (const char *const[]){ v[0]->text, v[1]->text },
	    (const size_t[]){ v[0]->len, v[1]->len });
}

/* Calls that give plain values: of nothing, or of a list or tuple. */
static const struct {
	const char *global;
	enum pickle_type type;
} plain[] = {
	{ "collections.OrderedDict", PICKLE_DICT },
	{ "collections.defaultdict", PICKLE_DICT },
	{ "builtins.set", PICKLE_SET },
	{ "__builtin__.set", PICKLE_SET },
	{ "builtins.frozenset", PICKLE_SET },
	{ "__builtin__.frozenset", PICKLE_SET },
	{ "torch.Size", PICKLE_TUPLE },
};

/* Makes v the plain value of a call when it is one of the table. Items stay where they are, hence
 * such a set takes no more of them. */
static bool
make_plain(struct pickle_value *v, const struct pickle_value *of, const struct pickle_value *args)
{
	const struct pickle_value *from = args->len == 1 ? args->item[0] : args;
	bool items = from->type == PICKLE_LIST || from->type == PICKLE_TUPLE;

	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
		if (!pickle_is(of, plain[i].global))
			continue;
		if (plain[i].type == PICKLE_DICT ? items && from->len > 0 : !items)
			return false;
		v->type = plain[i].type;
		if (plain[i].type == PICKLE_DICT)
			return true;
		v->item = from->item;
		v->len = from->len;
		v->boolean = true;
		return true;
	}
	return false;
}

/* A call: REDUCE and NEWOBJ of a function or class and its arguments, NEWOBJ_EX of keywords after
 * them, which are dropped. */
static int
run_call(struct reader *r, const struct argument *a)
{
	struct pickle_value **from = take(r, a->op == 0x92 ? 3 : 2), *v;
	struct pickle_object *o;

	if (!from)
		return -1;
	if (from[1]->type != PICKLE_TUPLE)
		return fail(r, "the arguments of a call are not a tuple");
	v = new_value(r, PICKLE_OBJECT);
	if (v && !make_plain(v, from[0], from[1])) {
		o = mem_pool_alloc(&r->out->pool, 1, sizeof *o);
		*o = (struct pickle_object){ .of = from[0], .args = from[1] };
		v->object = o;
	}
	return push(r, v);
}

/* The state of an object. A dict's is what torch hangs on it (_metadata), and is dropped. */
static int
run_build(struct reader *r, const struct argument *a)
{
	struct pickle_value **from = take(r, 2);

	(void)a;
	if (!from)
		return -1;
	if (from[0]->type == PICKLE_OBJECT)
		from[0]->object->state = from[1];
	r->stack.len++;
	return 0;
}

static int
run_persistent(struct reader *r, const struct argument *a)
{
	struct pickle_value **from = take(r, 1), *v;

	(void)a;
	if (!from || !(v = new_value(r, PICKLE_PERSISTENT)))
		return -1;
	v->id = from[0];
	return push(r, v);
}

static const struct opcode opcodes[256] = {
	['('] = { FORM_NONE, .run = run_mark },
	['.'] = { FORM_NONE, .run = run_stop },
	['0'] = { FORM_NONE, .run = run_pop },
	['1'] = { FORM_NONE, .run = run_pop_mark },
	['N'] = { FORM_NONE, 0, PICKLE_NONE, run_constant },
	[0x88] = { FORM_NONE, 0, PICKLE_BOOL, run_constant },
	[0x89] = { FORM_NONE, 0, PICKLE_BOOL, run_constant },
	[')'] = { FORM_NONE, 0, PICKLE_TUPLE, run_constant },
	['J'] = { FORM_NUMBER, 4, PICKLE_INT, run_int },
	['K'] = { FORM_NUMBER, 1, PICKLE_INT, run_int },
	['M'] = { FORM_NUMBER, 2, PICKLE_INT, run_int },
	['I'] = { FORM_LINES, 1, PICKLE_INT, run_decimal },
	['L'] = { FORM_LINES, 1, PICKLE_INT, run_decimal },
	[0x8a] = { FORM_BYTES, 1, PICKLE_INT, run_long },
	[0x8b] = { FORM_BYTES, 4, PICKLE_INT, run_long },
	['G'] = { FORM_NUMBER, 8, PICKLE_FLOAT, run_float },
	['U'] = { FORM_BYTES, 1, PICKLE_STRING, run_text },
	['T'] = { FORM_BYTES, 4, PICKLE_STRING, run_text },
	['X'] = { FORM_BYTES, 4, PICKLE_STRING, run_text },
	[0x8c] = { FORM_BYTES, 1, PICKLE_STRING, run_text },
	[0x8d] = { FORM_BYTES, 8, PICKLE_STRING, run_text },
	['C'] = { FORM_BYTES, 1, PICKLE_BYTES, run_text },
	['B'] = { FORM_BYTES, 4, PICKLE_BYTES, run_text },
	[0x8e] = { FORM_BYTES, 8, PICKLE_BYTES, run_text },
	[0x96] = { FORM_BYTES, 8, PICKLE_BYTES, run_text },
	[']'] = { FORM_NONE, 0, PICKLE_LIST, run_empty },
	['}'] = { FORM_NONE, 0, PICKLE_DICT, run_empty },
	[0x8f] = { FORM_NONE, 0, PICKLE_SET, run_empty },
	['t'] = { FORM_NONE, 0, PICKLE_TUPLE, run_sequence },
	[0x91] = { FORM_NONE, 0, PICKLE_SET, run_sequence },
	[0x85] = { FORM_NONE, .run = run_short_tuple },
	[0x86] = { FORM_NONE, .run = run_short_tuple },
	[0x87] = { FORM_NONE, .run = run_short_tuple },
	['a'] = { FORM_NONE, .run = run_append },
	['e'] = { FORM_NONE, .run = run_appends },
	[0x90] = { FORM_NONE, .run = run_appends },
	['s'] = { FORM_NONE, .run = run_set_item },
	['u'] = { FORM_NONE, .run = run_set_items },
	['q'] = { FORM_NUMBER, 1, .run = run_put },
	['r'] = { FORM_NUMBER, 4, .run = run_put },
	[0x94] = { FORM_NONE, .run = run_put },
	['h'] = { FORM_NUMBER, 1, .run = run_get },
	['j'] = { FORM_NUMBER, 4, .run = run_get },
	['c'] = { FORM_LINES, 2, .run = run_global },
	[0x93] = { FORM_NONE, .run = run_stack_global },
	['R'] = { FORM_NONE, .run = run_call },
	[0x81] = { FORM_NONE, .run = run_call },
	[0x92] = { FORM_NONE, .run = run_call },
	['b'] = { FORM_NONE, .run = run_build },
	['Q'] = { FORM_NONE, .run = run_persistent },
	[0x80] = { FORM_NUMBER, 1, .run = run_protocol },
	[0x95] = { FORM_NUMBER, 8, .run = run_frame },
};

/* Some lines; the newline of the last is not part of them. */
static int
read_lines(struct reader *r, size_t count, struct argument *a)
{
	const unsigned char *end = NULL, *from = r->p;

	for (; count > 0; count--, from = end + 1) {
		end = memchr(from, '\n', (size_t)(r->end - from));
		if (!end)
			return fail(r, "the input ends inside a line");
	}
	a->bytes = (const char *)r->p;
	a->len = (size_t)(end - r->p);
	r->p = from;
	return 0;
}

/* Numbers are little-endian. */
static int
read_argument(struct reader *r, const struct opcode *row, struct argument *a)
{
	if (row->form == FORM_LINES)
		return read_lines(r, row->width, a);
	if (row->form == FORM_NONE)
		return 0;
	if ((size_t)(r->end - r->p) < row->width)
		return fail(r, "the input ends inside an opcode");
	for (size_t i = row->width; i-- > 0;)
		a->number = a->number << 8 | r->p[i];
	r->p += row->width;
	if (row->form == FORM_NUMBER)
		return 0;
	if (a->number > (uint64_t)(r->end - r->p))
		return fail(
		    r, "a text of %llu bytes reaches past the end", (unsigned long long)a->number);
	a->bytes = (const char *)r->p;
	a->len = (size_t)a->number;
	r->p += a->len;
	return 0;
}

/* Runs one opcode. */
static int
step(struct reader *r)
{
	struct argument a = { 0 };
	const struct opcode *row;

	r->at = (size_t)(r->p - r->begin);
	if (r->p == r->end)
		return fail(r, "the input ends without an end of the pickle");
	a.op = *r->p++;
	row = &opcodes[a.op];
	a.type = row->type;
	if (row->form == FORM_UNKNOWN)
		return fail(r, "opcode 0x%02x is not read", a.op);
	return read_argument(r, row, &a) < 0 ? -1 : row->run(r, &a);
}

int
pickle_read(
    const void *p, size_t n, const struct pickle_limits *limits, struct pickle **out, struct err *e)
{
	struct reader r = { .limits = limits, .begin = p, .p = p, .e = e };
	int rc = 0;

	*out = NULL;
	if (n > limits->bytes || n > UINT32_MAX)
		return err_set(e, "a pickle of %zu bytes, at most %llu are read", n,
		    (unsigned long long)limits->bytes);
	r.end = r.begin + n;
	r.out = mem_zalloc(1, sizeof *r.out);
	r.out->yes = (struct pickle_value){ .type = PICKLE_BOOL, .boolean = true };
	r.out->no = (struct pickle_value){ .type = PICKLE_BOOL };
	r.out->empty = (struct pickle_value){ .type = PICKLE_TUPLE };
	values_grow(&r.stack, 1); /* so that its first place is never NULL */
	while (rc == 0 && !r.stopped)
		rc = step(&r);
	free(r.stack.v);
	free(r.memo.v);
	free(r.mark);
	if (rc < 0)
		pickle_free(r.out);
	else
		*out = r.out;
	return rc;
}

/* p may be NULL. */
void
pickle_free(struct pickle *p)
{
	if (p)
		mem_pool_release(&p->pool);
	free(p);
}

const struct pickle_value *
pickle_root(const struct pickle *p)
{
	return p->root;
}
