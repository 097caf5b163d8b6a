package consultest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/raysys/raysys/internal/consulbuild"
)

// programVariable names the server, as it does for `raysys local`.
const programVariable = "RAYSYS_CONSUL_PROGRAM"

// binary is the path of the server, found once per process.
var binary = sync.OnceValues(find)

// find looks where a person may have put a server: the variable, bin/ of the folder of the test or of one above it, PATH.
func find() (string, error) {
	if program := os.Getenv(programVariable); program != "" {
		path, err := exec.LookPath(program)
		if err != nil {
			return "", fmt.Errorf("%s: %w", programVariable, err)
		}
		return filepath.Abs(path)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find a Consul server: %w: set %s", err, programVariable)
	}
	for {
		path := filepath.Join(dir, "bin", "consul"+exe())
		if i, err := os.Stat(path); err == nil && i.Mode().IsRegular() {
			return path, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	if path, err := exec.LookPath("consul"); err == nil {
		return filepath.Abs(path)
	}
	return "", fmt.Errorf("no Consul server is in bin/ here or above, nor in PATH: run `%s` in the module's folder, or set %s", consulbuild.Command, programVariable)
}

func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// Binary returns the path of the server: for tests of what starts a server itself.
func Binary() (string, error) { return binary() }
