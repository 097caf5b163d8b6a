#!/usr/bin/env bash
# github.com/modelcontextprotocol/go-sdk 1.8.0: the ids of JSON-RPC requests that are large or fractional numbers, over Streamable HTTP.
#
# Guess: an answer has the id of its request, digit by digit, as JSON-RPC 2.0 asks ("the same as the value of the id member in the
#        request"), or the request is refused.
# Seen:  2^53+1 comes back as 2^53, 2^63-1 as -2^63, and 1.5 as 1: a client that compares ids waits for ever. A text comes back as it was.
#
# raysys leaves it to the SDK and says so: docs/guide/door.md. The clients of the SDKs count from 1.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'END'
module finding

go 1.25

require github.com/modelcontextprotocol/go-sdk v1.8.0
END
cat >main.go <<'END'
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	s := mcp.NewServer(&mcp.Implementation{Name: "finding", Version: "1"}, nil)
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	for _, id := range []string{`1`, `"9007199254740993"`, `9007199254740993`, `9223372036854775807`, `1.5`} {
		r := httptest.NewRequest("POST", "http://127.0.0.1/", strings.NewReader(`{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var got struct{ ID json.RawMessage }
		text, _ := io.ReadAll(w.Body)
		err := json.Unmarshal(text, &got)
		fmt.Println(id, "|", w.Code, string(got.ID), err)
	}
}
END
cat >want <<'END'
1 | 200 1 <nil>
"9007199254740993" | 200 "9007199254740993" <nil>
9007199254740993 | 200 9007199254740992 <nil>
9223372036854775807 | 200 -9223372036854775808 <nil>
1.5 | 200 1 <nil>
END
GOWORK=off GOFLAGS=-mod=mod go run . 2>got.err >got || { cat got.err; exit 1; }
diff want got
cat got
