//go:build unix

package embedded_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/raysys/raysys/store"
	"github.com/raysys/raysys/store/embedded"
)

func set(t testing.TB, kv store.KV, key, value string) store.Pair {
	t.Helper()
	p, err := kv.Txn(t.Context(), []store.Op{store.Set(key, []byte(value))})
	if err != nil {
		t.Fatal(err)
	}
	return p[0]
}

func get(t testing.TB, kv store.KV, key string) store.Pair {
	t.Helper()
	p, err := kv.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReopened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "on the way")
	s := open(t, embedded.Config{Dir: dir})
	a := set(t, s, "a", "1")
	set(t, s, "b", "2")
	ses, err := s.NewSession(t.Context(), "node", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	lock := []store.Op{store.Lock("leaders/00", nil, ses), store.Lock("was held", nil, ses), store.Delete("b")}
	held, err := s.Txn(t.Context(), lock)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Txn(t.Context(), []store.Op{store.Unlock("was held", []byte("x"), ses)}); err != nil {
		t.Fatal(err)
	}
	_, index, err := s.List(t.Context(), "", store.Consistent)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = open(t, embedded.Config{Dir: dir})
	if p := get(t, s, "a"); string(p.Value) != "1" || p.Create != a.Create || p.Modify != a.Modify {
		t.Errorf("reopened: %+v, was %+v", p, a)
	}
	if p := get(t, s, "was held"); string(p.Value) != "x" || p.Session != "" {
		t.Errorf("reopened: %+v", p)
	}
	keys, err := s.Keys(t.Context(), "")
	if err != nil || strings.Join(keys, " ") != "a was held" {
		t.Errorf("reopened with keys %q, %v: the session ended with its process, and its key too", keys, err)
	}
	if alive, err := s.Session(t.Context(), ses); alive || err != nil {
		t.Errorf("the session outlived its process: %v, %v", alive, err)
	}
	// Watches of before the restart learn that the key went; epochs grow.
	if _, now, err := s.Watch(t.Context(), "leaders/", index); err != nil || now <= index {
		t.Errorf("watch from %d: index %d, %v", index, now, err)
	}
	if p := set(t, s, "leaders/00", ""); p.Create <= held[0].Create {
		t.Errorf("created at %d, before the restart at %d", p.Create, held[0].Create)
	}
}

// holdOpen opens the store, says so, and waits for its input to end.
func holdOpen(dir string) error {
	kv, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		return err
	}
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return kv.Close()
}

func TestTwoProcessesAreRefused(t *testing.T) {
	dir := t.TempDir()
	cmd := child(t, "hold", dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "open\n" {
		t.Fatalf("%q, %v", line, err)
	}
	start := time.Now()
	_, err = embedded.Open(embedded.Config{Dir: dir})
	if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), strconv.Itoa(cmd.Process.Pid)) {
		t.Errorf("second process: %v, want ErrInUse with the directory and process %d", err, cmd.Process.Pid)
	}
	if d := time.Since(start); d > time.Minute {
		t.Errorf("it took %v to be refused", d)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	s := open(t, embedded.Config{Dir: dir})
	if _, err := embedded.Open(embedded.Config{Dir: dir}); !errors.Is(err, store.ErrInUse) {
		t.Errorf("twice in one process: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Whatever is damaged in the file: Open says so, or what it opens is what was written. It never panics.
func TestDamagedFile(t *testing.T) {
	dir := t.TempDir()
	s := open(t, embedded.Config{Dir: dir})
	for i := range 200 {
		set(t, s, fmt.Sprint("key ", i), strings.Repeat(fmt.Sprint(i), 100))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, b []byte) (refused bool) {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "store.db"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := embedded.Open(embedded.Config{Dir: dir})
		if err != nil {
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), dir) {
				t.Errorf("%s: %v, want ErrCorrupt with the directory", what, err)
			}
			return true
		}
		defer s.Close()
		pairs, _, err := s.List(t.Context(), "", store.Consistent)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, p := range pairs {
			var i int
			if _, err := fmt.Sscanf(p.Key, "key %d", &i); err != nil || string(p.Value) != strings.Repeat(fmt.Sprint(i), 100) {
				t.Errorf("%s: opened with %q = %q", what, p.Key, p.Value)
			}
		}
		return false
	}
	if !try("no bbolt file", bytes.Repeat([]byte("hello "), 10_000)) || !try("half a file", good[:len(good)/2/4096*4096]) || !try("three bytes", good[:3]) {
		t.Error("a file that cannot be the store's was opened")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	const tries = 150
	for i := range tries {
		bad := append([]byte(nil), good...)
		// A page of noise, a flipped byte, or a page of zeros.
		at := rng.IntN(len(bad)/4096) * 4096
		switch i % 3 {
		case 0:
			for j := range 4096 {
				bad[at+j] = byte(rng.Uint32())
			}
		case 1:
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
		case 2:
			clear(bad[at : at+4096])
		}
		if try(fmt.Sprint("damage ", i), bad) {
			refused++
		}
	}
	if refused < tries/10 {
		t.Errorf("%d of %d damages were noticed", refused, tries)
	}
}

func TestNewerFormat(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, embedded.Config{Dir: dir}).Close(); err != nil {
		t.Fatal(err)
	}
	setFormat(t, dir, 2)
	if _, err := embedded.Open(embedded.Config{Dir: dir}); !errors.Is(err, store.ErrTooNew) {
		t.Fatalf("a newer format: %v, want ErrTooNew", err)
	}
}

// fillUp writes under a limit of the system on the file's size, as a full disk would be.
func fillUp(dir string) error {
	kv, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ) // writes fail with EFBIG then
	limit := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	err = fill(context.Background(), kv)
	return errors.Join(err, kv.Close())
}

// fill writes until the store is full and checks that it lives on: what was refused is not there, reads work, and what
// is deleted makes room.
func fill(ctx context.Context, kv store.KV) error {
	value := make([]byte, 10<<10)
	n := 0
	for ; ; n++ {
		_, err := kv.Txn(ctx, []store.Op{store.Set(fmt.Sprint("fill/", n), value)})
		if errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome) && strings.Contains(err.Error(), "make room") {
			break
		}
		if err != nil {
			return fmt.Errorf("write %d: %w", n, err)
		}
		if n == 1000 {
			return errors.New("10 MB fit")
		}
	}
	keys, err := kv.Keys(ctx, "fill/")
	if err != nil || len(keys) != n {
		return fmt.Errorf("%d keys after %d writes and a refused one: %v", len(keys), n, err)
	}
	if _, err := kv.Txn(ctx, []store.Op{store.DeleteTree("fill/1")}); err != nil {
		return fmt.Errorf("delete on a full disk: %w", err)
	}
	if _, err := kv.Txn(ctx, []store.Op{store.Set("fill/again", value)}); err != nil {
		return fmt.Errorf("write after a delete: %w", err)
	}
	return nil
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if out, err := child(t, "fill", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s := open(t, embedded.Config{Dir: dir})
	get(t, s, "fill/again")
	get(t, s, "fill/0")
	if keys, err := s.Keys(t.Context(), "fill/1"); len(keys) != 0 {
		t.Errorf("deleted keys are back: %q, %v", keys, err)
	}
}

func TestMaxBytes(t *testing.T) {
	if err := fill(t.Context(), open(t, embedded.Config{Dir: t.TempDir(), MaxBytes: 1 << 20})); err != nil {
		t.Fatal(err)
	}
}

// openOnly opens the store and closes it.
func openOnly(dir string) error {
	kv, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		return err
	}
	return kv.Close()
}

// A directory without write permission. Root may write everywhere, so that root runs the child as nobody.
func TestReadOnlyDirectory(t *testing.T) {
	top, err := os.MkdirTemp("", "embedded")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	copied, dir := filepath.Join(top, "child"), filepath.Join(top, "data")
	if err := errors.Join(os.WriteFile(copied, binary, 0o755), os.Mkdir(dir, 0o555), os.Chmod(top, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := child(t, "open", dir)
	cmd.Path = copied
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), dir) || !strings.Contains(string(out), "must be able to write there") {
		t.Fatalf("a directory that cannot be written: %v: %s", err, out)
	}
	if _, err := embedded.Open(embedded.Config{Dir: copied}); err == nil || !strings.Contains(err.Error(), copied) {
		t.Errorf("a directory that is a file: %v", err)
	}
}

// TestOwnerOfAnother: a file by the name of the owner's that has no process's id in it is another program's, also behind a link, and stays.
func TestOwnerOfAnother(t *testing.T) {
	for what, text := range map[string]string{"a file": "me\n", "a link": "", "many digits": strings.Repeat("1", 40)} {
		dir, home := t.TempDir(), filepath.Join(t.TempDir(), "home")
		file := filepath.Join(dir, "owner")
		err := os.WriteFile(file, []byte(text), 0o600)
		if text == "" {
			text = "mine"
			err = errors.Join(os.Remove(file), os.WriteFile(home, []byte(text), 0o600), os.Symlink(home, file))
		}
		if err != nil {
			t.Fatal(err)
		}
		s, err := embedded.Open(embedded.Config{Dir: dir})
		if err == nil {
			s.Close()
			t.Errorf("%s is taken", what)
		} else if !strings.Contains(err.Error(), file) {
			t.Error(err)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != text {
			t.Errorf("%s has %q now, %v", what, now, err)
		}
	}
}
