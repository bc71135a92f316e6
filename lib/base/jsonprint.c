/* jsonprint.c - a JSON tree as text */
#include "lib/base/json.h"
#include "lib/base/str.h"

static void
add_items(struct str *out, const struct json_value *v)
{
	for (size_t i = 0; i < v->len; i++) {
		str_adds(out, i ? ", " : "");
		if (v->type == JSON_OBJECT) {
			str_add_json(out, v->item[i].key, v->item[i].key_len);
			str_adds(out, ": ");
		}
		json_print(out, &v->item[i]);
	}
}

void
json_print(struct str *out, const struct json_value *v)
{
	switch (v ? v->type : JSON_NULL) {
	case JSON_BOOL: str_adds(out, v->boolean ? "true" : "false"); break;
	case JSON_INT: str_addf(out, "%lld", (long long)v->integer); break;
	case JSON_FLOAT: str_add_double(out, v->number); break;
	case JSON_STRING: str_add_json(out, v->string, v->len); break;
	case JSON_ARRAY:
		str_addc(out, '[');
		add_items(out, v);
		str_addc(out, ']');
		break;
	case JSON_OBJECT:
		str_addc(out, '{');
		add_items(out, v);
		str_addc(out, '}');
		break;
	default: str_adds(out, "null");
	}
}
