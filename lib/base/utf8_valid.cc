// utf8_valid.cc - well-formed UTF-8 by simdjson's vector code; C++ ends at this file
extern "C" {
#include "lib/base/utf8.h"
}

#include <simdjson.h>

// Only the verdict; utf8_check finds the position.
extern "C" bool
utf8_valid(const char *s, size_t n)
{
	return simdjson::validate_utf8(s, n);
}
