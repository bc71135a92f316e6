/*
 * paths.c - lists of corpora: words to prefixes and weights
 *
 * Megatron-LM decides by the number of words whether a list has weights, so that one word too few
 * or too many turns weights into paths without a message. Here a number is never a prefix: a
 * dataset of such a name is written ./NAME.
 */
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/data/paths.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 64 << 20 };

const char *const split_name[SPLIT_COUNT] = { "train", "valid", "test" };

/* True when Python's float() accepts the word: decimal with sign, point, exponent and single
 * underscores between digits, or nan, inf, infinity; strtod alone would also accept hexadecimal. */
static bool
is_number(const char *word, double *value)
{
	struct str digits = { 0 };
	bool named = !strpbrk(word, "0123456789"), ok = *word != '\0';
	char *end;

	for (const char *p = word; *p && ok; p++) {
		if (*p == '_')
			ok = p > word && isdigit((unsigned char)p[-1]) &&
			    isdigit((unsigned char)p[1]);
		else if (named)
			ok = strchr("+-nafitySINFTYA", *p) != NULL;
		else
			ok = strchr("0123456789.eE+-", *p) != NULL;
		if (*p != '_')
			str_addc(&digits, *p);
	}
	if (ok) {
		*value = strtod(digits.buf, &end);
		ok = end != digits.buf && *end == '\0';
	}
	str_release(&digits);
	return ok;
}

/* A copy without the blanks around it; free() it. */
static char *
strip(const char *word)
{
	size_t n;

	while (isspace((unsigned char)*word))
		word++;
	n = strlen(word);
	while (n && isspace((unsigned char)word[n - 1]))
		n--;
	return mem_strndup(word, n);
}

/* Takes the word as the next prefix of the list. */
static int
add_prefix(struct path_list *l, const char *word, const char *name, struct err *e)
{
	double value;

	if (*word == '\0')
		return err_set(e, "%s: an empty word where a prefix is expected", name);
	if (is_number(word, &value))
		return err_set(e,
		    "%s: '%s' is a number where a prefix is expected: a list is PREFIX ... or "
		    "WEIGHT PREFIX ...; write ./%s for a dataset of that name",
		    name, word, word);
	l->prefix[l->count++] = mem_strdup(word);
	return 0;
}

/* Takes the word as the weight of the next prefix. */
static int
add_weight(struct path_list *l, const char *word, const char *name, struct err *e)
{
	double value;

	if (!is_number(word, &value))
		return err_set(e,
		    "%s: '%s' is not a number, but other weights are: either every prefix has a "
		    "weight before it, or none has",
		    name, word);
	if (!isfinite(value) || !(value > 0))
		return err_set(e,
		    "%s: weight %s: must be finite and above 0; leave a corpus out instead", name,
		    word);
	l->weight[l->count] = value;
	return 0;
}

/* Trimmed words are pairs when there are numbers in the places of weights, at 0, 2, 4 ... On
 * failure the list is empty. */
int
path_list_parse(
    int count, const char *const *word, const char *name, struct path_list *out, struct err *e)
{
	char **stripped = mem_zalloc((size_t)count + 1, sizeof *stripped);
	int rc = count ? 0 : err_set(e, "%s: it names no dataset", name);
	bool pairs = false;

	memset(out, 0, sizeof *out);
	for (int i = 0; i < count; i++) {
		double value;

		stripped[i] = strip(word[i]);
		if (count % 2 == 0 && i % 2 == 0 && is_number(stripped[i], &value))
			pairs = true;
	}
	out->prefix = mem_zalloc((size_t)count, sizeof *out->prefix);
	if (pairs)
		out->weight = mem_zalloc((size_t)count / 2, sizeof *out->weight);
	for (int i = 0; i < count && rc == 0; i++)
		rc = pairs && i % 2 == 0 ? add_weight(out, stripped[i], name, e)
					 : add_prefix(out, stripped[i], name, e);
	if (rc < 0)
		path_list_release(out);
	for (int i = 0; i < count; i++)
		free(stripped[i]);
	free(stripped);
	return rc;
}

/* An empty list is allowed. */
void
path_list_release(struct path_list *l)
{
	for (int i = 0; i < l->count; i++)
		free(l->prefix[i]);
	free(l->prefix);
	free(l->weight);
	memset(l, 0, sizeof *l);
}

/* Splits words at blanks, as in a file of arguments. */
static int
parse_text(const char *text, const char *name, struct path_list *out, struct err *e)
{
	char *copy = mem_strdup(text), *save = NULL;
	const char **word = NULL;
	int count = 0, cap = 0, rc;

	for (char *p = strtok_r(copy, " \t\n\v\f\r", &save); p;
	     p = strtok_r(NULL, " \t\n\v\f\r", &save)) {
		if (count == cap)
			word = mem_realloc(word, (size_t)(cap = 2 * cap + 64), sizeof *word);
		word[count++] = p;
	}
	rc = path_list_parse(count, word, name, out, e);
	free(word);
	free(copy);
	return rc;
}

/* Reads an array of words, or of words with numbers in the places of weights. */
static int
parse_array(const struct json_value *v, const char *name, struct path_list *out, struct err *e)
{
	const char **word = mem_zalloc(v->len + 1, sizeof *word);
	struct str *number = mem_zalloc(v->len + 1, sizeof *number);
	int rc = 0;

	for (size_t i = 0; i < v->len && rc == 0; i++) {
		const struct json_value *x = &v->item[i];

		if (x->type == JSON_INT)
			str_addf(&number[i], "%lld", (long long)x->integer);
		else if (x->type == JSON_FLOAT)
			str_add_double(&number[i], x->number);
		else if (x->type != JSON_STRING || strlen(x->string) != x->len)
			rc =
			    err_set(e, "%s: element %zu is neither a string nor a number", name, i);
		word[i] = number[i].buf ? number[i].buf : x->string;
	}
	if (rc == 0)
		rc = path_list_parse((int)v->len, word, name, out, e);
	for (size_t i = 0; i < v->len; i++)
		str_release(&number[i]);
	free(number);
	free(word);
	return rc;
}

/* Reads the value of one split: an array, a string of words, or null for no such split. */
static int
parse_member(const struct json_value *v, const char *path, enum split which, struct path_list *out,
    struct err *e)
{
	struct str name = { 0 };
	int rc = 0;

	str_addf(&name, "%s: %s", path, split_name[which]);
	if (!v)
		rc = err_set(e,
		    "%s: missing: train, valid and test must all be given, null for none",
		    name.buf);
	else if (v->type == JSON_ARRAY)
		rc = parse_array(v, name.buf, out, e);
	else if (v->type == JSON_STRING && strlen(v->string) == v->len)
		rc = parse_text(v->string, name.buf, out, e);
	else if (v->type != JSON_NULL)
		rc = err_set(e, "%s: must be a list or a string of words", name.buf);
	str_release(&name);
	return rc;
}

/* {"train": ..., "valid": ..., "test": ...} */
static int
parse_per_split(const struct path_options *o, struct data_paths *out, struct err *e)
{
	const char *path = o->per_split_data_args_path;
	struct json *j = json_parse(o->text, o->text_bytes, path, e);
	int rc = 0;

	if (!j)
		return -1;
	if (json_root(j)->type != JSON_OBJECT)
		rc = err_at(e, path, 0, "must be an object of train, valid and test");
	for (int i = 0; i < SPLIT_COUNT && rc == 0; i++)
		rc = parse_member(
		    json_get(json_root(j), split_name[i]), path, (enum split)i, &out->list[i], e);
	json_free(j);
	return rc;
}

/* Exactly one kind of option must name the data. */
static int
check_kinds(const struct path_options *o, struct err *e)
{
	bool any_split = o->split_path[0].count || o->split_path[1].count || o->split_path[2].count;
	int kinds = (o->data_path.count > 0) + any_split + (o->data_args_path != NULL) +
	    (o->per_split_data_args_path != NULL) + (o->data_schedule != NULL);

	if (kinds == 0)
		return err_set(e,
		    "no data: one of --data-path, --data-args-path, --data-schedule, "
		    "--train-data-path and --per-split-data-args-path is needed");
	if (kinds > 1)
		return err_set(e,
		    "--data-path, --data-args-path, --data-schedule, --per-split-data-args-path "
		    "and --train-data-path with --valid- and --test-: only one of them can name "
		    "the data");
	return 0;
}

bool
path_options_any(const struct path_options *o)
{
	bool any = o->data_path.count || path_options_file(o);

	for (int w = 0; w < SPLIT_COUNT; w++)
		any = any || o->split_path[w].count;
	return any;
}

const char *
path_options_file(const struct path_options *o)
{
	return o->data_args_path ? o->data_args_path
	    : o->data_schedule   ? o->data_schedule
				 : o->per_split_data_args_path;
}

int
data_paths_load(const struct path_options *o, char **text, size_t *bytes, struct err *e)
{
	const char *path = path_options_file(o);

	*text = NULL;
	*bytes = 0;
	return path ? io_read_file(path, FILE_MAX, text, bytes, e) : 0;
}

/* A list of words, typed or in a file, or three of them. The file's text is already loaded; a NUL
 * follows its last byte. A split without an option has no samples. */
static int
parse(const struct path_options *o, struct data_paths *out, struct err *e)
{
	static const char *const name[] = { "--train-data-path", "--valid-data-path",
		"--test-data-path" };

	const char *words = o->data_args_path ? o->data_args_path : o->data_schedule;

	out->per_split = !o->data_path.count && !words;
	if (o->data_path.count)
		return path_list_parse(
		    o->data_path.count, o->data_path.item, "--data-path", &out->list[0], e);
	if (words && strlen(o->text) != o->text_bytes)
		return err_at(e, words, 0, "not a text: byte %zu is NUL", strlen(o->text));
	if (o->data_schedule)
		return data_stages_parse(o->text, o->data_schedule, out, e);
	if (o->data_args_path)
		return parse_text(o->text, o->data_args_path, &out->list[0], e);
	if (o->per_split_data_args_path)
		return parse_per_split(o, out, e);
	for (int i = 0; i < SPLIT_COUNT; i++)
		if (o->split_path[i].count > 0 &&
		    path_list_parse(o->split_path[i].count, o->split_path[i].item, name[i],
			&out->list[i], e) < 0)
			return -1;
	return 0;
}

/* On failure out is empty. */
int
data_paths_read(const struct path_options *o, struct data_paths *out, struct err *e)
{
	struct path_options whole = *o;
	char *read = NULL;
	int rc = check_kinds(o, e);

	memset(out, 0, sizeof *out);
	if (rc == 0 && !o->text) {
		rc = data_paths_load(o, &read, &whole.text_bytes, e);
		whole.text = read;
	}
	if (rc == 0)
		rc = parse(&whole, out, e);
	if (rc < 0)
		data_paths_release(out);
	free(read);
	return rc;
}

/* A struct of zeroes is allowed. */
void
data_paths_release(struct data_paths *p)
{
	for (int i = 0; i < SPLIT_COUNT; i++)
		path_list_release(&p->list[i]);
	for (int i = 0; i < p->num_stages; i++)
		path_list_release(&p->stage[i].list);
	free(p->stage);
	p->num_stages = 0;
	p->stage = NULL;
}

/* Without per-split lists all splits are parts of the same corpora. */
const struct path_list *
data_paths_list(const struct data_paths *p, enum split which)
{
	if (p->num_stages && which != SPLIT_TRAIN)
		return &p->stage[0].list;
	return &p->list[p->per_split ? which : SPLIT_TRAIN];
}

const char *
data_paths_advice(const char *prefix)
{
	size_t n = strlen(prefix);
	bool part = n > 4 && (!strcmp(prefix + n - 4, ".bin") || !strcmp(prefix + n - 4, ".idx"));

	return !part && io_exists(prefix)
	    ? "what has this name is no dataset: `mtok -o PREFIX` makes one of text"
	    : "give the prefix without .bin or .idx";
}
