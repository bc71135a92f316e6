/* pattern.c - patterns of layers: both forms of Megatron-LM, the shortest that repeats, refusals */
#include "lib/model/config.h"
#include "tests/check.h"

#include <string.h>

/* Reads s for so many layers, prints it, reads that again. */
static struct layer_pattern
pattern_as(const struct pattern_form *form, const char *s, int64_t layers, const char *printed)
{
	struct layer_pattern p = { 0 }, again = { 0 };
	struct str out = { 0 };
	struct err e = { "" };

	CHECK(pattern_read(s, layers, form, &p, &e) == 0);
	CHECK_STR(e.msg, "");
	pattern_print(&p, layers, form, &out);
	CHECK_STR(out.buf ? out.buf : "", printed);
	if (out.buf)
		CHECK(pattern_read(out.buf, layers, form, &again, &e) == 0 &&
		    !memcmp(&p, &again, sizeof p));
	str_release(&out);
	return p;
}

static struct layer_pattern
pattern(const char *s, int64_t layers, const char *printed)
{
	return pattern_as(&pattern_attention, s, layers, printed);
}

/* Layers count from 0 here and from 1 in Megatron-LM. A list may end within a turn. */
static void
test_forms(void)
{
	static const char six[] = "111110111110";
	struct layer_pattern p = pattern("6", 12, "6"),
			     q = pattern(" ( [1] * 5 + [0]*1 ) * 4 + [1,1]", 26, "6");

	CHECK(!memcmp(&p, &q, sizeof p));
	for (int i = 0; i < 12; i++)
		CHECK(pattern_skips(&p, i) == (six[i] == '0'));
	CHECK(pattern_count(&p, 12) == 2 && pattern_count(&p, 5) == 0);
	p = pattern("[0,1,1]+[1,1]", 5, "[0,1,1,1,1]");
	CHECK(pattern_skips(&p, 0) && pattern_count(&p, 5) == 1);
	pattern("[1]*128", 128, "");
	pattern("[0]*7", 7, "1");
	pattern("[1]*0+[0,1]*2*2", 8, "[0,1,0,1,0,1,0,1]");
	pattern("128", 4, "128");
	p = pattern("100", 4, "100");
	CHECK(pattern_skips(&p, 99) && pattern_count(&p, 300) == 3);
	CHECK(pattern_count(&p, 299) == 2 && pattern_count(&p, -1) == 0);
	/* as many as a file may claim */
	CHECK(pattern_count(&p, INT64_MAX) == INT64_MAX / 100);
}

/* A number says which layers are not skipped, the first among them. */
static void
test_but_every(void)
{
	static const char six[] = "011111011111";
	struct layer_pattern p = pattern_as(&pattern_experts, "6", 12, "6");

	for (int i = 0; i < 12; i++)
		CHECK(pattern_skips(&p, i) == (six[i] == '1'));
	pattern_as(&pattern_experts, "1", 4, "");
	pattern_as(&pattern_experts, "[1,0]*2", 4, "2");
	pattern_as(&pattern_experts, "[0,1]*2", 4, "[0,1,0,1]");
}

/* In a list of layers that do not rotate these are 1. */
static void
test_no_rope(void)
{
	struct layer_pattern p = pattern_as(&pattern_no_rope, "4", 8, "4");

	CHECK(pattern_skips(&p, 3) && pattern_skips(&p, 7) && pattern_count(&p, 8) == 2);
	pattern_as(&pattern_no_rope, "([0]*3+[1])*2", 8, "4");
	p = pattern_as(&pattern_no_rope, "[1,0,0]", 3, "[1,0,0]");
	CHECK(pattern_skips(&p, 0) && pattern_count(&p, 3) == 1);
	pattern_as(&pattern_no_rope, "[0]*5", 5, "");
}

static void
test_refusals(void)
{
	static const char *const bad[] = { "", "0", "129", "-1", "2 x", "[", "[]", "[2]", "[1,]",
		"[1]*", "[1]*129", "([1]", "[1]]", "[1]+", "[1]*-1", "[1]*0",
		"(((((((((([1]))))))))))", "([1]*100+[0])*2", "99999999999999999999",
		"[1]*99999999999999999999" };
	struct layer_pattern p;
	struct err e;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(pattern_read(bad[i], 4, &pattern_attention, &p, &e) == -1);
		CHECK_STR(
		    e.msg, "must be from 1 to 128, or a list of at most 128 such as ([1]*5+[0])*8");
	}
	CHECK(pattern_read("[1,0]*2", 3, &pattern_attention, &p, &e) == -1);
	CHECK_STR(e.msg, "has 4 entries: must have one for each of 3 layers");
}

/* Layers with a window have their own angles, where there are such. */
static void
test_layers(void)
{
	struct model_config c = { .num_layers = 3,
		.position = POSITION_ROPE,
		.window_size = 9,
		.window_attn_skip_freq = pattern_every(2) };

	CHECK(layer_window(&c, 0) == 9 && layer_window(&c, 1) == 0 && layer_window(&c, 2) == 9);
	CHECK(layer_rope_table(&c, 0) == ROPE_TABLE_MODEL);
	c.sliding_window_rope_base = 100;
	CHECK(layer_rope_table(&c, 0) == ROPE_TABLE_WINDOW);
	CHECK(layer_rope_table(&c, 1) == ROPE_TABLE_MODEL);
	c.window_size = 0;
	CHECK(layer_rope_table(&c, 0) == ROPE_TABLE_MODEL);
	c.no_rope_freq = pattern_every(2);
	CHECK(layer_rope_table(&c, 0) == ROPE_TABLE_MODEL);
	CHECK(layer_rope_table(&c, 1) == ROPE_TABLE_NONE);
}

/* All but every Nth layer have linear attention. */
static void
test_linear(void)
{
	struct model_config c = { .num_layers = 8,
		.linear_attention_freq = pattern_as(&pattern_linear, "([1]*3+[0])*2", 8, "4") };

	CHECK(layer_is_linear(&c, 0) && layer_is_linear(&c, 2) && !layer_is_linear(&c, 3));
	CHECK(model_has_linear(&c) && model_softmax_layers(&c) == 2);
	c.linear_attention_freq = pattern_as(&pattern_linear, "1", 8, "");
	CHECK(!model_has_linear(&c) && model_softmax_layers(&c) == 8);
	pattern_as(&pattern_linear, "[1,1,1]", 3, "[1,1,1]");
}

int
main(void)
{
	test_forms();
	test_but_every();
	test_no_rope();
	test_linear();
	test_refusals();
	test_layers();
	return check_done();
}
