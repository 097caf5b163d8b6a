package consulserver_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/raysys/raysys/internal/consulserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	t.Setenv("CONSUL_HTTP_ADDR", "127.0.0.1:1") // about another server
	s, err := consulserver.Run(t.Context(), consulserver.Options{Disk: true, OwnGroup: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), http.MethodPut, "/v1/kv/key", "value"); err != nil {
		t.Error(err)
	}
	if logs, err := filepath.Glob(filepath.Join(s.Dir(), "data", "raft", "*")); err != nil || len(logs) == 0 {
		t.Errorf("the server's data is not on disk below %s: %q, %v", s.Dir(), logs, err)
	}
	if err := errors.Join(s.Kill(), s.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), http.MethodGet, "/v1/kv/key", nil); err != nil {
		t.Errorf("what was on disk is gone after a restart: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Dir()); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", s.Dir(), err)
	}
	if p, err := os.FindProcess(s.PID()); err == nil && runtime.GOOS != "windows" && p.Signal(syscall.Signal(0)) == nil {
		t.Errorf("process %d is still there", s.PID())
	}
	if _, err := s.Call(t.Context(), http.MethodGet, "/v1/catalog/nodes", nil); err == nil {
		t.Error("a server that has ended is reached")
	}
}

func TestRunThatFails(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if _, err := consulserver.Run(t.Context(), consulserver.Options{Program: "/nonexistent/consul"}); err == nil || !strings.Contains(err.Error(), "start Consul") {
		t.Errorf("a binary that is not there: %v", err)
	}
	script := filepath.Join(t.TempDir(), "consul")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho agent: no such luck\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := consulserver.Run(t.Context(), consulserver.Options{Program: script}); err == nil || !strings.Contains(err.Error(), "it ended: agent: no such luck") {
		t.Errorf("a server that ends: %v", err)
	}
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec cat /dev/zero >/dev/null\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := consulserver.Run(ctx, consulserver.Options{Program: script}); !errors.Is(err, why) {
		t.Errorf("a server that does not serve, under a cancelled context: %v", err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
