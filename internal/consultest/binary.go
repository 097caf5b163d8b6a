package consultest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// binary is the path of the server, found or built once per process.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("RAYSYS_TEST_CONSUL"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("RAYSYS_TEST_CONSUL: %w", err)
		}
		return path, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "consul"+exe())
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// Into a name of its own first: other test processes may look for it, or build it, at the same time.
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(part)
	cmd := exec.Command("go", "build", "-o", part, "github.com/hashicorp/consul")
	cmd.Dir = filepath.Join(root, "tools", "consul")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build Consul (make consul): %w\n%s", err, bytes.TrimSpace(out))
	}
	return path, os.Rename(part, path)
})

func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// moduleRoot is the checkout: tests run in their package's folder.
func moduleRoot() (string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/raysys/raysys")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("find the checkout that holds bin/consul: %w: set RAYSYS_TEST_CONSUL to a Consul binary", err)
	}
	root := strings.TrimSpace(string(out))
	if _, err := os.Stat(filepath.Join(root, "tools", "consul", "go.mod")); err != nil {
		return "", fmt.Errorf("the module in %s has no tools/consul to build a server from: set RAYSYS_TEST_CONSUL to a Consul binary", root)
	}
	return root, nil
}

// Binary returns the path of the server, which is built when it is not there: for tests of what starts a server itself.
func Binary() (string, error) { return binary() }
