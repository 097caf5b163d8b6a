package worklog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// all reads the lines from a position on.
func all(t *testing.T, folder string, from int64) (lines []string, end int64) {
	t.Helper()
	end, err := read(folder, "n", from, func(line []byte, _ int64) bool {
		lines = append(lines, string(line))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines, end
}

// TestFile: the last lines are in two bounded files, and a position means the same line before and after a file was full and the command
// was started again.
func TestFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "deep", "down")
	f, err := Open(folder, "n")
	if err != nil {
		t.Fatal(err)
	}
	f.limit = 1000
	var positions []int64
	line := func(i int) string { return fmt.Sprintf("line %03d %s", i, strings.Repeat("x", i%7)) }
	const n = 500
	for i := range n {
		if i%60 == 30 { // the command ends, in the middle of a line, and starts again
			if _, err := f.f.WriteString("half a li"); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if f, err = Open(folder, "n"); err != nil {
				t.Fatal(err)
			}
			f.limit = 1000
		}
		positions = append(positions, f.begins+f.size)
		if f.size+int64(len(line(i))) >= f.limit {
			positions[i] = f.begins + f.size // the same in the next file
		}
		if err := f.Add([]byte(line(i))); err != nil {
			t.Fatal(err)
		}
		got, _ := all(t, folder, positions[i])
		if len(got) != 1 || got[0] != line(i) {
			t.Fatalf("from %d there is %q, want %q", positions[i], got, line(i))
		}
	}
	defer f.Close()
	got, last := all(t, folder, 0)
	if first := n - len(got); len(got) < 50 || got[0] != line(first) || got[len(got)-1] != line(n-1) {
		t.Errorf("%d lines are there, from %q to %q", len(got), got[0], got[len(got)-1])
	}
	for i := n - len(got); i < n; i++ {
		if some, _ := all(t, folder, positions[i]); len(some) != n-i || some[0] != line(i) {
			t.Errorf("from the position of line %d there are %d lines", i, len(some))
		}
	}
	if e, err := end(folder, "n"); err != nil || e != last {
		t.Errorf("the end is %d, %v; want %d", e, err, last)
	}
	files, err := os.ReadDir(folder)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, d := range files {
		if i, err := d.Info(); err != nil || i.Size() > 1100 {
			t.Errorf("%s has %d bytes, %v", d.Name(), i.Size(), err)
		}
	}
}

// TestForeignFile: a file by one of the node's names that is something else stays as it is, also behind a link and when it comes while the log is
// written; no lines are read from it, and the error names it. An empty one is nobody's.
func TestForeignFile(t *testing.T) {
	for _, name := range []string{"n.log", "n.old.log"} {
		for _, text := range []string{"mine\nmine\n", `{"level":"info","msg":"mine"}` + "\n", `{"begins":0,"of":"another"}` + "\n", `{"begins":0}`, "link", ""} {
			folder, home := t.TempDir(), filepath.Join(t.TempDir(), "home")
			file := filepath.Join(folder, name)
			err := os.WriteFile(file, []byte(text), 0o600)
			if text == "link" {
				err = errors.Join(os.Remove(file), os.WriteFile(home, []byte(text), 0o600), os.Symlink(home, file))
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := read(folder, "n", 0, nil); name == "n.log" && (err == nil || !strings.Contains(err.Error(), "n.log")) {
				t.Errorf("%q: %v", text, err)
			}
			f, err := Open(folder, "n")
			if text == "" {
				if err != nil || f.Add([]byte("a")) != nil || f.Close() != nil {
					t.Errorf("%s, which is empty: %v", name, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s with %q is taken: %v", name, text, err)
			}
			if now, err := os.ReadFile(file); err != nil || string(now) != text {
				t.Errorf("%s with %q has %q, %v", name, text, now, err)
			}
		}
	}
	// It comes while the log is written.
	folder := t.TempDir()
	f, err := Open(folder, "n")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.limit = 10
	old := filepath.Join(folder, "n.old.log")
	if err := errors.Join(f.Add([]byte("a")), os.WriteFile(old, []byte("mine"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := f.Add([]byte(strings.Repeat("b", 10))); err == nil || !strings.Contains(err.Error(), "n.old.log") {
		t.Errorf("it is replaced: %v", err)
	}
	if now, err := os.ReadFile(old); err != nil || string(now) != "mine" {
		t.Errorf("%q, %v", now, err)
	}
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	if err := f.Add([]byte("c")); err != nil { // one more line fits
		t.Error(err)
	}
	if got, _ := all(t, folder, 0); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("%q", got)
	}
}

// TestFilesAreOfTheUser: nobody else can read the files, also those that were there before, and a folder that everybody may write to is refused.
func TestFilesAreOfTheUser(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes there")
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "n.log"), []byte("{\"begins\":7}\na\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Open(folder, "n")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, _ := all(t, folder, 0); !slices.Equal(got, []string{"a"}) {
		t.Errorf("%q", got)
	}
	if i, err := os.Stat(filepath.Join(folder, "n.log")); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(folder, "n"); err == nil || !strings.Contains(err.Error(), "others may write to "+folder) {
		t.Errorf("a folder of everybody is taken: %v", err)
	}
	if f, err := Open(filepath.Join(folder, "own"), "n"); err != nil || f.Close() != nil {
		t.Errorf("a new one below it: %v", err)
	}
}

// TestKeeper: each line is kept as JSON; shown is what came, or what people read; numbers are kept and not shown, secrets are shown and not kept. A
// line without the keeper's mark is plain output, whatever it looks like.
func TestKeeper(t *testing.T) {
	log := `{"ts":"2026-01-02T15:04:05.678Z","level":"info","msg":"up","n":1}`
	for _, pretty := range []bool{false, true} {
		folder := t.TempDir()
		k, err := NewKeeper(folder, "n", pretty)
		if err != nil {
			t.Fatal(err)
		}
		own, other := k.Mark().String(), newMark().String()
		if k.Mark() == NoKeeper(false).Mark() {
			t.Error("another keeper has the same mark")
		}
		var shown []string
		for _, line := range []string{"plain", log, own + log, own + "7", "no end" + own + "8", "no end" + own + log, own + "x", other + "9", other + log, own + "!secret", "!open"} {
			s, err := k.Keep("stdout", []byte(line))
			if err != nil {
				t.Error(err)
			}
			shown = append(shown, string(s))
		}
		up := log
		if pretty {
			l, _ := Parse([]byte(log))
			up = string(View{Colour: true}.Append(nil, &l))
		}
		if want := []string{"plain", log, up, "", "no end", "no end\n" + up, "x", other + "9", other + log, "secret", "!open"}; !slices.Equal(shown, want) {
			t.Errorf("shown:\n%q\nwant\n%q", shown, want)
		}
		var kept []string
		marks := uint64(0)
		lines, _ := all(t, folder, 0)
		for _, line := range lines {
			if m, ok := isMark([]byte(line)); ok {
				marks += m.Mark
				continue
			}
			l, ok := Parse([]byte(line))
			if !ok || l.Output == "" && isPlain([]byte(line)) || l.Output != "" && !isPlain([]byte(line)) || time.Since(l.Time) < -time.Minute {
				t.Errorf("kept: %s", line)
			}
			kept = append(kept, l.Output+":"+l.Text)
		}
		if want := []string{"stdout:plain", "stdout:" + log, ":up", "stdout:no end", "stdout:no end", ":up", "stdout:x", "stdout:" + other + "9", "stdout:" + other + log, "stdout:!open"}; !slices.Equal(kept, want) || marks != 15 {
			t.Errorf("kept: %q, marks %d", kept, marks)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		// What cannot be kept is shown, and told of once.
		if _, err := k.Keep("stdout", []byte("a")); err == nil || !strings.Contains(err.Error(), "keep the log") {
			t.Errorf("%v", err)
		}
		if s, err := k.Keep("stdout", []byte("b")); err != nil || !bytes.Equal(s, []byte("b")) {
			t.Errorf("%q, %v", s, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := NewKeeper(file, "n", false)
	if err == nil {
		t.Error("a file is no folder")
	}
	if s, err := k.Keep("stdout", []byte("b")); err != nil || string(s) != "b" || k.Close() != nil {
		t.Errorf("%q, %v", s, err)
	}
}
