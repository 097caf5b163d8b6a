package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// retired are words that no identifier may have, and what to say instead. docs/internals/vocabulary.md has the words in use.
var retired = map[string]string{
	"loan": "borrow", "loans": "borrows", "lending": "pending exports", "vias": "lenders", "buried": "dead",
	"burial": "reap, reaper", "bury": "reap", "gravedigger": "reaper",
	"vigil": "failure detector", "condemned": "evicted",
	"heir": "target", "heirs": "targets", "legacy": "target", "legacies": "targets", "bequeath": "evacuate", "bequest": "copy left",
	"inmate": "child", "inmates": "children", "household": "local cluster",
	"guest": "inbound task", "guests": "inbound tasks", "traveller": "outbound task", "travellers": "outbound tasks",
	"afar": "data-local", "bounce": "give back", "bounced": "given back",
	"rider": "zero-CPU task", "riders": "zero-CPU tasks", "ebb": "drained", "ebbed": "drained", "shed": "give back",
	"seat": "participant", "seats": "participants", "roster": "coordinator",
	"knock": "join", "knocks": "joins", "rumour": "event", "rumours": "events",
}

// camel splits an identifier into its words, in lower case.
func camel(name string) (words []string) {
	begin := 0
	for i, r := range name {
		if i > begin && (unicode.IsUpper(r) || r == '_') {
			words = append(words, strings.ToLower(strings.Trim(name[begin:i], "_")))
			begin = i
		}
	}
	return append(words, strings.ToLower(strings.Trim(name[begin:], "_")))
}

// retiredWords returns a line for each declaration below the root of fsys that has a retired word in its name, and for
// each file.
func retiredWords(fsys fs.FS) (bad []string, err error) {
	err = goFiles(fsys, false, func(name string, src []byte) error {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		say := func(where, id string) {
			for _, w := range camel(id) {
				if instead, ok := retired[w]; ok {
					bad = append(bad, where+": "+id+": the word "+w+" is retired: say "+instead)
				}
			}
		}
		say(name, strings.TrimSuffix(path.Base(name), ".go"))
		seen := map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && !seen[id.Name] {
				seen[id.Name] = true
				say(set.Position(id.Pos()).String(), id.Name)
			}
			return true
		})
		return nil
	})
	return bad, err
}

// TestRetiredWords: a concept has one word, in the whole module.
func TestRetiredWords(t *testing.T) {
	bad, err := retiredWords(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bad {
		t.Error(line)
	}
}

// TestRetiredWordsAreFound: each retired word is found by itself, in names of files, types and variables, and in no other
// word.
func TestRetiredWordsAreFound(t *testing.T) {
	bad, err := retiredWords(fstest.MapFS{
		"a/heirs.go": {Data: []byte("package a\n\ntype vigilTable struct{ maxSeats int }\n\nfunc finished(indoors int) {}\n")},
	})
	if err != nil || len(bad) != 3 {
		t.Fatalf("want heirs.go, vigilTable and maxSeats, got %q, %v", bad, err)
	}
	list := words(`loan loans vias lending burial bury buried gravedigger vigil condemned heir heirs legacy legacies bequeath bequest inmate inmates
		household guest guests traveller travellers afar bounce bounced rider riders ebb ebbed shed seat seats roster knock knocks
		rumour rumours`)
	for _, w := range list {
		upper := strings.ToUpper(w[:1]) + w[1:]
		bad, err := retiredWords(fstest.MapFS{"a/a.go": {Data: []byte("package a\n\nfunc old" + upper + "Of(" + w + " int) {}\n")}})
		if err != nil || len(bad) != 2 {
			t.Errorf("the retired word %q may be used: found %q, %v", w, bad, err)
		}
	}
	for w, instead := range retired {
		if instead == "" || !slices.Contains(list, w) {
			t.Errorf("the retired word %q needs a word to say instead, and a place in the list of this test", w)
		}
	}
}
