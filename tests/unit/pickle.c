/* pickle.c - tests of lib/ckpt/pickle: every opcode, what breaks, bounds of memory */
#include "lib/base/io.h"
#include "lib/ckpt/pickle.h"
#include "tests/check.h"
#include "tests/memory_limit.h"

#define CORPUS "tests/fuzz/corpus/pickle/"

enum { DEPTH = 20 };

static void put(const struct pickle_value *v, int depth, struct str *out);

static void
put_items(const struct pickle_value *v, int depth, struct str *out)
{
	for (uint32_t i = 0; i < v->len; i++) {
		str_adds(out, i ? ", " : "");
		if (v->type == PICKLE_DICT) {
			put(v->pair[i].key, depth + 1, out);
			str_adds(out, ": ");
			put(v->pair[i].value, depth + 1, out);
		} else {
			put(v->item[i], depth + 1, out);
		}
	}
}

/* The whole value, near to how Python prints it; class(arguments)=state of an object. */
static void
put(const struct pickle_value *v, int depth, struct str *out)
{
	static const char *const ends[] = { [PICKLE_LIST] = "[]",
		[PICKLE_TUPLE] = "()",
		[PICKLE_DICT] = "{}",
		[PICKLE_SET] = "<>" };

	if (depth > DEPTH) {
		str_adds(out, "...");
	} else if (v->type == PICKLE_BIG_INT || v->type == PICKLE_BYTES) {
		for (uint32_t i = 0; i < v->len; i++)
			str_addf(out, "%02x", (unsigned char)v->text[i]);
	} else if (v->type == PICKLE_PERSISTENT) {
		str_adds(out, "@");
		put(v->id, depth + 1, out);
	} else if (v->type == PICKLE_OBJECT) {
		put(v->object->of, depth + 1, out);
		put(v->object->args, depth + 1, out);
		if (v->object->state) {
			str_adds(out, "=");
			put(v->object->state, depth + 1, out);
		}
	} else if (v->type < PICKLE_LIST || v->type > PICKLE_DICT) {
		pickle_print(v, out);
	} else {
		str_addc(out, ends[v->type][0]);
		put_items(v, depth, out);
		str_addc(out, ends[v->type][1]);
	}
}

/* The text of a pickle, or the reason why it is not read. */
static void
expect(const char *bytes, size_t n, const char *want)
{
	struct pickle *p;
	struct err e = { "" };
	struct str text = { 0 };

	if (pickle_read(bytes, n, &pickle_limits_torch, &p, &e) < 0) {
		CHECK_STR(e.msg, want);
		return;
	}
	put(pickle_root(p), 0, &text);
	CHECK_STR(text.buf, want);
	str_release(&text);
	pickle_free(p);
}

#define P(bytes, want) \
	{ \
		bytes, sizeof bytes - 1, want \
	}
static const struct {
	const char *bytes;
	size_t len;
	const char *want;
} cases[] = {
	P("N.", "None"),
	P("\x80\x02(N\x88\x89)t.", "(None, True, False, ())"),
	P("\x80\x02(I00\nI01\nI-7\nI1\nL12345678901L\nL5\nt.",
	    "(False, True, -7, 1, 12345678901, 5)"),
	P("(K\xffM\xff\xffJ\xff\xff\xff\xffJ\xff\xff\xff\x7ft.", "(255, 65535, -1, 2147483647)"),
	P("(\x8a\x00\x8a\x01\x80\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80\x8b\x02\x00\x00\x00\xff"
	  "\x00"
	  "t.",
	    "(0, -128, -9223372036854775808, 255)"),
	P("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "000000000000000001"),
	P("(G\x3f\xf8\x00\x00\x00\x00\x00\x00G\x7f\xf0\x00\x00\x00\x00\x00\x00t.", "(1.5, inf)"),
	P("(U\x01"
	  "aT\x01\x00\x00\x00"
	  "bX\x02\x00\x00\x00\xc3\xa9\x8c\x00\x8d\x01\x00\x00\x00\x00\x00\x00\x00"
	  "ct.",
	    "('a', 'b', '\xc3\xa9', '', 'c')"),
	P("(C\x02\x00\x01"
	  "B\x01\x00\x00\x00\x02\x8e\x01\x00\x00\x00\x00\x00\x00\x00\x03\x96\x01\x00\x00\x00\x00"
	  "\x00\x00\x00\x04t.",
	    "(0001, 02, 03, 04)"),
	P("](]K\x01"
	  "a](K\x01K\x02K\x03"
	  "ee.",
	    "[[1], [1, 2, 3]]"),
	P("}(K\x01K\x02K\x01K\x03uNN\x86K\x04s.", "{1: 2, 1: 3, (None, None): 4}"),
	P("(K\x01\x85K\x01K\x02\x86K\x01K\x02K\x03\x87(K\x01K\x02K\x03K\x04tt.",
	    "((1), (1, 2), (1, 2, 3), (1, 2, 3, 4))"),
	P("(\x8f(K\x01K\x02\x90(K\x03\x91t.", "(<1, 2>, <3>)"),
	P("K\x01K\x02"
	  "0(K\x03"
	  "1(0.",
	    "1"),
	P("]q\x00h\x03.", "byte 3 of the pickle: the memo has no entry 3"),
	P("K\x05\x94K\x06\x94(h\x00h\x01t\x94"
	  "1"
	  "1.",
	    "byte 13 of the pickle: no mark on the stack"),
	P("(K\x05\x94K\x06\x94h\x00h\x01(tt.", "(5, 6, 5, 6, ())"),
	P("K\x01q\x02(h\x02K\x01r\x03\x00\x00\x00j\x03\x00\x00\x00t\x86.", "(1, (1, 1, 1))"),
	P("cargparse\nNamespace\n)\x81}X\x01\x00\x00\x00"
	  "aK\x01sb.",
	    "argparse.Namespace()={'a': 1}"),
	P("\x8c\x02"
	  "a.\x8c\x01"
	  "b\x93)R.",
	    "a..b()"),
	P("cbuiltins\nexec\nX\x02\x00\x00\x00hi\x85R.", "builtins.exec('hi')"),
	P("ca\nB\n)}\x92.", "a.B()"),
	P("ca\nB\n)R](K\x01K\x02"
	  "e0K\x01"
	  "a.",
	    "a.B()"),
	P("ccollections\nOrderedDict\n)R(K\x01K\x02u}K\x03K\x04sb.", "{1: 2}"),
	P("ccollections\nOrderedDict\n]N\x85"
	  "a\x85R.",
	    "collections.OrderedDict([(None)])"),
	P("ccollections\ndefaultdict\ncbuiltins\nlist\n\x85RK\x01Ns.", "{1: None}"),
	P("(c__builtin__\nset\n](K\x01K\x02"
	  "e\x85Rctorch\nSize\n(K\x04K\x05t\x85Rctorch\nSize\n)R\x87"
	  ".",
	    "byte 62 of the pickle: 1 values and 1 marks on the stack at the end, one value is "
	    "due"),
	P("c__builtin__\nset\n](K\x01K\x02"
	  "e\x85Rctorch\nSize\n(K\x04K\x05t\x85Rctorch\nSize\n)R\x87.",
	    "(<1, 2>, (4, 5), ())"),
	P("(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00"
	  "0tQ.",
	    "@('storage', torch.FloatStorage, '0')"),
	P("]q\x00h\x00"
	  "a.",
	    "[[[[[[[[[[[[[[[[[[[[[...]]]]]]]]]]]]]]]]]]]]]"),
	/* what breaks */
	P("", "byte 0 of the pickle: the input ends without an end of the pickle"),
	P("\x80\x06N.", "byte 0 of the pickle: protocol 6, at most 5 is read"),
	P("\x80", "byte 0 of the pickle: the input ends inside an opcode"),
	P("X\x05\x00\x00\x00"
	  "abc",
	    "byte 0 of the pickle: a text of 5 bytes reaches past the end"),
	P("X\xff\xff\xff\xff"
	  "abc.",
	    "byte 0 of the pickle: a text of 4294967295 bytes reaches past the end"),
	P("\x8e\xff\xff\xff\xff\xff\xff\xff\xff.",
	    "byte 0 of the pickle: a text of 18446744073709551615 bytes reaches past the end"),
	P("\x95\x02\x00\x00\x00\x00\x00\x00\x00N",
	    "byte 0 of the pickle: a frame of 2 bytes reaches past the end"),
	P("cos\nsystem", "byte 0 of the pickle: the input ends inside a line"),
	P("NN.",
	    "byte 2 of the pickle: 2 values and 0 marks on the stack at the end, one value is "
	    "due"),
	P("N.N", "byte 1 of the pickle: 1 bytes after the end"),
	P(".",
	    "byte 0 of the pickle: 0 values and 0 marks on the stack at the end, one value is due"),
	P("I12x\n.", "byte 0 of the pickle: '12x' is not an integer of 64 bits"),
	P("L99999999999999999999L\n.",
	    "byte 0 of the pickle: '99999999999999999999' is not an integer of 64 bits"),
	P("R",
	    "byte 0 of the pickle: the stack holds fewer than the 2 values that the opcode needs"),
	P("NN(R",
	    "byte 3 of the pickle: the stack holds fewer than the 2 values that the opcode "
	    "needs"),
	P("(a",
	    "byte 1 of the pickle: the stack holds fewer than the 1 values that the opcode needs"),
	P("(Na", "byte 2 of the pickle: nothing on the stack to add to"),
	P("(e", "byte 1 of the pickle: nothing on the stack to add to"),
	P("NNa", "byte 2 of the pickle: items are added to what is neither list nor set"),
	P(")Na", "byte 2 of the pickle: items are added to what is neither list nor set"),
	P("cbuiltins\nset\n)RNa",
	    "byte 17 of the pickle: items are added to what is neither list nor "
	    "set"),
	P("]NNs", "byte 3 of the pickle: a key is set in what is not a dict"),
	P("}(Nu", "byte 3 of the pickle: a key without a value"),
	P("}]Ns", "byte 3 of the pickle: a list or dict as a key"),
	P("t", "byte 0 of the pickle: no mark on the stack"),
	P("NN\x93", "byte 2 of the pickle: the name of a global is not a string"),
	P("ca\nb\nNR", "byte 6 of the pickle: the arguments of a call are not a tuple"),
	P("h\x00", "byte 0 of the pickle: the memo has no entry 0"),
	P("Nq\x09", "byte 1 of the pickle: index 9 of the memo is too large"),
	P("Nr\xff\xff\xff\xff", "byte 1 of the pickle: index 4294967295 of the memo is too large"),
	P("q\x00", "byte 0 of the pickle: nothing on the stack to remember"),
	P("S'a'\n.", "byte 0 of the pickle: opcode 0x53 is not read"),
	P("P1\n.", "byte 0 of the pickle: opcode 0x50 is not read"),
	P("(ios\nsystem\n.", "byte 1 of the pickle: opcode 0x69 is not read"),
};

static void
test_cases(void)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		expect(cases[i].bytes, cases[i].len, cases[i].want);
}

/* One object as Python 3.11 pickled it by each protocol; the first item has 300 strings, which
 * needs long entries of the memo. */
static void
test_protocols(void)
{
	static const char want[] =
	    "[None, True, False, 0, -1, 255, 256, 65535, 65536, -2147483648, 2147483648, "
	    "-9223372036854775808, 000000000000000040, 1e-05, -0.0, '', '\xe6\x97\xa5', [], [1, "
	    "[2]], (), "
	    "(1), (1, 2), (1, 2, 3), (1, 2, 3, 4), {}, {'a': {1: (2)}}, <7>, <8>, {'b': 1, 'c': "
	    "2}, "
	    "argparse.Namespace()={'lr': 0.1, 'layers': [1, 2]}, fractions.Fraction(1, 3), "
	    "datetime.date]";

	for (int protocol = 2; protocol <= 5; protocol++) {
		char path[64], *bytes;
		size_t len;
		struct pickle *p;
		struct err e;
		struct str text = { 0 };

		snprintf(path, sizeof path, CORPUS "protocol%d", protocol);
		CHECK(io_read_file(path, 0, &bytes, &len, &e) == 0);
		CHECK(pickle_read(bytes, len, &pickle_limits_torch, &p, &e) == 0);
		free(bytes);
		CHECK(pickle_item(pickle_root(p), 0)->len == 300);
		CHECK_STR(
		    pickle_string(pickle_item(pickle_item(pickle_root(p), 0), 299)), "name 299");
		put(pickle_item(pickle_root(p), 1), 0, &text);
		CHECK_STR(text.buf, want);
		str_release(&text);
		pickle_free(p);
	}
}

/* Every accessor takes NULL and any other type. */
static void
test_access(void)
{
	static const char bytes[] = "}(X\x01\x00\x00\x00"
				    "aK\x05X\x01\x00\x00\x00"
				    "aK\x06K\x07\x88X\x01\x00\x00\x00"
				    "oca\nB\n)\x81N}X\x01\x00\x00\x00"
				    "sG\x3f\xf8\x00\x00\x00\x00\x00\x00s\x86"
				    "bX\x01\x00\x00\x00"
				    "nX\x03\x00\x00\x00x\x00y"
				    "u.";
	struct pickle *p;
	struct err e;
	const struct pickle_value *root;
	int64_t i = 0;
	double x = 0;

	CHECK(pickle_read(bytes, sizeof bytes - 1, &pickle_limits_torch, &p, &e) == 0);
	root = pickle_root(p);
	CHECK(pickle_int(pickle_get(root, "a"), &i) && i == 6);
	CHECK(pickle_double(pickle_get(root, "a"), &x) && x == 6);
	CHECK(pickle_at(root, 7)->boolean && !pickle_at(root, 8) &&
	    !pickle_int(pickle_at(root, 7), &i));
	CHECK(pickle_double(pickle_get(pickle_get(root, "o"), "s"), &x) && x == 1.5);
	CHECK(pickle_is(pickle_get(root, "o"), "a.B") && !pickle_is(root, "a.B"));
	CHECK(pickle_get(root, "n")->len == 3 && !pickle_string(pickle_get(root, "n")));
	CHECK(!pickle_get(NULL, "a") && !pickle_get(pickle_get(root, "a"), "b"));
	CHECK(!pickle_item(NULL, 0) && !pickle_item(root, 0) && !pickle_at(NULL, 0));
	CHECK(!pickle_int(NULL, &i) && !pickle_double(NULL, &x) && !pickle_string(NULL));
	CHECK(!pickle_is(NULL, "a.B"));
	pickle_free(p);
	pickle_free(NULL);
}

static void
test_print(void)
{
	static const char bytes[] = "(N\x88K\x05](e}\x8f(tB\x03\x00\x00\x00"
				    "abcca\nb\nca\nb\n)R)Q\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00"
				    "\x01)t.";
	struct pickle *p;
	struct err e;
	struct str text = { 0 };

	CHECK(pickle_read(bytes, sizeof bytes - 1, &pickle_limits_torch, &p, &e) == 0);
	for (uint32_t i = 0; i < pickle_root(p)->len; i++) {
		pickle_print(pickle_item(pickle_root(p), i), &text);
		str_adds(&text, "; ");
	}
	pickle_print(NULL, &text);
	CHECK_STR(text.buf,
	    "None; True; 5; a list of 0; a dict of 0; a set of 0; a tuple of 0; 3 bytes; a.b; an "
	    "object of a.b; a storage; an integer of 9 bytes; a tuple of 0; None");
	str_release(&text);
	pickle_free(p);
}

static void
test_limits(void)
{
	static const struct {
		struct pickle_limits l;
		const char *why;
	} limits[] = {
		{ { 3, 99, 99, 99 }, "a pickle of 8 bytes, at most 3 are read" },
		{ { 99, 2, 99, 99 }, "byte 4 of the pickle: more than 2 values" },
		{ { 99, 99, 0, 99 }, "byte 1 of the pickle: index 0 of the memo is too large" },
		{ { 99, 99, 99, 2 }, "byte 4 of the pickle: more than 2 values wait on the stack" },
	};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		struct pickle *p;
		struct err e;

		CHECK(pickle_read("]q\x00]]\x86\x86.", 8, &limits[i].l, &p, &e) < 0 && !p);
		CHECK_STR(e.msg, limits[i].why);
	}
}

/* Fills n bytes with a part that is repeated. */
static void
repeat(char *bytes, size_t n, const char *part, size_t len)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = part[i % len];
}

/* What takes most memory for its bytes: 1 MiB each stays below 64 MiB. A quadratic reader would
 * take terabytes. */
static void
test_memory(void)
{
	enum { BYTES = 1 << 20 };
	static const struct {
		const char *start, *part;
		size_t start_len, len;
	} hogs[] = {
		{ "", "]", 0, 1 },
		{ "", "(", 0, 1 },
		{ "", "]\x94", 0, 2 },
		{ "]", "Na", 1, 2 },
		{ "}", "NNs", 1, 3 },
		{ "ca\nb\n\x94", ")Rh\x00", 6, 4 },
		{ "cbuiltins\nset\n\x94](KKKKKe\x94", "h\x00h\x01\x85R", 23, 6 },
		{ "", "\x8c\x00", 0, 2 },
	};
	char *bytes = malloc(BYTES);

	for (size_t i = 0; i < sizeof hogs / sizeof *hogs; i++) {
		struct pickle *p;
		struct rlimit old;
		struct err e;

		memcpy(bytes, hogs[i].start, hogs[i].start_len);
		repeat(bytes + hogs[i].start_len, BYTES - hogs[i].start_len, hogs[i].part,
		    hogs[i].len);
		old = memory_limit((rlim_t)64 << 20);
		CHECK(pickle_read(bytes, BYTES, &pickle_limits_torch, &p, &e) < 0);
		memory_restore(old);
	}
	free(bytes);
}

int
main(void)
{
	test_cases();
	test_protocols();
	test_access();
	test_print();
	test_limits();
	test_memory();
	return check_done();
}
