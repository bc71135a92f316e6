/* straggler.c - tests of the lines that name the slowest and the fastest ranks */
#include "tests/check.h"
#include "train/run/straggler.h"

/* The lines of four ranks, of which the third computes longest. */
static void
check_text(int ranks, int count, const char *want)
{
	static const double work[] = { 5, 4, 20, 4 }, batch[] = { 0, 0.25, 0, 0 };
	struct straggler s = {
		.ranks = ranks, .work = work, .batch = batch, .tflop = 0.1, .count = count
	};
	struct str text = { 0 };

	straggler_text(&s, &text);
	CHECK_STR(text.buf, want);
	str_release(&text);
}

#define ENDS \
	" | MnRtt/Rnk: 4.00ms/1 | MxRtt/Rnk: 20.00ms/2 | MnDRtt/Rnk: 0.00ms/0" \
	" | MxDRtt/Rnk: 0.25ms/1 | MnEtpt/Rnk: 5.00TF/2 | MxEtpt/Rnk: 25.00TF/3"

int
main(void)
{
	check_text(4, 1, ENDS);
	check_text(4, 4, ENDS);
	check_text(4, 2,
	    ENDS "\n^^^^ Bottom 2 Ranks with lowest  Etpt(TF): 5.00TF/2, 20.00TF/0,"
		 "\n^^^^ Top    2 Ranks with highest Etpt(TF): 25.00TF/1, 25.00TF/3,");
	check_text(1, 1,
	    " | MnRtt/Rnk: 5.00ms/0 | MxRtt/Rnk: 5.00ms/0 | MnDRtt/Rnk: 0.00ms/0"
	    " | MxDRtt/Rnk: 0.00ms/0 | MnEtpt/Rnk: 20.00TF/0 | MxEtpt/Rnk: 20.00TF/0");
	return check_done();
}
