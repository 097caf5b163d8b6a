#!/usr/bin/env bash
# Runs what `make test` runs: the packages that own concurrency with the race detector, all others without it, and the
# linters once. Consul, NATS and the linters are built beside the first tests. The seconds of each package go to .cache/times,
# sorted, and the slowest are printed at the end. A failure does not keep the rest from running.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# These start goroutines that share memory. Their tests reach the races at unit level, so that the packages above them
# are tested without -race here, and with it by `make race`.
raced=(core wheel queue ledger link mesh transfer objectstore taskengine grainengine codec shardlog flaky)
raced=("${raced[@]/#/./internal/}" ./store/embedded)
racedOnConsul=(./internal/member)

mkdir -p .cache
log=.cache/test.log lint=.cache/lint.log
: >"$log"
status=0

# makePython makes .cache/python, with the packages that the tests of grains/process need. Other packages of python3, such as torch, stay visible there.
# The last line that it prints says why there is none.
makePython() {
	local pins=tools/testenvs/requirements/gymnasium.txt python=.cache/python/bin/python
	cmp -s $pins .cache/python/pins && $python -c 'import gymnasium, numpy' && return
	rm -rf .cache/python
	if ! command -v python3 >/dev/null; then
		echo "there is no python3"
	elif ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
		echo "python3 is $(python3 --version 2>&1), and $pins needs 3.11"
	elif ! python3 -m venv --system-site-packages .cache/python; then
		echo "python3 makes no venv: it may need the package python3-venv"
	elif ! timeout 300 .cache/python/bin/pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 -r $pins; then
		echo "pip does not get what $pins names: it may not reach its index"
	else
		$python -c 'import gymnasium, numpy' && cp $pins .cache/python/pins && return
		echo "the packages of $pins cannot be imported"
	fi
	return 1
}

# tests [FLAG...] PACKAGE...: the tests of these packages, shuffled; the linters have vetted them.
tests() { go test -vet=off -shuffle=on -timeout 30m "$@" 2>&1 | tee -a "$log" || status=1; }

make -s nats consul >.cache/servers.log 2>&1 &
servers=$!
make -s lint >"$lint" 2>&1 &
linters=$!
pythons=
if [ -z "${RAYSYS_PYTHON:-}" ]; then
	makePython >.cache/python.log 2>&1 &
	pythons=$!
fi
trap 'kill $servers $linters $pythons 2>/dev/null' EXIT

CGO_ENABLED=1 tests -race "${raced[@]}"
if ! wait $servers; then
	cat .cache/servers.log
	exit 1
fi
CGO_ENABLED=1 tests -race "${racedOnConsul[@]}"
if [ -n "$pythons" ]; then
	if wait $pythons; then
		export RAYSYS_PYTHON=$PWD/.cache/python/bin/python
	else
		echo "the tests that need gymnasium and numpy are skipped where python3 has not both: $(tail -n 1 .cache/python.log) (.cache/python.log)"
	fi
fi
tests $(go list ./... | grep -vxF "$(go list "${raced[@]}" "${racedOnConsul[@]}")")
CGO_ENABLED=0 tests ./placement/nvml # without cgo it has other files
wait $linters || status=1
cat "$lint"

awk '$1 == "ok" || $1 == "FAIL" { for (i = 3; i <= NF; i++) if ($i ~ /^[0-9.]+s$/) print $i + 0, $2 }' "$log" |
	sort -rn >.cache/times
echo "--- seconds of the slowest packages, all are in .cache/times:"
head -n 15 .cache/times
exit $status
