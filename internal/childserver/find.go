package childserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// ErrNone is that there is no server where Find looks.
var ErrNone = errors.New("no server")

// Lookup says what to find.
type Lookup struct {
	Name     string // of the server, for messages
	File     string // of its program, but for .exe
	Variable string // of the environment, which names the program
	Build    string // the command that builds it, for messages
}

// Find returns the path of a server where a person may have put one: the variable, beside this program, bin/ of this folder
// or of one above it up to that of the module, PATH. Outside a module it is bin/ of this folder alone. Of the files that nothing names, it takes those
// that other users can neither own nor write. ErrNone when the variable is not set and no server is in the other places.
func (l Lookup) Find() (string, error) {
	if program := os.Getenv(l.Variable); program != "" {
		path, err := exec.LookPath(program)
		if err != nil {
			return "", fmt.Errorf("%s: %w", l.Variable, err)
		}
		return filepath.Abs(path)
	}
	name := l.File
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	var refused []string
	take := func(path string) bool {
		i, err := os.Stat(path)
		if err != nil || !i.Mode().IsRegular() {
			return false
		}
		if !safe(i) {
			refused = append(refused, path)
			return false
		}
		return true
	}
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), name); take(path) {
			return path, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find a %s server: %w: set %s", l.Name, err, l.Variable)
	}
	for _, dir := range upToModule(dir) {
		if path := filepath.Join(dir, "bin", name); take(path) {
			return path, nil
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	return "", noneError{l, refused}
}

// noneError matches ErrNone and says what to do.
type noneError struct {
	l       Lookup
	refused []string
}

func (e noneError) Error() string {
	s := fmt.Sprintf("no %s server is beside this program, in bin/ here or above in this module, nor in PATH: run `%s` in the module's folder, or set %s", e.l.Name, e.l.Build, e.l.Variable)
	for _, path := range e.refused {
		s += fmt.Sprintf("; %s is not taken: another user owns it or may write to it", path)
	}
	return s
}

func (noneError) Is(target error) bool { return target == ErrNone }

// upToModule is dir and those above it up to the one with a go.mod; dir alone where there is none.
func upToModule(dir string) (list []string) {
	for at := dir; ; at = filepath.Dir(at) {
		list = append(list, at)
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return list
		}
		if at == filepath.Dir(at) {
			return []string{dir}
		}
	}
}
