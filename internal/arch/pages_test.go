package arch_test

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// operatingLines is how many lines a page of docs/operating may have, operatingWords how many words a cell of a table there.
const (
	operatingLines = 200
	operatingWords = 40
)

// bar divides the cells of a row; one in a cell is written `\|`.
var bar = regexp.MustCompile(`(?:^|[^\\])\|`)

// longPages returns a line for each page of docs/operating that is too long or has too long a cell, or that docs/operating.md does not list.
func longPages(fsys fs.FS) (bad []string, read int, err error) {
	index, err := fs.ReadFile(fsys, "docs/operating.md")
	if err != nil {
		return nil, 0, err
	}
	names, err := fs.Glob(fsys, "docs/operating/*.md")
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, 0, err
		}
		if n := strings.Count(string(b), "\n"); n > operatingLines {
			bad = append(bad, fmt.Sprintf("%s has %d lines, %d are allowed", name, n, operatingLines))
		}
		for i, line := range strings.Split(string(b), "\n") {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for _, cell := range bar.Split(line, -1) {
				if n := len(strings.Fields(cell)); n > operatingWords {
					bad = append(bad, fmt.Sprintf("%s:%d has a cell of %d words, %d are allowed: say the rest below the table", name, i+1, n, operatingWords))
				}
			}
		}
		if !strings.Contains(string(index), "](operating/"+path.Base(name)+")") {
			bad = append(bad, "docs/operating.md does not list "+name)
		}
	}
	return bad, len(names), nil
}

// TestOperatingPages: an operator finds each page from docs/operating.md, and reads it in a few minutes.
func TestOperatingPages(t *testing.T) {
	bad, read, err := longPages(tree)
	check(t, bad, read, err)
}

func TestLongPagesAreFound(t *testing.T) {
	bad, _, err := longPages(fstest.MapFS{
		"docs/operating.md":      {Data: []byte("[a](operating/a.md) [long](operating/long.md)")},
		"docs/operating/a.md":    {Data: []byte("# A\n" + strings.Repeat("word ", 50) + "\n| a | " + strings.Repeat("word ", operatingWords+1) + "\\| b | c |\n")},
		"docs/operating/long.md": {Data: []byte(strings.Repeat("\n", operatingLines+1))},
		"docs/operating/z.md":    {Data: []byte("# Z\n")},
	})
	if err != nil || len(bad) != 3 || !strings.HasPrefix(bad[0], "docs/operating/a.md:3 has a cell of 43 words") ||
		!strings.HasPrefix(bad[1], "docs/operating/long.md has 201") || bad[2] != "docs/operating.md does not list docs/operating/z.md" {
		t.Error(bad, err)
	}
}

var (
	fenced  = regexp.MustCompile("(?ms)^[ \t]*```.*?^[ \t]*```")
	linked  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	// dropped is what GitHub takes out of a heading to make its anchor.
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors of a page's headings.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return found
}

// deadLinks returns a line for each link of a page that leads to no file, or to no heading of its page.
func deadLinks(fsys fs.FS) (bad []string, links int, err error) {
	texts := map[string]string{}
	for _, pattern := range words("*.md docs/*.md docs/*/*.md docs/*/*/*.md") {
		names, err := fs.Glob(fsys, pattern)
		if err != nil {
			return nil, 0, err
		}
		for _, name := range names {
			b, err := fs.ReadFile(fsys, name)
			if err != nil {
				return nil, 0, err
			}
			texts[name] = string(b)
		}
	}
	for name, text := range texts {
		for _, m := range linked.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := fs.Stat(fsys, target); err != nil {
				bad = append(bad, name+" links "+m[1]+": there is no such file")
			} else if page, read := texts[target]; anchor != "" && read && !anchors(page)[anchor] {
				bad = append(bad, name+" links "+m[1]+": "+target+" has no such heading")
			}
		}
	}
	slices.Sort(bad)
	return bad, links, nil
}

// TestLinks: a link of a page leads somewhere.
func TestLinks(t *testing.T) {
	bad, links, err := deadLinks(tree)
	check(t, bad, links, err)
}

func TestDeadLinksAreFound(t *testing.T) {
	bad, links, err := deadLinks(fstest.MapFS{
		"README.md": {Data: []byte("[a](docs/a.md#one-two) [gone](docs/b.md) [no](docs/a.md#three) [web](https://x/y)\n```\n[x](y)\n```\n[self](#top)\n# Top\n")},
		"docs/a.md": {Data: []byte("# A\n## One, `two`!\n[up](../README.md)\n")},
	})
	want := []string{"README.md links docs/a.md#three: docs/a.md has no such heading", "README.md links docs/b.md: there is no such file"}
	if err != nil || links != 5 || !slices.Equal(bad, want) {
		t.Error(bad, links, err)
	}
}
