package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/cmd/internal/clitest"
)

func TestReadVersion(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.1", Main: debug.Module{Version: "v0.1.0"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for _, c := range []struct {
		info  *debug.BuildInfo
		want  version
		table string // part of it
	}{
		{info, version{"v0.1.0", "0123abc", "2026-01-02T03:04:05Z", true, "go1.26.1", platform}, "revision  0123abc, with changes\n"},
		{&debug.BuildInfo{}, version{Version: "unknown", Go: runtime.Version(), Platform: platform}, "not built from a repository"},
		{nil, version{Version: "unknown", Go: runtime.Version(), Platform: platform}, "version   unknown\n"},
	} {
		got := readVersion(c.info, c.info != nil)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("version (-want +got):\n%s", d)
		}
		var b bytes.Buffer
		if err := got.table(&b); err != nil || !strings.Contains(b.String(), c.table) {
			t.Errorf("table is %q, %v; want %q in it", b.String(), err, c.table)
		}
	}
}

// tool is a command that has nothing but the version.
func tool(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return ExitCode(Run(ctx, Root("tool", "Nothing"), args, stdin, stdout, stderr))
}

func TestVersionCommand(t *testing.T) {
	stdout, stderr, code := clitest.InProcess(t, tool, []string{"version"}, []string{"RAYSYS_OUTPUT=json"})
	var v version
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 0 || stderr != "" {
		t.Fatalf("exit %d, %v: %q, %q", code, err, stdout, stderr)
	}
	if v.Go != runtime.Version() || v.Version == "" {
		t.Errorf("version %+v", v)
	}
	// The flag wins over the variable.
	stdout, _, code = clitest.InProcess(t, tool, []string{"version", "-o", "table"}, []string{"RAYSYS_OUTPUT=json"})
	if code != 0 || !strings.HasPrefix(stdout, "version   ") {
		t.Errorf("exit %d: %q", code, stdout)
	}
}

// TestVersionFlag: --version is one line, like other tools'.
func TestVersionFlag(t *testing.T) {
	stdout, stderr, code := clitest.InProcess(t, tool, []string{"--version"}, []string{"RAYSYS_VERSION=nonsense"})
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "tool ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("exit %d: %q, %q", code, stdout, stderr)
	}
}
