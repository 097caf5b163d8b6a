#!/usr/bin/env bash
# Consul 1.20.6: what an agent that is no server takes along when it is stopped in good order (SIGTERM, systemctl restart).
#
# Guess: a session lives by its TTL and its checks alone. One without checks stays when the agent stops through which it was made.
# Seen:  an agent that is no server leaves the cluster on SIGTERM: its node goes from the catalog, and the session made through it goes at once,
#        though it has no checks and a TTL of a day. A session stays that was made through the same agent with a catalog node of its own.
#
# raysys registers a catalog node for each session: store/consul/catalog.go.
#
# Consul is built from source at the versions of internal/consulbuild: minutes the first time.
set -euo pipefail
pin=$(cd "$(dirname "$0")/../internal/consulbuild" && pwd)
dir=$(mktemp -d)
pids=
trap 'kill $pids 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
cp "$pin/consul.mod" go.mod
cp "$pin/consul.sum" go.sum
GOWORK=off GOFLAGS=-mod=mod go build -o consul github.com/hashicorp/consul

# agent NAME PORT ARGUMENTS runs an agent on loopback, with its own PORT and the two behind it.
agent() {
	./consul agent -node="$1" -bind=127.0.0.1 -client=127.0.0.1 -data-dir="$dir/$1" "${@:3}" >"$1.log" 2>&1 \
		-hcl="ports { http = $2, dns = -1, grpc = -1, grpc_tls = -1, server = $(($2 + 1)), serf_lan = $(($2 + 2)), serf_wan = -1 }" &
	pids="$pids $!"
}
ask() { curl -sS "http://127.0.0.1:$1/v1/$2" "${@:3}"; }
nodes() { ask 27310 catalog/nodes 2>/dev/null | grep -o '"Node":"[a-z]*"' | cut -d'"' -f4 | sort | paste -sd' '; }
sessions() { ask 27310 session/list | grep -o '"Name":"[a-z ]*"' | cut -d'"' -f4 | sort | paste -sd,; }
# until_true COMMAND waits for it, for a minute.
until_true() {
	for _ in $(seq 120); do
		if "$@"; then return; fi
		sleep 0.5
	done
	echo "not within a minute: $*"
	exit 1
}
agent server 27310 -server -bootstrap-expect=1
agent client 27320 -retry-join=127.0.0.1:27312 -retry-interval=1s
client=$!
both() { [ "$(nodes)" = "client server" ]; }
until_true both
{
	ask 27320 catalog/register -X PUT -d '{"Node":"external","Address":"127.0.0.1"}'
	ask 27320 session/create -X PUT -d '{"Name":"made as usual","TTL":"24h","NodeChecks":[]}'
	ask 27320 session/create -X PUT -d '{"Name":"on the external node","TTL":"24h","Node":"external","NodeChecks":[]}'
} >/dev/null
{
	echo "before: nodes $(nodes); sessions $(sessions)"
	sleep 6 # an agent that stops sooner after it has joined is not always heard
	kill -TERM "$client"
	wait "$client" || true
	gone() { [ "$(nodes)" = "external server" ]; }
	until_true gone
	sleep 1
	echo "after:  nodes $(nodes); sessions $(sessions)"
} >got
cat >want <<'END'
before: nodes client external server; sessions made as usual,on the external node
after:  nodes external server; sessions on the external node
END
diff want got
cat got
