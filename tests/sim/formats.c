/*
 * formats.c - the formats that printf() does not learn
 *
 * libquadmath, which OpenBLAS needs, teaches printf() its own type as soon as it is loaded. From
 * then on the C library takes the slow path of every format. Nothing here prints such a type.
 */
#include <printf.h>

int
register_printf_modifier(const wchar_t *text)
{
	(void)text;
	return -1;
}

int
register_printf_type(printf_va_arg_function f)
{
	(void)f;
	return -1;
}

int
register_printf_specifier(int c, printf_function f, printf_arginfo_size_function size)
{
	(void)c;
	(void)f;
	(void)size;
	return -1;
}
