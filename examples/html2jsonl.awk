# html2jsonl.awk - the sections of DocBook's HTML pages as JSON Lines: {"text": "..."}, one line per
# section
#
# Run with LC_ALL=C: bytes above 127 pass through. A section starts at <h2> or <h3> and ends at the
# next one; text before the first one (navigation, contents) and the page's footer are left out.
# Space is kept inside <pre> and squeezed elsewhere.

# Prints the finished section, unless it has little more than its heading.
function end_section()
{
	gsub(/( *\n)+/, "\n", text)
	gsub(/^[ \n]+|[ \n]+$/, "", text)
	gsub(/\\|"/, "\\\\&", text)
	gsub(/\n/, "\\n", text)
	gsub(/[\001-\037\177]/, " ", text)
	if (length(text) > 100)
		printf "{\"text\": \"%s\"}\n", text
	text = ""
}

# A record is the text after a '<': the tag's name, its attributes, '>', and the text up to the next
# tag.
BEGIN { RS = "<" }

FNR == 1 { end_section(); inside = pre = 0 }

{
	tag = $0
	sub(/^\//, "", tag)
	sub(/[ \t\n\/>].*/, "", tag)
	closing = substr($0, 1, 1) == "/"
	body = substr($0, index($0, ">") + 1)
}

/^div class="navfooter"/ { end_section(); inside = 0 }
!closing && (tag == "h2" || tag == "h3") { end_section(); inside = 1 }
!inside { next }

tag == "pre" { pre = !closing }
tag == "br" || closing && tag ~ /^(h[1-6]|p|li|dt|dd|tr|pre|div)$/ { text = text "\n" }
closing && (tag == "td" || tag == "th") { text = text " " }

{
	if (!pre) {
		gsub(/[ \t\n]+/, " ", body)
		if (text ~ /[ \n]$/)
			sub(/^ /, "", body)
	}
	gsub(/&lt;/, "<", body)
	gsub(/&gt;/, ">", body)
	gsub(/&quot;/, "\"", body)
	gsub(/&nbsp;|&#160;/, " ", body)
	gsub(/&#10;/, "\n", body)
	gsub(/&amp;/, "\\&", body)
	text = text body
}

END { end_section() }
