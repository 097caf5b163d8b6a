package main

import (
	"os"
	"strings"
	"testing"

	"github.com/raysys/raysys/testkit"
)

func TestCounter(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	alice := counters.Get("alice")
	add.Call(ctx, alice, 5)
	got, err := add.Call(ctx, alice, 2).Get(ctx)
	if got != 7 || err != nil {
		t.Fatal(got, err)
	}
}

// The README shows this program and the test above as they are.
func TestReadmeShowsThisCode(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, from := range map[string]string{"main.go": "var square", "main_test.go": "func TestCounter"} {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, ok := strings.Cut(string(readme), "<!-- examples/quickstart/"+file+" -->\n```go\n")
		if !ok {
			t.Fatalf("README.md has no block for %s", file)
		}
		block, _, _ := strings.Cut(rest, "```")
		if !strings.Contains(string(src), block) || !strings.HasPrefix(block, from) {
			t.Errorf("the block of %s in README.md is not in the file; the block is:\n%s", file, block)
		}
	}
}
