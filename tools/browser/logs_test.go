package browser

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// nodeProgram has the binary of these tests be the program of a node.
const nodeProgram = "RAYSYS_BROWSER_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(nodeProgram) != "" {
		system.Main(func(context.Context) error { return nil })
		return
	}
	os.Exit(m.Run())
}

var (
	say = tasks.Define("say", func(ctx context.Context, what string) (int, error) {
		raysys.Logger(ctx).Warn(what, "round", 1)
		return 0, nil
	})
	shout = tasks.Define("shout", func(_ context.Context, what string) (int, error) { return fmt.Println(what) })
)

// supervised starts two nodes under raysys node, which keeps what they write, and a driver. It returns the driver's context, and the URL of the page.
func supervised(t *testing.T) (context.Context, string) {
	t.Helper()
	raysysProgram := filepath.Join(t.TempDir(), "raysys")
	build := exec.Command("go", "build", "-o", raysysProgram, "./cmd/raysys")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if os.Getenv("RAYSYS_CONSUL_PROGRAM") == "" { // it is looked for in this module
		program, err := filepath.Abs(filepath.Join(build.Dir, "bin", "consul"))
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("RAYSYS_CONSUL_PROGRAM", program)
	}
	consul := consultest.Start(t, consulserver.Options{}).Address()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	for _, args := range [][]string{{"--name", "a", "--http", address}, {"--name", "b"}} {
		cmd := exec.Command(raysysProgram, append([]string{"node", "--app", os.Args[0], "--log-dir", t.TempDir()}, args...)...)
		cmd.Env = append(os.Environ(), nodeProgram+"=1", "RAYSYS_CONSUL="+consul, "RAYSYS_CLUSTER=browser")
		said := new(strings.Builder)
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			if err := cmd.Wait(); err != nil || t.Failed() {
				t.Logf("%q: %v: %s", cmd.Args, err, said)
			}
		})
	}
	n, err := system.New(system.Config{Name: "driver", Cluster: &system.ClusterConfig{Name: "browser", Consul: consul, Role: system.Driver}})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	for limit := time.After(30 * time.Second); ; {
		members, changed := n.Members()
		workers := 0
		for _, m := range members {
			if m.Role == system.Worker {
				workers++
			}
		}
		if workers == 2 {
			return n.Context(context.Background()), "http://" + address
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("the nodes do not join: %+v", members)
		}
	}
}

// TestLogs: of nodes whose output is kept the page shows the lines, follows them, and filters them.
func TestLogs(t *testing.T) {
	chromium(t)
	ctx, url := supervised(t)
	run := func(f tasks.Task[string, int], node raysys.NodeID, what string) {
		t.Helper()
		if _, err := f.With(raysys.OnNode(node)).Go(ctx, what).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	run(say, "a", "first <b>line</b>")
	run(say, "b", "of the other node")
	run(shout, "b", "plain words")

	b := open(t, url)
	b.to("logs")
	log := func() string { return b.text("pre.log") }
	lacks := func(texts ...string) {
		t.Helper()
		b.until(fmt.Sprintf("no line has %q", texts), func() bool {
			all := log()
			for _, s := range texts {
				if strings.Contains(all, s) {
					return false
				}
			}
			return all != ""
		})
	}
	b.shows(`a warn say first <b>line</b> {"round":1}`, `b warn say of the other node`, "b stdout plain words", "started process")
	run(say, "a", "one more")
	b.shows("one more") // it follows
	if n := eval[int](b, `document.querySelectorAll('pre.log b').length`); n > 0 {
		t.Error("a line is HTML")
	}
	b.picture("logs")

	b.choose("node", "b")
	lacks("first", "one more")
	b.shows("of the other node", "plain words", "raysys logs -f --node b")
	if b.hash() != "logs?node=b" {
		t.Errorf("a node is at %s", b.hash())
	}
	b.to("logs?function=say&driver=driver")
	lacks("plain words", "started process")
	b.shows("first <b>line</b>", "of the other node", "raysys logs -f --function say")
	b.to("logs?function=nothing")
	b.shows("no lines: there are some of the functions say", "and of the drivers driver")
	b.to("logs")
	b.shows("plain words")
	b.slash("more")
	lacks("plain words", "first")
	b.shows("one more")
	if b.hash() != "logs?q=more" {
		t.Errorf("a text is at %s", b.hash())
	}
	b.run(chromedp.KeyEvent(kb.Escape))
}
