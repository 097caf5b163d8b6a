#!/usr/bin/env bash
# Prints the packages that changed since a commit, and those that import one of them whose code (not only its tests)
# changed. Untracked files count; examples/gpu, a module of its own, does not. Usage: tools/quick.sh [COMMIT]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=${1:-HEAD}
files=$({ git diff --name-only "$base"; git ls-files --others --exclude-standard; } | sort -u)
if grep -qxE 'go\.(mod|sum)' <<<"$files"; then
	go list ./...
	exit
fi

# package_of FILE: the folder of the package that FILE belongs to; testdata and embedded files lie below it.
package_of() {
	local dir
	dir=$(dirname "$1")
	while [[ $dir != . ]] && ! compgen -G "$dir/*.go" >/dev/null; do dir=$(dirname "$dir"); done
	[[ $dir == . && $1 == */* ]] || echo "$dir" # a file of no package, such as docs/, is nobody's
}

changed='' tested=''
while read -r file; do
	case $file in
	'' | tools/* | */testdata/*.md | *.md) continue ;;
	*_test.go | */testdata/*) tested+=" $(package_of "$file")" ;;
	*.go) changed+=" $(package_of "$file")" ;;
	*/*) tested+=" $(package_of "$file")" ;;
	esac
done <<<"$files"

module=$(go list -m)
go list -f '{{.ImportPath}}: {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
	awk -v module="$module" -v changed="$changed" -v tested="$tested" '
		function path(dir) { return dir == "." ? module : module "/" dir }
		BEGIN {
			n = split(changed, c); for (i = 1; i <= n; i++) code[path(c[i])] = 1
			n = split(tested, t); for (i = 1; i <= n; i++) test[path(t[i])] = 1
		}
		{
			pkg = substr($1, 1, length($1) - 1)
			hit = pkg in code || pkg in test
			for (i = 2; i <= NF; i++) hit = hit || $i in code
			if (hit) print pkg
		}'
