// json.cc - simdjson's tape copied into a plain C tree; C++ ends at this file
extern "C" {
#include "lib/base/json.h"
#include "lib/base/mem.h"
}

#include <cstdlib>
#include <simdjson.h>

struct json {
	struct mem_pool pool;
	struct json_value root;
};

namespace {

enum { DEPTH_MAX = 64 };

using simdjson::dom::element;
using simdjson::dom::element_type;

int copy(struct json *j, const element &in, struct json_value *out, struct err *e);

// The children of an array or object, counted first: simdjson's own count saturates at 2^24.
template <typename T>
size_t
count(const T &container)
{
	size_t n = 0;

	for (auto it = container.begin(); it != container.end(); ++it)
		n++;
	return n;
}

int
copy_array(struct json *j, const simdjson::dom::array &in, struct json_value *out, struct err *e)
{
	size_t i = 0;

	out->type = JSON_ARRAY;
	out->len = count(in);
	out->item =
	    static_cast<json_value *>(mem_pool_alloc(&j->pool, out->len, sizeof *out->item));
	for (element child : in)
		if (copy(j, child, &out->item[i++], e) < 0)
			return -1;
	return 0;
}

int
copy_object(struct json *j, const simdjson::dom::object &in, struct json_value *out, struct err *e)
{
	size_t i = 0;

	out->type = JSON_OBJECT;
	out->len = count(in);
	out->item =
	    static_cast<json_value *>(mem_pool_alloc(&j->pool, out->len, sizeof *out->item));
	for (auto member : in) {
		struct json_value *v = &out->item[i++];

		if (copy(j, member.value, v, e) < 0)
			return -1;
		v->key = mem_pool_strndup(&j->pool, member.key.data(), member.key.size());
		v->key_len = member.key.size();
	}
	return 0;
}

int
copy(struct json *j, const element &in, struct json_value *out, struct err *e)
{
	switch (in.type()) {
	case element_type::ARRAY:
		return copy_array(j, in.get_array().value_unsafe(), out, e);
	case element_type::OBJECT:
		return copy_object(j, in.get_object().value_unsafe(), out, e);
	case element_type::STRING: {
		auto s = in.get_string().value_unsafe();

		out->type = JSON_STRING;
		out->string = mem_pool_strndup(&j->pool, s.data(), s.size());
		out->len = s.size();
		return 0;
	}
	case element_type::INT64:
		out->type = JSON_INT;
		out->integer = in.get_int64().value_unsafe();
		out->number = static_cast<double>(out->integer);
		return 0;
	case element_type::UINT64:
		return err_set(e, "integer above 2^63");
	case element_type::DOUBLE:
		out->type = JSON_FLOAT;
		out->number = in.get_double().value_unsafe();
		return 0;
	case element_type::BOOL:
		out->type = JSON_BOOL;
		out->boolean = in.get_bool().value_unsafe();
		return 0;
	default:
		out->type = JSON_NULL;
		return 0;
	}
}

}  // namespace

struct json *
json_parse(const char *text, size_t len, const char *name, struct err *e)
{
	simdjson::dom::parser parser;
	struct err why;
	element root;
	auto bad = parser.allocate(len ? len : 1, DEPTH_MAX);

	if (!bad)
		bad = parser.parse(text, len, true).get(root);
	if (bad) {
		err_at(e, name, 0, "not valid JSON: %s", simdjson::error_message(bad));
		return nullptr;
	}
	struct json *j = static_cast<struct json *>(mem_zalloc(1, sizeof *j));
	if (copy(j, root, &j->root, &why) < 0) {
		err_at(e, name, 0, "%s", why.msg);
		json_free(j);
		return nullptr;
	}
	return j;
}

void
json_free(struct json *j)
{
	if (!j)
		return;
	mem_pool_release(&j->pool);
	free(j);
}

const struct json_value *
json_root(const struct json *j)
{
	return &j->root;
}
