#!/bin/sh
# sbom.sh DIR <PARTS - prints the list of a bundle's parts and files as SPDX 2.3 JSON
#
# A line of PARTS has a path in DIR (a file, or a directory with a slash), the package that it is
# from, its version and its licence. What is in no line is mikoshi's own. Each file has its SHA-1,
# which SPDX demands, and its SHA-256. The name space is made of the hashes, so it is the same for
# the same bytes. Source: SPDX specification 2.3, clauses 6 to 8 and 11; the verification code of a
# package: 7.9.
# shellcheck source=packaging/common
. "$(dirname "$0")/common"
dir=$1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat >"$tmp/parts"

# codes: PACKAGE CODE of each package, from the SHA-1s of its files
codes()
{
	cut -f 1 "$tmp/list" | sort -u | while read -r package; do
		printf '%s\t%s\n' "$package" "$(awk -F '\t' -v p="$package" '$1 == p { print $3 }' \
			"$tmp/list" | sort | tr -d '\n' | sha1sum | cut -d ' ' -f 1)"
	done
}

# The files: package, path, SHA-1, SHA-256.
(cd "$dir" && find . -type f ! -name sbom.spdx.json | sort | while read -r file; do
	printf '%s\t%s\t%s\n' "$file" "$(sha1sum "$file" | cut -c 1-40)" \
		"$(sha256sum "$file" | cut -c 1-64)"
done) | awk -F '\t' -v OFS='\t' '
	NR == FNR { package[$1] = $2; next }
	{
		path = substr($1, 3)
		first = substr(path, 1, index(path, "/"))
		from = path in package ? package[path] : first in package ? package[first] : ""
		print from == "" ? "mikoshi" : from, $1, $2, $3
	}' "$tmp/parts" - >"$tmp/list"
codes >"$tmp/codes"
awk -F '\t' -v version="$VERSION" -v name="$(basename "$dir")" \
	-v hash="$(sha256sum "$tmp/list" | cut -c 1-64)" \
	-v created="$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" '
	function id(package)
	{
		gsub(/[^A-Za-z0-9.-]/, "-", package)
		return "SPDXRef-Package-" package
	}
	function relation(a, kind, b)
	{
		relations[++n] = "{\"spdxElementId\": \"" a "\", \"relationshipType\": \"" kind \
			"\", \"relatedSpdxElement\": \"" b "\"}"
	}
	FILENAME ~ /parts$/ {
		of[$2] = $3
		licence[$2] = $4
		next
	}
	FILENAME ~ /codes$/ { code[$1] = $2; order[++packages] = $1; next }
	{
		file = "SPDXRef-File-" ++files
		relation(id($1), "CONTAINS", file)
		text[files] = "{\"fileName\": \"" $2 "\", \"SPDXID\": \"" file \
			"\", \"checksums\": [{\"algorithm\": \"SHA1\", \"checksumValue\": \"" $3 \
			"\"}, {\"algorithm\": \"SHA256\", \"checksumValue\": \"" $4 \
			"\"}], \"licenseConcluded\": \"NOASSERTION\", \"licenseInfoInFiles\":" \
			" [\"NOASSERTION\"], \"copyrightText\": \"NOASSERTION\"}"
	}
	END {
		of["mikoshi"] = version
		licence["mikoshi"] = "MIT"
		relation("SPDXRef-DOCUMENT", "DESCRIBES", id("mikoshi"))
		print "{\n\"spdxVersion\": \"SPDX-2.3\",\n\"dataLicense\": \"CC0-1.0\","
		print "\"SPDXID\": \"SPDXRef-DOCUMENT\",\n\"name\": \"" name "\","
		print "\"documentNamespace\": \"https://spdx.org/spdxdocs/" name "-" hash "\","
		print "\"creationInfo\": {\"created\": \"" created \
			"\", \"creators\": [\"Tool: mikoshi-sbom.sh-" version "\"]},"
		print "\"packages\": ["
		for (i = 1; i <= packages; i++) {
			p = order[i]
			if (p != "mikoshi")
				relation(id("mikoshi"), "DEPENDS_ON", id(p))
			print "{\"name\": \"" p "\", \"SPDXID\": \"" id(p) \
				"\", \"versionInfo\": \"" of[p] \
				"\", \"downloadLocation\": \"NOASSERTION\"," \
				" \"filesAnalyzed\": true, \"packageVerificationCode\":" \
				" {\"packageVerificationCodeValue\": \"" code[p] \
				"\"}, \"licenseConcluded\": \"" licence[p] \
				"\", \"licenseDeclared\": \"" licence[p] \
				"\", \"licenseInfoFromFiles\": [\"NOASSERTION\"]," \
				" \"copyrightText\": \"NOASSERTION\"}" (i < packages ? "," : "")
		}
		print "],\n\"files\": ["
		for (i = 1; i <= files; i++)
			print text[i] (i < files ? "," : "")
		print "],\n\"relationships\": ["
		for (i = 1; i <= n; i++)
			print relations[i] (i < n ? "," : "")
		print "]\n}"
	}' "$tmp/parts" "$tmp/codes" "$tmp/list"
