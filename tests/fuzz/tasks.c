/* tasks.c - fuzz target: any bytes as tasks; what is accepted is whole, and has scores */
#include "lib/data/task_scores.h"
#include "lib/base/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(const struct tasks *t, const struct task_item *item)
{
	enum task_type type = t->task[item->task].type;
	struct err e;
	struct json *id = json_parse(item->id, strlen(item->id), "id", &e);

	if (!id || item->num_pairs < 1 || item->first_pair + item->num_pairs > t->num_pairs)
		abort();
	json_free(id);
	if ((type == TASK_MULTIPLE_CHOICE) != (item->choice && item->num_gold > 0))
		abort();
	for (int64_t i = 0; i < item->num_gold; i++)
		if (item->gold[i] < 0 || item->gold[i] >= item->num_pairs)
			abort();
	if (item->bytes < 0 || item->words < 0)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tasks t = { 0 };
	struct task_answer *answers;
	struct err e;
	int rc = tasks_add(&t, "tasks", (const char *)data, size, &e);

	answers = mem_zalloc((size_t)t.num_pairs + 1, sizeof *answers);
	for (int64_t i = 0; rc == 0 && i < t.count; i++)
		check(&t, &t.item[i]);
	for (int k = 0; rc == 0 && k < t.num_tasks; k++) {
		struct task_score score[TASK_SCORES_MAX];
		int64_t samples;
		int n = task_scores(&t, k, answers, score, &samples);

		if (n < 1 || n > TASK_SCORES_MAX || samples < 1)
			abort();
	}
	free(answers);
	tasks_release(&t);
	return 0;
}
