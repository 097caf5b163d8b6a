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
// or of one above it, PATH. ErrNone when the variable is not set and no server is in the other places.
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
	if self, err := os.Executable(); err == nil {
		if path := filepath.Join(filepath.Dir(self), name); isFile(path) {
			return path, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find a %s server: %w: set %s", l.Name, err, l.Variable)
	}
	for {
		if path := filepath.Join(dir, "bin", name); isFile(path) {
			return path, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	if path, err := exec.LookPath(name); err == nil {
		return filepath.Abs(path)
	}
	return "", noneError{l}
}

// noneError matches ErrNone and says what to do.
type noneError struct{ l Lookup }

func (e noneError) Error() string {
	return fmt.Sprintf("no %s server is beside this program, in bin/ here or above, nor in PATH: run `%s` in the module's folder, or set %s", e.l.Name, e.l.Build, e.l.Variable)
}

func (noneError) Is(target error) bool { return target == ErrNone }

func isFile(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.Mode().IsRegular()
}
