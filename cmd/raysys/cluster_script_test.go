//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/examples/cartpole/demo"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/natsserver"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store/consul"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// The scripts of clusters run real processes on a real Consul, each in a cluster of its own that has the script's name.
// raysys is the command as it is built, and the programs are another binary, of another namespace. Beside the commands of TestScripts they have worker and
// cartpole (programs, below), and
//
//	until PATTERN COMMAND...  run the command until its standard output matches
//	code N COMMAND...         run the command, which exits with N
//	crash NODE                SIGKILL the node's process; its session is gone within a second
//	certs CLUSTER NAME...     write ca.crt, and NAME.crt and NAME.key of raysys://CLUSTER/NAME
//	listed NODE [ABSENT...]   the nodes of the cluster in Consul's catalog, passing: NODE is, ABSENT are not
//	consul stop|start         the script's own server
//	killserver NAME N         SIGKILL the N-th process of a server of raysys local, which the file talk names
//	explained FILE PATTERN    wait until raysys get says so of the id in the file, of which it gets 12 digits
//	served VARIABLE FILE      set the variable to the address at which a node serves metrics, by its log in the file
//	fetch URL CODE PATTERN    get the URL until it answers with the code and something that matches
func clusterParams(dir string, server *consulserver.Server, set ...string) testscript.Params {
	return testscript.Params{
		Dir:                 filepath.Join("testdata", dir),
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			if server != nil {
				e.Setenv("RAYSYS_CONSUL", server.Address())
			}
			e.Setenv("RAYSYS_CLUSTER", strings.TrimPrefix(filepath.Base(e.WorkDir), "script-"))
			for i := 0; i < len(set); i += 2 {
				e.Setenv(set[i], set[i+1])
			}
			e.Values["consul"] = server
			dir, err := realRaysys()
			e.Setenv("PATH", dir+string(os.PathListSeparator)+e.Getenv("PATH"))
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await, "term": term, "until": until, "code": code, "crash": crash, "certs": makeCerts, "consul": consulCommand, "listed": listed, "explained": explained,
			"killserver": killServer, "served": served, "fetch": fetch,
		},
	}
}

// realRaysys builds raysys, and returns the folder that has it. The test binary has the definitions of the scripts' programs, so a raysys made of it would
// know what the command of a user does not.
var realRaysys = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "raysys-command-")
	if err != nil {
		return "", err
	}
	built = dir
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "raysys"), ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build raysys: %w: %s", err, out)
	}
	return dir, nil
})

// built is the folder of realRaysys; "" before.
var built string

// shared is the server of the scripts that leave it alone.
var shared = sync.OnceValues(func() (*consulserver.Server, error) {
	asked.Store(true)
	return consulserver.Run(context.Background(), consulserver.Options{MaxConns: 2000})
})

// asked says that shared was called.
var asked atomic.Bool

// TestCluster runs the scripts on a Consul that refuses names of keys, as 1.22 does.
func TestCluster(t *testing.T) {
	t.Parallel()
	consultest.Needed(t)
	s, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, clusterParams("cluster", s, "RAYSYS_CONSUL", consultest.Strict(t, s.Address())))
}

// TestACL: the policy of docs/operating/consul.md is enough for all that a node and an operator do, and without it the doctor says
// so.
func TestACL(t *testing.T) {
	t.Parallel()
	s := consultest.Start(t, consulserver.Options{ACL: true, MaxConns: 50})
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating", "consul.md"))
	if err != nil {
		t.Fatal(err)
	}
	policy := regexp.MustCompile("(?s)```hcl\n(key_prefix.*?)```").FindSubmatch(doc)
	if policy == nil {
		t.Fatal("docs/operating/consul.md has no policy")
	}
	if want := consul.Policy("raysys/default/", "raysys-default"); string(policy[1]) != want {
		t.Errorf("the policy in the docs is\n%s\nstore/consul needs\n%s", policy[1], want)
	}
	token := consultest.NewToken(t, s, string(policy[1]))
	weak := consultest.NewToken(t, s, `key_prefix "raysys/default/" { policy = "read" }`)
	old := consultest.NewToken(t, s, `key_prefix "raysys/default/" { policy = "write" } session_prefix "" { policy = "write" } service "raysys-default" { policy = "write" }`)
	testscript.Run(t, clusterParams("acl", s, "RAYSYS_CLUSTER", "default", "TOKEN", token, "WEAK", weak, "OLD", old, "ROOT", s.Token()))
}

// TestNoQuorum: a Consul of two servers, one of which is gone, and an agent beside it.
func TestNoQuorum(t *testing.T) {
	t.Parallel()
	s := consultest.Start(t, consulserver.Options{Disk: true})
	agent := consultest.Start(t, consulserver.Options{Client: true, Join: s})
	consultest.LoseQuorum(t, s)
	testscript.Run(t, clusterParams("quorum", s, "CLIENT", agent.Address()))
}

// TestAway: a Consul that is not there, or not yet.
func TestAway(t *testing.T) {
	t.Parallel()
	testscript.Run(t, clusterParams("away", consultest.Start(t, consulserver.Options{Disk: true})))
}

// TestReplaced: a Consul that comes back empty.
func TestReplaced(t *testing.T) {
	t.Parallel()
	testscript.Run(t, clusterParams("replaced", consultest.Start(t, consulserver.Options{})))
}

// TestLocal: a local cluster on servers of its own.
func TestLocal(t *testing.T) {
	t.Parallel()
	consultest.Needed(t)
	consul, err := consulserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	nats, err := natsserver.Find()
	if err != nil {
		t.Fatal(err)
	}
	p := clusterParams("local", nil, "RAYSYS_CLUSTER", "default", "RAYSYS_CONSUL_PROGRAM", consul, "RAYSYS_NATS_PROGRAM", nats)
	testscript.Run(t, p)
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN COMMAND...")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); ; {
		_ = ts.Exec(args[1], args[2:]...) // it may fail until it does not
		if pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			ts.Fatalf("%q never said %v: %s", args[1:], pattern, ts.ReadFile("stdout")+ts.ReadFile("stderr"))
		}
	}
}

func explained(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: explained FILE PATTERN")
	}
	await(ts, false, []string{args[0], "[0-9a-f]{32}"})
	until(ts, false, []string{args[1], "raysys", "get", ts.ReadFile(args[0])[:12]})
}

func served(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: served VARIABLE FILE")
	}
	const pattern = `serving metrics and health.*?(127\.0\.0\.1:\d+)`
	await(ts, false, []string{args[1], pattern})
	ts.Setenv(args[0], regexp.MustCompile(pattern).FindStringSubmatch(ts.ReadFile(args[1]))[1])
}

func fetch(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: fetch URL CODE PATTERN")
	}
	pattern, err := regexp.Compile("(?m)" + args[2])
	ts.Check(err)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); ; {
		said := ""
		resp, err := http.Get(args[0])
		if err == nil {
			var body []byte
			body, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if said = fmt.Sprintf("%d %s", resp.StatusCode, body); strings.HasPrefix(said, args[1]+" ") && pattern.Match(body) {
				return
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			ts.Fatalf("%s never answered %s %v: %s, %v", args[0], args[1], pattern, said, err)
		}
	}
}

func killServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: killserver NAME N")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	await(ts, false, []string{"talk", fmt.Sprintf("(?s)(%s: started process .*){%d}", args[0], n)})
	pids := regexp.MustCompile(args[0]+": started process ([0-9]+)").FindAllStringSubmatch(ts.ReadFile("talk"), -1)
	pid, err := strconv.Atoi(pids[n-1][1])
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	var exit interface{ ExitCode() int }
	switch {
	case errors.As(err, &exit):
		got = fmt.Sprint(exit.ExitCode())
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != args[0] {
		ts.Fatalf("%q exits with %s, want %s: %s", args[1:], got, args[0], ts.ReadFile("stderr"))
	}
}

// crash kills a node whose supervisor does not start it again soon, so that it is the report that ends the session and not
// the successor.
func crash(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: crash NODE")
	}
	ts.Check(ts.Exec("raysys", "status", "-o", "json"))
	var s client.Status
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &s))
	pid := 0
	for _, n := range s.Nodes {
		if string(n.Name) == args[0] {
			pid = n.PID
		}
	}
	if pid == 0 {
		ts.Fatalf("no node %s", args[0])
	}
	cfg, err := consul.FromEnv(ts.Getenv)
	ts.Check(err)
	kv, err := consul.Open(cfg)
	ts.Check(err)
	defer kv.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p, err := kv.Get(ctx, shardlog.NodesPrefix+args[0])
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGKILL))
	began := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		alive, err := kv.Session(ctx, p.Session)
		ts.Check(err)
		took := time.Since(began)
		if !alive {
			ts.Logf("the session was gone after %v", took)
			return
		}
		// Consul ends a session that nobody renews after twice its TTL, and the last renewal is a third of the TTL ago at most.
		if took > long.Form(consul.MinTTL*3/2, time.Second) {
			ts.Fatalf("the session is alive %v after the crash", took)
		}
		<-tick.C
	}
}

// listed asks Consul's health endpoint, as its UI does.
func listed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: listed NODE [ABSENT...]")
	}
	url := fmt.Sprintf("http://%s/v1/health/service/raysys-%s?passing", ts.Getenv("RAYSYS_CONSUL"), ts.Getenv("RAYSYS_CLUSTER"))
	var entries []struct {
		Service struct {
			ID   string
			Port int
			Meta map[string]string
		}
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); ; {
		resp, err := http.Get(url)
		ts.Check(err)
		err = json.NewDecoder(resp.Body).Decode(&entries)
		resp.Body.Close()
		ts.Check(err)
		there := map[string]bool{}
		for _, e := range entries {
			m := e.Service.Meta
			there[m["node"]] = e.Service.Port > 0 && m["role"] == "worker" && m["version"] != "" && m["incarnation"] != ""
		}
		good := there[args[0]]
		for _, absent := range args[1:] {
			good = good && !there[absent]
		}
		if good {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			ts.Fatalf("Consul lists %+v", entries)
		}
	}
}

func consulCommand(ts *testscript.TestScript, neg bool, args []string) {
	s, ok := ts.Value("consul").(*consulserver.Server)
	if neg || len(args) != 1 || !ok {
		ts.Fatalf("usage: consul stop|start")
	}
	switch args[0] {
	case "stop":
		ts.Check(s.Stop())
	case "start":
		ts.Check(s.Start(context.Background()))
	default:
		ts.Fatalf("consul %s: stop or start", args[0])
	}
}

// place is where a task ran.
func place(ctx context.Context) (string, error) {
	t, _, err := core.TurnOf(ctx)
	if err != nil {
		return "", err
	}
	return string(t.Job().Node), nil
}

var (
	square = tasks.Define("script-square", func(ctx context.Context, x int) (string, error) {
		node, err := place(ctx)
		return fmt.Sprintf("%d on %s", x*x, node), err
	})
	// linger marks the file, as app does, and waits until there is one more with .go behind the name.
	linger = tasks.Define("script-linger", func(ctx context.Context, file string) (string, error) {
		mark(file)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := os.Stat(file + ".go"); err == nil {
				node, err := place(ctx)
				return "lingered on " + node, err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	})
)

// length looks at bytes where they are.
var length = tasks.Define("script-length", func(ctx context.Context, h raysys.Handle[[]byte]) (n int, err error) {
	err = raysys.View(ctx, h.Ref(), func(b []byte) error { n = len(b); return nil })
	return n, err
})

// worker is a user's program. As a driver it squares 7, or lets a task linger by the file that it is given; meanwhile it
// holds a megabyte under the name that comes after that. The id of the task is in a file with .id behind the name.
func worker() {
	system.Main(func(ctx context.Context) error {
		if len(os.Args) > 2 {
			weights := raysys.Put(ctx, make([]byte, 1<<20), raysys.Named(os.Args[2]))
			if n, err := length.Go(ctx, weights.Handle()).Get(ctx); err != nil || n != 1<<20 {
				return fmt.Errorf("%d bytes, %w", n, err)
			}
			defer runtime.KeepAlive(weights)
		}
		r := square.Go(ctx, 7)
		if len(os.Args) > 1 {
			r = linger.Go(ctx, os.Args[1])
			if err := os.WriteFile(os.Args[1]+".id", []byte(r.ID().String()), 0o600); err != nil {
				return err
			}
		}
		said, err := r.Get(ctx)
		if err == nil {
			fmt.Println(said)
		}
		return err
	})
}

// cartpole is the example with a goal that is reached soon, at once unless an argument says which.
func cartpole() {
	o := demo.Defaults()
	o.Goal, o.Serve = 40, 100*time.Millisecond
	if len(os.Args) > 1 {
		o.Goal, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	if err := demo.Run(context.Background(), o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
