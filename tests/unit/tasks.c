/* tasks.c - lines of tasks: what they hold, what is wrong with one, what answers make of them */
#include "lib/base/utf8.h"
#include "lib/data/task_scores.h"
#include "tests/check.h"

#include <math.h>
#include <stdlib.h>

#define CHOICES(gold) \
	"{\"task\": \"c\", \"id\": \"x\", \"type\": \"multiple_choice\", \"context\": \"q \", " \
	"\"continuations\": [\" ab\", \" cdef\", \" \\u65e5\"], \"choices\": [\"ab\", \"cdef\", " \
	"\"\\u65e5\"], \"gold\": " gold "}\n"
#define PAIR(id) \
	"{\"task\": \"l\", \"id\": " id ", \"type\": \"loglikelihood\", \"context\": \"\", " \
	"\"continuation\": \"y\"}\n"
#define ROLLING(more) \
	"{\"task\": \"r\", \"id\": 9, \"type\": \"loglikelihood_rolling\", " more "}\n"

static const char all[] = CHOICES("1") PAIR("1") CHOICES("[0, 2]") "\n" PAIR("2") ROLLING(
    "\"text\": \" a\\u3000\\u001cb \"") ROLLING("\"text\": \"\", \"bytes\": 4, \"words\": 2");

static void
test_lines(void)
{
	struct tasks t = { 0 };
	struct err e;

	CHECK(tasks_add(&t, "f", all, sizeof all - 1, &e) == 0);
	CHECK(t.count == 6 && t.num_tasks == 3 && t.num_pairs == 10);
	CHECK(t.item[2].task == 0 && t.item[2].first_pair == 4 && t.item[2].num_gold == 2);
	CHECK(t.item[3].task == 1 && t.item[3].line == 5 && !strcmp(t.item[3].id, "2"));
	CHECK(t.item[0].pair[1].context.len == 2 && t.item[0].choice[2].len == 3);
	CHECK(t.item[4].words == 4 && t.item[4].bytes == 8);
	CHECK(
	    t.item[5].words == 2 && t.item[5].bytes == 4 && t.item[5].pair->continuation.len == 0);
	tasks_release(&t);
}

static void
test_wrong(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ "{", "not valid JSON: " },
		{ "[]", "must be an object" },
		{ "{}", "task: must be a string" },
		{ "{\"task\": \"a b\"}", "task: must be a word without blanks" },
		{ "{\"task\": \"a\"}", "type: must be a string" },
		{ "{\"task\": \"a\", \"type\": \"loglikelihood\"}",
		    "id: must be a string or a whole number" },
		{ "{\"task\": \"a\", \"id\": 1, \"type\": \"cloze\"}",
		    "type: must be multiple_choice, loglikelihood or loglikelihood_rolling" },
		{ PAIR("1") "{\"task\": \"l\", \"id\": 1, \"type\": \"loglikelihood_rolling\", "
			    "\"text\": \"\"}",
		    "type loglikelihood_rolling: the lines of task l before it have another" },
		{ CHOICES("3"), "gold: must be the number of a choice, from 0 to 2" },
		{ CHOICES("[]"), "gold: must be the number of a choice, or a list of them" },
		{ CHOICES("[1, -1]"), "gold: must be the number of a choice, from 0 to 2" },
		{ CHOICES("0, \"contexts\": [\"a\"]"),
		    "needs one of \"context\" and \"contexts\"" },
		{ CHOICES("0, \"choices\": [\"a\"]"),
		    "choices: 1 strings: must be as many as the 3 continuations" },
		{ CHOICES("0, \"continuations\": []"),
		    "continuations: must be a list of strings, not empty" },
		{ ROLLING("\"text\": \"\", \"bytes\": -1"), "bytes, words: must be at least 0" },
		{ ROLLING("\"text\": \"\", \"byte\": 1"),
		    "'byte': is no member of loglikelihood_rolling: task, id, type, text, bytes, "
		    "words" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tasks t = { 0 };
		char want[256];
		struct err e = { "" };

		CHECK(tasks_add(&t, "f", cases[i].text, strlen(cases[i].text), &e) < 0);
		snprintf(want, sizeof want, "f:%d: %s", cases[i].text[0] == '{' && i == 7 ? 2 : 1,
		    cases[i].why);
		CHECK(!strncmp(e.msg, want, strlen(want)));
		tasks_release(&t);
	}
}

/* Perplexities of a task divide by all bytes and words of its texts. */
static void
test_whole(void)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{ ROLLING("\"text\": \"\"") ROLLING("\"text\": \"a\""), NULL },
		{ PAIR("1") ROLLING("\"text\": \"\""),
		    "task r: its texts have no byte, by which its perplexities are divided" },
		{ ROLLING("\"text\": \"a\", \"words\": 0"),
		    "task r: its texts have no word, by which its perplexities are divided" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tasks t = { 0 };
		struct err e = { "" };

		CHECK(tasks_add(&t, "f", cases[i].text, strlen(cases[i].text), &e) == 0);
		CHECK(tasks_check(&t, &e) == (cases[i].why ? -1 : 0));
		CHECK(!cases[i].why || !strcmp(e.msg, cases[i].why));
		tasks_release(&t);
	}
}

static void
check_score(const struct task_score *s, const char *metric, double value, double error)
{
	CHECK(!strcmp(s->metric, metric));
	CHECK_NEAR(s->value, value, 1e-15);
	CHECK(isnan(error) ? isnan(s->error) : fabs(s->error - error) < 1e-15);
}

/* By hand: of choices of 2, 4 and 1 characters and 2, 4 and 3 bytes the first item chooses 0, 1 and
 * 1 by the three measures, and the other 2 by each. */
static void
test_scores(void)
{
	static const struct task_answer answers[] = { { -2, true }, { -3, false }, { -2.5, true },
		{ -1.5, true }, { -3.5, true }, { -8, true }, { -1, true }, { -0.5, false },
		{ -6, true }, { -2, true } };
	struct tasks t = { 0 };
	struct task_score s[TASK_SCORES_MAX];
	int64_t n;
	struct err e;

	CHECK(tasks_add(&t, "f", all, sizeof all - 1, &e) == 0);
	CHECK(task_chosen(&t.item[0], answers) == 0 && task_chosen(&t.item[2], answers) == 2);
	CHECK(task_scores(&t, 0, answers, s, &n) == 3 && n == 2);
	check_score(&s[0], "acc", 0.5, 0.5);
	check_score(&s[1], "acc_norm", 1, 0);
	check_score(&s[2], "acc_bytes", 1, 0);
	CHECK(task_scores(&t, 1, answers, s, &n) == 2 && n == 2);
	check_score(&s[0], "acc", 0.5, 0.5);
	check_score(&s[1], "perplexity", exp(1), NAN);
	CHECK(task_scores(&t, 2, answers, s, &n) == 3 && n == 2);
	check_score(&s[0], "word_perplexity", exp(8.0 / 6), NAN);
	check_score(&s[1], "byte_perplexity", exp(8.0 / 12), NAN);
	check_score(&s[2], "bits_per_byte", 8.0 / 12 / log(2), NAN);
	tasks_release(&t);
}

/* As many as str.isspace of Python 3 has. */
static void
test_spaces(void)
{
	int count = 0;

	for (uint32_t cp = 0; cp <= 0x10ffff; cp++)
		count += utf8_is_space(cp);
	CHECK(count == 29);
	CHECK(utf8_is_space(0x3000) && utf8_is_space(0x1f) && utf8_is_space(' '));
	CHECK(!utf8_is_space(0x200b) && !utf8_is_space(0xfeff) && !utf8_is_space('!'));
}

int
main(void)
{
	test_lines();
	test_whole();
	test_wrong();
	test_scores();
	test_spaces();
	return check_done();
}
