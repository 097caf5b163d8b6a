#!/usr/bin/env bash
# Packs what `make test-gpu` runs into bin/gpu: the tests of examples/gpu/gputest as a program, the examples that they start, and
# Consul, each compressed, and a script that runs them. That folder is all that a machine with a GPU needs: no Go, no network, a
# Linux of this architecture whose glibc is not older than 2.34.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit=$((60 << 20)) # bytes: so much fits into a copy that some machines take
out=bin/gpu
part=$out.part
rm -rf "$part"
mkdir -p "$out" "$part"
trap 'rm -rf "$part"' EXIT

export CGO_ENABLED=1 # to ask the driver
flags=(-trimpath -ldflags '-s -w')
go test -C examples/gpu -c "${flags[@]}" -o "$PWD/$part/gputest" ./gputest
for name in hetero torch; do
	go build "${flags[@]}" -o "$part/$name" "./examples/$name"
done
if [ ! "$out/consul.gz" -nt bin/consul ]; then
	strip -o "$part/consul" bin/consul
fi
for f in "$part"/*; do
	gzip -9 "$f"
done
mv "$part"/*.gz "$out"
install -m 755 tools/gpu.sh "$out/run"

size=$(cat "$out"/* | wc -c)
if [ "$size" -gt "$limit" ]; then
	echo "make build-gpu: $out has $size bytes, which is more than $limit" >&2
	exit 1
fi
echo "$out has $((size >> 20)) MiB: copy it to a machine with a GPU, and run gpu/run there"
