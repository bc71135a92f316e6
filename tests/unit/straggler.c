/* straggler.c - tests of the lines that name the slowest and the fastest ranks */
#include "tests/check.h"
#include "train/watch/straggler.h"

#include <stdbool.h>

/* The lines of four ranks, of which the third computes longest; metered: their devices have meters,
 * the last one without a thermometer. */
static void
check_text(int ranks, int count, bool metered, const char *want)
{
	static const struct straggler of[] = {
		{ .work = 5, .watts = 400, .celsius = 50, .megahertz = 1900, .tflops = 20 },
		{ .work = 4,
		    .batch = 0.25,
		    .watts = 410,
		    .celsius = 51,
		    .megahertz = 1980,
		    .tflops = 25 },
		{ .work = 20, .watts = 300.5, .celsius = 88, .megahertz = 345, .tflops = 5 },
		{ .work = 4, .watts = 420, .celsius = NAN, .megahertz = 1980, .tflops = 25 },
	};
	struct straggler these[4];
	struct str text = { 0 };

	for (int r = 0; r < ranks; r++) {
		these[r] = of[r];
		if (!metered)
			these[r].watts = these[r].celsius = these[r].megahertz = NAN;
	}
	straggler_text(these, ranks, count, &text);
	CHECK_STR(text.buf, want);
	str_release(&text);
}

#define RTT " | MnRtt/Rnk: 4.00ms/1 | MxRtt/Rnk: 20.00ms/2"
#define REST \
	" | MnDRtt/Rnk: 0.00ms/0 | MxDRtt/Rnk: 0.25ms/1" \
	" | MnEtpt/Rnk: 5.00TF/2 | MxEtpt/Rnk: 25.00TF/3"
#define POWER " | MnPwr/Rnk: 300.50W/2 | MxPwr/Rnk: "
#define CLOCK " | MnClk/Rnk: 345.00MHz/2 | MxClk/Rnk: "

int
main(void)
{
	check_text(4, 1, false, RTT REST);
	check_text(4, 4, false, RTT REST);
	check_text(4, 1, true, RTT POWER "420.00W/3" CLOCK "1980.00MHz/3" REST);
	check_text(3, 1, true,
	    RTT POWER "410.00W/1 | MnTmp/Rnk: 50.00C/0 | MxTmp/Rnk: 88.00C/2" CLOCK "1980.00MHz/1"
		      " | MnDRtt/Rnk: 0.00ms/0 | MxDRtt/Rnk: 0.25ms/1"
		      " | MnEtpt/Rnk: 5.00TF/2 | MxEtpt/Rnk: 25.00TF/1");
	check_text(4, 2, false,
	    RTT REST "\n^^^^ Bottom 2 Ranks with lowest  Etpt(TF): 5.00TF/2, 20.00TF/0,"
		     "\n^^^^ Top    2 Ranks with highest Etpt(TF): 25.00TF/1, 25.00TF/3,");
	check_text(1, 1, false,
	    " | MnRtt/Rnk: 5.00ms/0 | MxRtt/Rnk: 5.00ms/0 | MnDRtt/Rnk: 0.00ms/0"
	    " | MxDRtt/Rnk: 0.00ms/0 | MnEtpt/Rnk: 20.00TF/0 | MxEtpt/Rnk: 20.00TF/0");
	return check_done();
}
