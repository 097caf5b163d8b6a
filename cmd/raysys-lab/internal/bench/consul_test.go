package bench

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/consultest"
)

func TestReachConsul(t *testing.T) {
	consultest.Needed(t)
	c, err := server()
	if err != nil {
		t.Fatal(err)
	}
	if err := ReachConsul(t.Context(), c.Address()); err != nil {
		t.Error(err)
	}
	if err := ReachConsul(t.Context(), "127.0.0.1:1"); err == nil || !strings.Contains(err.Error(), "no Consul answers at 127.0.0.1:1") {
		t.Errorf("a server that is not there is reached: %v", err)
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
