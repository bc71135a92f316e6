// json.cc - simdjson's tape as a plain C tree; C++ ends at this file
//
// Strings stay where the parser unescaped them, NUL-ended, and the parser lives as long as the
// tree: for a large vocabulary only the nodes are copied.
extern "C" {
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/jsonnumber.h"
#include "lib/base/mem.h"
}

#include <new>
#include <simdjson.h>

struct json {
	struct mem_pool pool; // the nodes
	struct json_value root;
	simdjson::dom::parser parser; // the strings
};

namespace
{

enum { DEPTH_MAX = 64 };

using simdjson::dom::element;
using simdjson::dom::element_type;

int copy(struct json *j, const element &in, struct json_value *out, struct err *e);

// The children of an array or object. simdjson's own count saturates below 2^24.
template <typename T>
size_t
count(const T &container)
{
	size_t n = 0;

	if (container.size() < 0xffffff)
		return container.size();
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
		v->key = member.key.data();
		v->key_len = static_cast<uint32_t>(member.key.size());
	}
	return 0;
}

int
copy(struct json *j, const element &in, struct json_value *out, struct err *e)
{
	switch (in.type()) {
	case element_type::ARRAY: return copy_array(j, in.get_array().value_unsafe(), out, e);
	case element_type::OBJECT: return copy_object(j, in.get_object().value_unsafe(), out, e);
	case element_type::STRING: {
		auto s = in.get_string().value_unsafe();

		out->type = JSON_STRING;
		out->string = s.data();
		out->len = s.size();
		return 0;
	}
	case element_type::INT64:
		out->type = JSON_INT;
		out->integer = in.get_int64().value_unsafe();
		return 0;
	case element_type::UINT64:
		out->type = JSON_FLOAT;
		out->number = static_cast<double>(in.get_uint64().value_unsafe());
		return 0;
	case element_type::DOUBLE:
		out->type = JSON_FLOAT;
		out->number = in.get_double().value_unsafe();
		return 0;
	case element_type::BOOL:
		out->type = JSON_BOOL;
		out->boolean = in.get_bool().value_unsafe();
		return 0;
	default: out->type = JSON_NULL; return 0;
	}
}

// Refusals are rare, so numbers are examined only then.
simdjson::error_code
parse_fitted(struct json *j, const char *text, size_t len, element &root, simdjson::error_code bad)
{
	struct str fitted = {};

	if (json_fit_numbers(text, len, &fitted))
		bad = j->parser.parse(fitted.buf, fitted.len).get(root);
	str_release(&fitted);
	return bad;
}

struct json *
parse(const char *text, size_t len, bool padded, const char *name, struct err *e)
{
	struct json *j = new (std::nothrow) json();
	struct err why = { "out of memory" };
	element root;
	auto bad = j ? j->parser.allocate(len ? len : 1, DEPTH_MAX) : simdjson::MEMALLOC;

	if (!bad)
		bad = j->parser.parse(text, len, !padded).get(root);
	if (bad && bad != simdjson::MEMALLOC)
		bad = parse_fitted(j, text, len, root, bad);
	if (bad)
		err_at(e, name, 0, "not valid JSON: %s", simdjson::error_message(bad));
	else if (copy(j, root, &j->root, &why) == 0)
		return j;
	else
		err_at(e, name, 0, "%s", why.msg);
	json_free(j);
	return nullptr;
}

} // namespace

struct json *
json_parse(const char *text, size_t len, const char *name, struct err *e)
{
	return parse(text, len, false, name, e);
}

static_assert(
    IO_PADDING >= simdjson::SIMDJSON_PADDING, "files are read with padding for the parser");

struct json *
json_parse_file(const char *text, size_t len, const char *name, struct err *e)
{
	return parse(text, len, true, name, e);
}

void
json_free(struct json *j)
{
	if (!j)
		return;
	mem_pool_release(&j->pool);
	delete j;
}

const struct json_value *
json_root(const struct json *j)
{
	return &j->root;
}
