package testkit_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// fake is a testing.TB that records what a Kit reports about a test that is meant to fail.
type fake struct {
	testing.TB
	name     string
	cleanups []func()
	errors   []string
	logs     []string
	fatal    bool
}

func (f *fake) Helper()      {}
func (f *fake) Name() string { return f.name }
func (f *fake) TempDir() string {
	dir, err := os.MkdirTemp("", "fake")
	if err != nil {
		panic(err)
	}
	f.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
func (f *fake) Failed() bool              { return len(f.errors) > 0 }
func (f *fake) Cleanup(c func())          { f.cleanups = append(f.cleanups, c) }
func (f *fake) Context() context.Context  { return context.Background() }
func (f *fake) Logf(s string, a ...any)   { f.logs = append(f.logs, fmt.Sprintf(s, a...)) }
func (f *fake) Errorf(s string, a ...any) { f.errors = append(f.errors, fmt.Sprintf(s, a...)) }
func (f *fake) Fatalf(s string, a ...any) {
	f.Errorf(s, a...)
	f.fatal = true
	runtime.Goexit()
}

// run executes body as a test of its own, cleanups included.
func (f *fake) run(body func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(f.cleanups) - 1; i >= 0; i-- {
				f.cleanups[i]()
			}
		}()
		body()
	}()
	<-done
}

func (f *fake) want(t *testing.T, parts ...string) {
	t.Helper()
	all := strings.Join(f.errors, "\n")
	for _, p := range parts {
		if !strings.Contains(all, p) {
			t.Errorf("reported %q, want %q in it", all, p)
		}
	}
	if len(parts) == 0 && all != "" {
		t.Errorf("reported %q, want nothing", all)
	}
}
