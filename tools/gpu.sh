#!/bin/sh
# Runs the tests that need a GPU from the folder that this script is in, which `make build-gpu` makes: in ten minutes at most. Arguments
# are those of a test binary, such as -test.run TestTrains. Exit code 0: they passed, or there is no GPU, which one line says.
set -eu
from=$(cd "$(dirname "$0")" && pwd)
to=$(mktemp -d "${TMPDIR:-/tmp}/raysys-gpu.XXXXXX")
trap 'rm -rf "$to"' EXIT
trap 'exit 130' INT TERM
for f in "$from"/*.gz; do
	name=$(basename "$f" .gz)
	gunzip -c "$f" >"$to/$name"
	chmod +x "$to/$name"
done
cd "$to"
RAYSYS_CONSUL_PROGRAM=$to/consul RAYSYS_TEST_GPU_PROGRAMS=$to ./gputest -test.v -test.timeout 10m "$@"
