package consulserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/raysys/raysys/internal/consulbuild"
)

// programVariable names the server, as it does for `raysys local`.
const programVariable = "RAYSYS_CONSUL_PROGRAM"

// Find returns the path of a server where a person may have put one: the variable, beside this program, bin/ of this folder
// or of one above it, PATH.
func Find() (string, error) {
	if program := os.Getenv(programVariable); program != "" {
		path, err := exec.LookPath(program)
		if err != nil {
			return "", fmt.Errorf("%s: %w", programVariable, err)
		}
		return filepath.Abs(path)
	}
	name := "consul"
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
		return "", fmt.Errorf("find a Consul server: %w: set %s", err, programVariable)
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
	return "", fmt.Errorf("no Consul server is beside this program, in bin/ here or above, nor in PATH: run `%s` in the module's folder, or set %s", consulbuild.Command, programVariable)
}

func isFile(path string) bool {
	i, err := os.Stat(path)
	return err == nil && i.Mode().IsRegular()
}
