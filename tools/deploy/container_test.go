//go:build linux

package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/eventually"
)

// image is what deploy/Containerfile says, carried out: its files in a folder of their own.
type image struct {
	root     string // the folder that the container has as /
	env, run []string
	user     uint32
}

// build runs the commands that the Containerfile has in its comment, in the folder of a program of the examples, and copies what it copies.
func build(t *testing.T) image {
	t.Helper()
	text := read(t, "Containerfile")
	built, root := t.TempDir(), t.TempDir()
	script := ""
	for _, m := range regexp.MustCompile(`(?m)^#   ((?:mkdir|go build) .*)$`).FindAllStringSubmatch(text, -1) {
		script += strings.ReplaceAll(m[1], "image/", built+"/") + "\n"
	}
	if strings.Count(script, "go build") != 2 {
		t.Fatalf("the Containerfile says no more how its files are built: %s", script)
	}
	sh := exec.CommandContext(t.Context(), "sh", "-ec", script)
	sh.Dir = "../../examples/quickstart"
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	i := image{root: root, user: 0}
	for line := range strings.Lines(text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		args := strings.Fields(rest)
		switch word {
		case "FROM":
			if rest != "scratch" {
				t.Fatalf("FROM %s: only scratch can be made here", rest)
			}
		case "COPY":
			owner := 0
			if chown, cut := strings.CutPrefix(args[0], "--chown="); cut {
				owner, _ = strconv.Atoi(strings.Split(chown, ":")[0])
				args = args[1:]
			}
			to := args[len(args)-1]
			for _, from := range args[:len(args)-1] {
				file := filepath.Join(root, to)
				if info, err := os.Stat(filepath.Join(built, from)); err != nil {
					t.Fatal(err)
				} else if !info.IsDir() && strings.HasSuffix(to, "/") {
					file = filepath.Join(file, from)
				}
				if err := os.Rename(filepath.Join(built, from), file); err != nil {
					t.Fatal(err)
				}
				if err := os.Chown(file, owner, owner); err != nil {
					t.Fatal(err)
				}
			}
		case "ENV":
			i.env = append(i.env, args...)
		case "USER":
			n, err := strconv.ParseUint(strings.Split(rest, ":")[0], 10, 32)
			if err != nil {
				t.Fatalf("USER %s: Kubernetes can only see that a number is not root", rest)
			}
			i.user = uint32(n)
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(rest), &i.run); err != nil {
				t.Fatal(err)
			}
		case "", "#":
		default:
			t.Fatalf("the test does not know %q", line)
		}
	}
	// What every runtime of containers gives, beside /proc, which is not needed.
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mknod(filepath.Join(root, "dev", "null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Skipf("no right to make a container: /dev/null: %v", err)
	}
	if err := os.Chmod(filepath.Join(root, "dev", "null"), 0o666); err != nil {
		t.Fatal(err)
	}
	// The test's folders are root's alone, and a container's / is everybody's.
	for dir := root; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// start runs the image as process 1 of a container that has /dev/null and nothing else: no /proc, no /etc.
func (i image) start(t *testing.T, variables ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	said = &bytes.Buffer{}
	cmd = &exec.Cmd{
		Path: i.run[0], Args: i.run, Env: append(i.env, variables...), Dir: "/", Stdout: said, Stderr: said,
		SysProcAttr: &syscall.SysProcAttr{Chroot: i.root, Cloneflags: syscall.CLONE_NEWPID, Credential: &syscall.Credential{Uid: i.user, Gid: i.user, NoSetGroups: true}},
	}
	if err := cmd.Start(); errors.Is(err, syscall.EPERM) {
		t.Skip("no right to make a container: root may not make namespaces here")
	} else if err != nil {
		t.Fatal(err)
	}
	return cmd, said
}

// TestContainer: two nodes of the image join a Consul, do the work of a driver, and go: one by raysys drain, one by SIGTERM.
func TestContainer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make a container: the image of deploy/Containerfile is not tried")
	}
	i := build(t)
	program, err := filepath.Abs("../../bin/consul")
	if err != nil {
		t.Fatal(err)
	}
	consul, err := consulserver.Run(t.Context(), consulserver.Options{Program: program})
	if err != nil {
		t.Fatal(err)
	}
	defer consul.Close()
	at := "RAYSYS_CONSUL=" + consul.Address()
	outside := func(program string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(i.root, program), args...)
		cmd.Env = append(os.Environ(), at)
		out, err := cmd.Output()
		return string(out), err
	}
	nodes, talk := map[string]*exec.Cmd{}, map[string]*bytes.Buffer{}
	for _, name := range []string{"n1", "n2"} {
		cmd, said := i.start(t, at, "RAYSYS_NAME="+name, "RAYSYS_CPU=1")
		nodes[name], talk[name] = cmd, said
		defer func() {
			if cmd.ProcessState == nil {
				_ = cmd.Process.Kill() // all of the container
				_ = cmd.Wait()
			}
			if t.Failed() {
				t.Logf("%s said:\n%s", name, said)
			}
		}()
	}
	eventually.Holds(t, time.Minute, "both nodes are up", func() bool {
		status, err := outside("raysys", "status")
		return err == nil && len(regexp.MustCompile(`(?m)^n[12] +worker +up `).FindAllString(status, -1)) == 2
	})
	if out, err := outside("app"); err != nil || !strings.Contains(out, "49 <nil>\n") {
		t.Fatalf("the driver says %s %v", out, err)
	}
	if functions, err := outside("raysys", "list", "functions"); err != nil || !strings.Contains(functions, "square") {
		t.Errorf("no node has run the task: %s %v", functions, err)
	}
	if out, err := outside("raysys", "drain", "n1"); err != nil {
		t.Errorf("drain n1: %s %v", out, err)
	}
	if err := nodes["n2"].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for name, cmd := range nodes {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
		if strings.Contains(talk[name].String(), " is not kept") || strings.Contains(talk[name].String(), "GPUs") {
			t.Errorf("%s lacks something", name)
		}
	}
	left := ""
	_ = filepath.WalkDir(filepath.Join(i.root, "tmp"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left += fmt.Sprintln(path)
		}
		return err
	})
	if left != "" {
		t.Errorf("the nodes left in /tmp:\n%s", left)
	}
}
