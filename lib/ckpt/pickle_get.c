/*
 * pickle_get.c - access to the values of a pickle
 *
 * Every function takes any value, NULL too, so that look-ups can be nested and only their end is
 * checked.
 */
#include "lib/ckpt/pickle.h"

#include <string.h>

/* The last of equal keys counts, hence the search from the end. */
static const struct pickle_value *
get_member(const struct pickle_value *v, const char *key)
{
	size_t n = strlen(key);

	if (!v || v->type != PICKLE_DICT)
		return NULL;
	for (uint32_t i = v->len; i-- > 0;) {
		const struct pickle_value *k = v->pair[i].key;

		if (k->type == PICKLE_STRING && k->len == n && !memcmp(k->text, key, n))
			return v->pair[i].value;
	}
	return NULL;
}

/* The state of a class with __slots__ is the pair of its dict and of its slots. */
const struct pickle_value *
pickle_get(const struct pickle_value *v, const char *key)
{
	const struct pickle_value *state, *found;

	if (!v || v->type != PICKLE_OBJECT)
		return get_member(v, key);
	state = v->object->state;
	if (!state || state->type != PICKLE_TUPLE)
		return get_member(state, key);
	found = get_member(pickle_item(state, 0), key);
	return found ? found : get_member(pickle_item(state, 1), key);
}

const struct pickle_value *
pickle_at(const struct pickle_value *v, int64_t key)
{
	if (!v || v->type != PICKLE_DICT)
		return NULL;
	for (uint32_t i = v->len; i-- > 0;)
		if (v->pair[i].key->type == PICKLE_INT && v->pair[i].key->integer == key)
			return v->pair[i].value;
	return NULL;
}

const struct pickle_value *
pickle_item(const struct pickle_value *v, uint32_t i)
{
	if (v && v->type == PICKLE_OBJECT)
		v = v->object->args;
	if (!v || (v->type != PICKLE_LIST && v->type != PICKLE_TUPLE && v->type != PICKLE_SET))
		return NULL;
	return i < v->len ? v->item[i] : NULL;
}

bool
pickle_is(const struct pickle_value *v, const char *global)
{
	if (v && v->type == PICKLE_OBJECT)
		v = v->object->of;
	return v && v->type == PICKLE_GLOBAL && strlen(global) == v->len &&
	    !memcmp(v->text, global, v->len);
}

bool
pickle_int(const struct pickle_value *v, int64_t *out)
{
	if (!v || v->type != PICKLE_INT)
		return false;
	*out = v->integer;
	return true;
}

bool
pickle_double(const struct pickle_value *v, double *out)
{
	if (!v || (v->type != PICKLE_INT && v->type != PICKLE_FLOAT))
		return false;
	*out = v->type == PICKLE_INT ? (double)v->integer : v->number;
	return true;
}

const char *
pickle_string(const struct pickle_value *v)
{
	return v && v->type == PICKLE_STRING && strlen(v->text) == v->len ? v->text : NULL;
}

/* Long texts are cut; how many items there are tells more than the first of them. */
void
pickle_print(const struct pickle_value *v, struct str *out)
{
	static const char *const several[] = {
		[PICKLE_BIG_INT] = "an integer of %u bytes",
		[PICKLE_BYTES] = "%u bytes",
		[PICKLE_LIST] = "a list of %u",
		[PICKLE_TUPLE] = "a tuple of %u",
		[PICKLE_SET] = "a set of %u",
		[PICKLE_DICT] = "a dict of %u",
	};

	switch (v ? v->type : PICKLE_NONE) {
	case PICKLE_NONE: str_adds(out, "None"); break;
	case PICKLE_BOOL: str_adds(out, v->boolean ? "True" : "False"); break;
	case PICKLE_INT: str_addf(out, "%lld", (long long)v->integer); break;
	case PICKLE_FLOAT: str_add_double(out, v->number); break;
	case PICKLE_STRING: str_addf(out, "'%.60s'", v->text); break;
	case PICKLE_GLOBAL: str_addf(out, "%.100s", v->text); break;
	case PICKLE_PERSISTENT: str_adds(out, "a storage"); break;
	case PICKLE_OBJECT:
		str_adds(out, "an object of ");
		if (v->object->of->type == PICKLE_GLOBAL)
			str_addf(out, "%.100s", v->object->of->text);
		else
			str_adds(out, "no class");
		break;
	default: str_addf(out, several[v->type], (unsigned)v->len); break;
	}
}
