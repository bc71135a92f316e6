// report.js - what the browser test looks for in a report: text that leaves its chart, labels that
// overlap, text that is small or has too little contrast, anything that is fetched
function luminance(color)
{
	const c = color.match(/[\d.]+/g).slice(0, 3).map(v => {
		v /= 255;
		return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
	});
	return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
}

function contrast(a, b)
{
	const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
	return (x + 0.05) / (y + 0.05);
}

function background(e, view)
{
	for (; e; e = e.parentElement) {
		const color = view.getComputedStyle(e).backgroundColor;
		if (color !== 'rgba(0, 0, 0, 0)')
			return color;
	}
	return 'rgb(255, 255, 255)';
}

function overlap(a, b)
{
	return a.left < b.right - 0.5 && b.left < a.right - 0.5 && a.top < b.bottom - 0.5 &&
	    b.top < a.bottom - 0.5;
}

function checkCharts(page, say)
{
	const figures = page.querySelectorAll('figure');
	for (const figure of figures) {
		const room = figure.getBoundingClientRect();
		const labels = [...figure.querySelectorAll('svg text')];
		const boxes = labels.map(t => t.getBoundingClientRect());
		boxes.forEach((box, i) => {
			const name = figure.id + ' label ' + labels[i].textContent;
			if (box.left < room.left || box.right > room.right || box.top < room.top ||
			    box.bottom > room.bottom)
				say(name + ' leaves its chart');
			for (let k = 0; k < i; k++)
				if (overlap(box, boxes[k]))
					say(name + ' overlaps ' + labels[k].textContent);
		});
	}
	return figures.length;
}

function checkText(page, view, say)
{
	let count = 0;
	for (const e of page.body.querySelectorAll('*')) {
		const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
		if (!own || e.tagName === 'STYLE' || e.tagName === 'title')
			continue;
		const style = view.getComputedStyle(e);
		const color = e.namespaceURI.endsWith('svg') ? style.fill : style.color;
		const ratio = contrast(color, background(e, view));
		count++;
		if (ratio < 4.5)
			say('contrast ' + ratio.toFixed(2) + ': ' + e.textContent.slice(0, 40));
		if (parseFloat(style.fontSize) < 11)
			say('small text: ' + e.textContent.slice(0, 40));
	}
	return count;
}

function checkFrame(frame, result)
{
	const page = frame.contentDocument, view = frame.contentWindow;
	const say = text => result.push(frame.width + ': ' + text);
	page.querySelectorAll('details').forEach(d => { d.open = true; });
	const charts = checkCharts(page, say);
	const texts = checkText(page, view, say);
	if (page.documentElement.scrollWidth > page.documentElement.clientWidth)
		say('the page is wider than its window');
	if (page.querySelector('script,link,img,iframe,object,embed,use'))
		say('an element that fetches');
	for (const r of view.performance.getEntriesByType('resource'))
		say('a request: ' + r.name);
	const dark = view.matchMedia('(prefers-color-scheme: dark)').matches;
	result.push('seen: ' + frame.width + ' ' + (dark ? 'dark' : 'light') + ' ' + charts +
	    ' charts, texts: ' + (texts > 100));
}

window.onload = () => {
	const result = [];
	document.querySelectorAll('iframe').forEach(f => checkFrame(f, result));
	document.body.innerText = result.join('\n');
};
