package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/store"
)

func TestStartConsul(t *testing.T) {
	path, err := consultest.Binary()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1") // about another server
	c, err := StartConsul(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := ReachConsul(t.Context(), c.Address()); err != nil {
		t.Error(err)
	}
	kv, err := openStore(c.Address(), "raysys/test/")
	if err != nil {
		t.Fatal(err)
	}
	defer kv.Close()
	if _, err := kv.Txn(t.Context(), []store.Op{store.Set("key", []byte("value"))}); err != nil {
		t.Error(err)
	}
	if logs, err := filepath.Glob(filepath.Join(c.Dir(), "data", "raft", "*")); err != nil || len(logs) == 0 {
		t.Errorf("the server's data is not on disk below %s: %q, %v", c.Dir(), logs, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.Dir()); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", c.Dir(), err)
	}
	if p, err := os.FindProcess(c.PID()); err == nil && runtime.GOOS != "windows" && p.Signal(syscall.Signal(0)) == nil {
		t.Errorf("process %d is still there", c.PID())
	}
	if err := ReachConsul(t.Context(), c.Address()); err == nil || !strings.Contains(err.Error(), "no Consul answers at "+c.Address()) {
		t.Errorf("a server that has ended is reached: %v", err)
	}
}

func TestStartConsulThatFails(t *testing.T) {
	left := func() int {
		dirs, err := filepath.Glob(filepath.Join(os.TempDir(), "raysys-bench-consul-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(dirs)
	}
	t.Setenv("TMPDIR", t.TempDir())
	if _, err := StartConsul(t.Context(), "/nonexistent/consul"); err == nil || !strings.Contains(err.Error(), "start Consul") {
		t.Errorf("a binary that is not there: %v", err)
	}
	script := filepath.Join(t.TempDir(), "consul")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho agent: no such luck\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := StartConsul(t.Context(), script); err == nil || !strings.Contains(err.Error(), "it ended: agent: no such luck") {
		t.Errorf("a server that ends: %v", err)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec cat /dev/zero >/dev/null\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := StartConsul(ctx, script); !errors.Is(err, why) {
		t.Errorf("a server that does not serve, under a cancelled context: %v", err)
	}
	if n := left(); n > 0 {
		t.Errorf("%d directories are left behind", n)
	}
}

func TestFindConsul(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the names differ")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("PATH", filepath.Join(dir, "path"))
	var selection *SelectionError
	if p, err := FindConsul(); !errors.As(err, &selection) || !strings.Contains(err.Error(), "make consul") || !strings.Contains(err.Error(), "--consul HOST:PORT") {
		t.Errorf("FindConsul() = %q, %v", p, err)
	}
	for _, place := range []string{"path", "bin"} { // the later wins
		if err := os.Mkdir(place, 0o700); err != nil {
			t.Fatal(err)
		}
		want := filepath.Join(dir, place, "consul")
		if err := os.WriteFile(want, nil, 0o700); err != nil {
			t.Fatal(err)
		}
		if p, err := FindConsul(); err != nil || p != want {
			t.Errorf("FindConsul() = %q, %v; want %q", p, err, want)
		}
	}
}
