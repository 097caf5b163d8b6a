package cli_test

import (
	"testing"

	"github.com/raysys/raysys/cmd/internal/cli"
)

// TestRedact: no message has a password.
func TestRedact(t *testing.T) {
	for given, want := range map[string]string{
		"": "", "127.0.0.1:8500": "127.0.0.1:8500", "http://a:1/,b:2": "http://a:1/,b:2",
		"http://me:secret@a:1/":             "http://...@a:1/",
		"https://secret@a:1,me:secret@b:2":  "https://...@b:2",
		"http://me:se,cret@a:1/":            "http://...@a:1/",
		"me:secret@a:1":                     "...@a:1",
		"http://me:se/c@ret?x@a:1/?token=s": "http://...@a:1/?...",
		"http://a/#secret":                  "http://a/#...",
		"owner=me@example.com,zone=1":       "owner=me@example.com,zone=1",
		"page=http://me:secret@a":           "page=http://...@a",
	} {
		if got := cli.Redact(given); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}
