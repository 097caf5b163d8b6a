package page

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// TestFiles: the page is served with types of its own, and what a file names is there.
func TestFiles(t *testing.T) {
	s := serving(t, &fake{})
	get := func(name string) (int, string, string) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, request("/"+name))
		return w.Code, w.Header().Get("Content-Type"), w.Body.String()
	}
	if code, kind, body := get(""); code != http.StatusOK || kind != "text/html; charset=utf-8" || !strings.Contains(body, "<title>raysys</title>") {
		t.Errorf("%d %s %.100s", code, kind, body)
	}
	names := regexp.MustCompile(`(?:src|href|from) ?=?["'](?:\./)?([a-z./]+\.(?:js|css|svg))["']|from ?["']\./([a-z./]+)["']`)
	seen := 0
	err := fs.WalkDir(files, "files", func(file string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(file, "files/")
		if err != nil || d.IsDir() || types[path.Ext(name)] == "" {
			return err
		}
		code, kind, body := get(name)
		if code != http.StatusOK || kind != types[path.Ext(name)]+"; charset=utf-8" {
			t.Errorf("%s: %d %s", name, code, kind)
		}
		for _, m := range names.FindAllStringSubmatch(body, -1) {
			to := path.Join(path.Dir(name), m[1]+m[2])
			if code, _, _ := get(to); code != http.StatusOK {
				t.Errorf("%s names %s: %d", name, to, code)
			}
			seen++
		}
		if strings.HasPrefix(name, "vendor/") {
			return nil
		}
		// Every name is text, never HTML; nothing comes from elsewhere, and nothing is in the page's own HTML that its policy forbids.
		for _, never := range []string{"innerHTML", "dangerouslySetInnerHTML", "document.write", "eval(", "https://", "onclick=", "<style", "style=", "<script>"} {
			if strings.Contains(body, never) {
				t.Errorf("%s has %s", name, never)
			}
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Errorf("%d names: %v", seen, err)
	}
	for _, name := range []string{"vendor/README.md", "files", "vendor/", "vendor", "../page.go", "app.js/", "doc.go"} {
		if code, _, _ := get(name); code == http.StatusOK {
			t.Errorf("%s is served", name)
		}
	}
}

// TestMissed: the page shows for which reasons a schedule missed times, as the commands do.
func TestMissed(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no Node.js here: apt-get install nodejs")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for given, want := range map[string]string{
		`{}`:              "0",
		`{"missed":1007}`: "1,007",
		`{"missed":12,"left":{"late":3,"overlap":9,"full":0}}`:             "12: 9 overlap, 3 late",
		`{"missed":10,"left":{"unknown":4,"full":3,"late":2,"overlap":1}}`: "10: 1 overlap, 2 late, 3 full, 4 unknown",
		`{"missed":9,"left":{"z":4,"":1,"constructor":2,"full":2}}`:        "9: 2 full, 1 –, 2 constructor, 4 z",
	} {
		run := exec.Command(node, "--input-type=module", "-e", "import { missed } from './files/lib.js'; console.log(missed("+given+"))")
		run.Dir = dir
		if out, err := run.CombinedOutput(); strings.TrimSpace(string(out)) != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", given, out, err, want)
		}
	}
}

// TestCopiedCommands: a shell that gets a command of the page sees the name that was meant, and the terminal before it nothing but text.
func TestCopiedCommands(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no Node.js here: apt-get install nodejs")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash here")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	names := []string{"main.square", "kind/key.m", "it's $HOME \\ `x`", "ü", "", "=ls", "-n", "a\nrm x\n", "\x1b[201~\rf0\n", "it's\u009bK\\\u202e9", "\U0001f600\U000e0001", "~", "%1"}
	given, err := json.Marshal(names)
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(node, "--input-type=module", "-e", "import { word } from './files/lib.js'; console.log(JSON.stringify("+string(given)+".map(word)))")
	run.Dir = dir
	out, err := run.Output()
	var words []string
	if err != nil || json.Unmarshal(out, &words) != nil || len(words) != len(names) {
		t.Fatalf("%q, %v", out, err)
	}
	for i, w := range words {
		if strings.ContainsFunc(w, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is %q", names[i], w)
		}
		if got, err := exec.Command(bash, "-c", "printf %s "+w).Output(); err != nil || string(got) != names[i] {
			t.Errorf("%q is %s, for the shell %q, %v", names[i], w, got, err)
		}
	}
	if plain := strings.Join(words[:2], " "); plain != "main.square kind/key.m" {
		t.Errorf("quoted without need: %s", plain)
	}
}

// TestVendored: what is of others comes with its licence and its version.
func TestVendored(t *testing.T) {
	says, err := files.ReadFile("files/vendor/README.md")
	if err != nil {
		t.Fatal(err)
	}
	all, err := fs.ReadDir(files, "files/vendor")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if name := f.Name(); name != "README.md" && !strings.Contains(string(says), name) {
			t.Errorf("vendor/README.md does not name %s", name)
		}
	}
	for file, part := range map[string]string{"LICENSE.preact": "The MIT License (MIT)", "LICENSE.htm": "Apache License"} {
		if text, err := files.ReadFile("files/vendor/" + file); err != nil || !strings.Contains(string(text), part) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
