package door

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
)

// FuzzPath: a path names a function as its parts are, each unescaped once, and a key that any other writing of it gives
// too; none is read that proxies would change.
func FuzzPath(f *testing.F) {
	for _, p := range []string{
		"grain/a.b/add/k", "grain/a.b/add/a%2Fb", "grain/a.b/add?key=", "grain/a.b/add/%2e%2e", "grain/a.b/add/%FF%00", "grain/a.b/add/%zz", "grain//add/k", "task/a%2Fb", "task/a%2Fb/r/1",
		"feed/a.b/add/k?last=5", "grain/a.b/add/a//b", "grain/a.b/add/k?key=k", "grain/a%2eb/add/k?key=k&key=l", "task/a%2Fb/", "grain/a.b/add/k?%zz", "/grain/a.b/add/k", "",
	} {
		f.Add(p)
	}
	d := &Door{marks: map[name]*mark{}}
	for _, n := range []name{{"grain", "a.b", "add"}, {"feed", "a.b", "add"}, {"task", "", "a/b"}} {
		d.marks[n] = &mark{name: n}
	}
	f.Fuzz(func(t *testing.T, p string) {
		u, err := url.ParseRequestURI("/call/" + p)
		if err != nil {
			return
		}
		x := &request{Door: d, r: httptest.NewRequest(http.MethodPost, "/", nil)}
		x.r.URL = u
		var rest string
		if x.mark, rest = d.found(strings.TrimPrefix(u.EscapedPath(), "/call/")); x.mark == nil || x.readKey(rest) != nil {
			return
		}
		if !x.has {
			if x.mark.form != "task" || x.key != "" {
				t.Fatalf("%q: no key, for %+v", p, x.mark.name)
			}
			return
		}
		m := x.mark.name
		at := "/call/" + m.form + "/" + url.PathEscape(m.kind) + "/" + url.PathEscape(m.function)
		if m.form == "task" {
			at = "/call/task/" + url.PathEscape(m.function)
		}
		again := &request{Door: d, r: httptest.NewRequest(http.MethodPost, at+"?key="+url.QueryEscape(x.key), nil)}
		again.mark, rest = d.found(strings.TrimPrefix(again.r.URL.EscapedPath(), "/call/"))
		if err := again.readKey(rest); err != nil || again.mark != x.mark || again.key != x.key {
			t.Fatalf("%q is %+v %q, and as ?key= %+v %q %v", p, m, x.key, again.mark, again.key, err)
		}
		for part := range strings.SplitSeq(x.key, "/") {
			if rest := u.Query().Has("key"); !rest && (part == "" || part == "." || part == "..") {
				t.Fatalf("%q: the key %q is read of a path", p, x.key)
			}
		}
	})
}

// FuzzTokens: a file is read whole, or refused with a text that has no token; each token is one that a header can have.
func FuzzTokens(f *testing.F) {
	const token = "0123456789abcdef"
	for _, text := range []string{
		"alice " + token, "# a\n\nalice\t" + token + "\r\nbob " + token + "0", "alice " + token + "\nbob " + token, "alice " + token[1:], "alice", "alice " + token + " x",
		"alice " + token + "\x00", "alice ü" + token, strings.Repeat("x", 70<<10), "\xff " + token, "# " + token,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := filepath.Join(t.TempDir(), "tokens")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := readTokens(file)
		if err != nil {
			for _, word := range strings.Fields(text) {
				if len(word) >= leastToken && strings.Contains(strings.ReplaceAll(err.Error(), file, ""), word) {
					t.Fatalf("%q: %v", text, err)
				}
			}
			return
		}
		lines := 0
		for line := range strings.SplitSeq(text, "\n") {
			parts := strings.Fields(line)
			if len(parts) == 0 || parts[0][0] == '#' {
				continue
			}
			lines++
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.Header.Set("Authorization", "Bearer "+parts[1])
			who := &tokens{file: file}
			if caller, err := who.who(r, Work{}); caller != parts[0] || err != nil {
				t.Fatalf("%q: %q of the line %q: %v", text, caller, line, err)
			}
			if strings.IndexFunc(parts[1], func(r rune) bool { return r > unicode.MaxASCII || r < ' ' }) >= 0 {
				t.Fatalf("%q is a token", parts[1])
			}
		}
		if lines != len(list) {
			t.Fatalf("%q has %d lines, and %d tokens", text, lines, len(list))
		}
	})
}
