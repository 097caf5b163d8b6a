package childserver_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/childserver"
)

// TestFind: the variable comes first, then bin/ of the folder or of one above it in the module, then PATH.
func TestFind(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("programs have other names there")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(path ...string) string {
		t.Helper()
		p := filepath.Join(append([]string{top}, path...)...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, nil, 0o700)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	deep := filepath.Dir(put("a", "b", "file"))
	t.Chdir(deep)
	t.Setenv("PATH", filepath.Join(top, "path"))
	l := childserver.Lookup{Name: "Odd", File: "odd-server-of-a-test", Variable: "ODD_SERVER_OF_A_TEST", Build: "make odd"}
	if got, err := l.Find(); !errors.Is(err, childserver.ErrNone) || !strings.Contains(err.Error(), "no Odd server is beside this program") || !strings.Contains(err.Error(), "run `make odd`") {
		t.Errorf("none: %q, %v", got, err)
	}
	put("path", l.File)
	put("bin", l.File)
	put("a", "bin", l.File)
	found := func(want string) {
		t.Helper()
		if got, err := l.Find(); err != nil || got != want {
			t.Errorf("%q, %v, want %s", got, err, want)
		}
	}
	found(filepath.Join(top, "path", l.File)) // no go.mod says that the folders above are of one module
	put("a", "go.mod")
	found(filepath.Join(top, "a", "bin", l.File))
	if err := os.Chmod(filepath.Join(top, "a", "bin", l.File), 0o707); err != nil {
		t.Fatal(err)
	}
	found(filepath.Join(top, "path", l.File)) // bin of the folder above the module is not looked at
	t.Setenv("PATH", "")
	if _, err := l.Find(); !errors.Is(err, childserver.ErrNone) || !strings.Contains(err.Error(), filepath.Join("a", "bin", l.File)+" is not taken: another user owns it") {
		t.Errorf("everybody may write to it: %v", err)
	}
	t.Setenv("PATH", filepath.Join(top, "path"))
	put("go.mod")
	if err := os.Remove(filepath.Join(top, "a", "go.mod")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(top, "a", "bin")); err != nil {
		t.Fatal(err)
	}
	found(filepath.Join(top, "bin", l.File))
	if err := os.RemoveAll(filepath.Join(top, "bin")); err != nil {
		t.Fatal(err)
	}
	found(filepath.Join(top, "path", l.File))
	t.Setenv(l.Variable, put("own", "server"))
	found(filepath.Join(top, "own", "server"))
	t.Setenv(l.Variable, filepath.Join(top, "nowhere"))
	if got, err := l.Find(); err == nil || errors.Is(err, childserver.ErrNone) || !strings.Contains(err.Error(), l.Variable) {
		t.Errorf("a variable that names nothing: %q, %v", got, err)
	}
}
