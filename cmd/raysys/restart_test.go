//go:build unix

package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/internal/consulserver"
	"github.com/raysys/raysys/internal/consultest"
	"github.com/raysys/raysys/internal/long"
)

// rolled is a cluster of real processes: raysys as it is built, and the builds of testdata/rolled.
type rolled struct {
	t       *testing.T
	dir     string // nodes run app in it
	command string // the folder of raysys
	env     []string
	nodes   map[string]*process
}

// process is one that the test started.
type process struct {
	*exec.Cmd
	out  lockedBuffer
	over chan struct{} // closed at its end
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rolledBuilds are the tags of the builds.
var rolledBuilds = map[string]string{"first": "", "second": "second", "other": "other", "dying": "dying"}

// newRolled starts a cluster of workers of the first build.
func newRolled(t *testing.T, workers ...string) *rolled {
	t.Helper()
	consul := consultest.Start(t, consulserver.Options{Disk: true, MaxConns: 500})
	command, err := realRaysys()
	if err != nil {
		t.Fatal(err)
	}
	r := &rolled{t: t, dir: t.TempDir(), command: command, nodes: map[string]*process{}}
	r.env = append(domestic(os.Environ()), "RAYSYS_CONSUL="+consul.Address(), "GORACE=atexit_sleep_ms=0")
	for name, tags := range rolledBuilds {
		if out, err := exec.Command("go", "build", "-tags", tags, "-o", filepath.Join(r.dir, name), "./testdata/rolled").CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v: %s", name, err, out)
		}
	}
	r.install("first")
	for _, w := range workers {
		r.node(w)
	}
	t.Cleanup(func() {
		for name, p := range r.nodes {
			p.Process.Signal(os.Interrupt)
			select {
			case <-p.over:
			case <-time.After(patience):
				p.Process.Kill()
				<-p.over
			}
			if t.Failed() {
				t.Logf("%s:\n%s", name, p.out.String())
			}
		}
	})
	for _, w := range workers {
		r.until("^"+w+" +worker +up ", "status")
	}
	return r
}

// node starts raysys node.
func (r *rolled) node(name string, flags ...string) {
	r.nodes[name] = r.start("raysys", append([]string{"node", "--app", "./app", "--name", name, "--settled", "1s", "--cpu", "2", "--restart-max", "1s"}, flags...)...)
}

// install puts a build in the place of the program, as an operator does.
func (r *rolled) install(build string) {
	r.t.Helper()
	if err := os.Link(filepath.Join(r.dir, build), filepath.Join(r.dir, "app.new")); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(r.dir, "app.new"), filepath.Join(r.dir, "app")); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rolled) start(name string, args ...string) *process {
	r.t.Helper()
	if name == "raysys" {
		name = filepath.Join(r.command, name)
	}
	p := &process{Cmd: exec.Command(name, args...), over: make(chan struct{})}
	p.Dir, p.Env, p.Stdout, p.Stderr = r.dir, r.env, &p.out, &p.out
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		_ = p.Wait()
		close(p.over)
	}()
	return p
}

// raysys runs the command to its end.
func (r *rolled) raysys(code int, args ...string) string {
	r.t.Helper()
	p := r.start("raysys", args...)
	select {
	case <-p.over:
	case <-time.After(10 * patience):
		p.Process.Kill()
		r.t.Fatalf("raysys %q does not end: %s", args, p.out.String())
	}
	if got := p.ProcessState.ExitCode(); got != code {
		r.t.Fatalf("raysys %q exits with %d, want %d: %s", args, got, code, p.out.String())
	}
	return p.out.String()
}

func (r *rolled) eventually(what string, done func() (bool, string)) {
	r.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(2 * patience); ; {
		ok, said := done()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			r.t.Fatalf("%s: never: %s", what, said)
		}
	}
}

// until runs the command until it says so.
func (r *rolled) until(pattern string, args ...string) {
	r.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	r.eventually(pattern, func() (bool, string) {
		p := r.start("raysys", args...)
		<-p.over
		return re.MatchString(p.out.String()), p.out.String()
	})
}

// says waits until the process has said so.
func (r *rolled) says(p *process, pattern string) {
	r.t.Helper()
	re := regexp.MustCompile("(?m)" + pattern)
	r.eventually(pattern, func() (bool, string) { return re.MatchString(p.out.String()), p.out.String() })
}

func (r *rolled) status() (s client.Status) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.raysys(0, "status", "-o", "json")), &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

// driver starts the first build as a driver, under load.
func (r *rolled) driver(args ...string) *process {
	r.t.Helper()
	os.Remove(filepath.Join(r.dir, "stop"))
	p := r.start("./first", args...)
	r.says(p, "^works$")
	return p
}

// ends has the driver end, and checks what came of its work.
func (r *rolled) ends(p *process) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "stop"), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.says(p, `failed 0,.*job: (rang 1 times|none)`)
	<-p.over
	if !p.ProcessState.Success() {
		r.t.Errorf("the driver: %s", p.out.String())
	}
	r.t.Log(p.out.String())
}

// TestRestart: rolls with two builds in turn lose no call and no task under load, a job goes on, and a build that dies at once stops the roll.
func TestRestart(t *testing.T) {
	r := newRolled(t, "n1", "n2", "n3")
	d := r.driver("a")
	for i := range long.Form(3, 20) {
		build := []string{"second", "first"}[i%2]
		r.install(build)
		said := r.raysys(0, "restart", "--all", "--settle", "1s")
		t.Log(said)
		for _, n := range []string{"n1", "n2", "n3"} {
			if !regexp.MustCompile("(?m)^" + n + `  [0-9a-f]{8} -> [0-9a-f]{8}  drained [0-9.]+s  up [0-9.]+s$`).MatchString(said) {
				t.Errorf("restart says of %s: %s", n, said)
			}
		}
		if !strings.Contains(said, "begins again on another worker: nightlya") {
			t.Errorf("restart says nothing of the job: %s", said)
		}
	}
	r.begun("nightlya", long.Form(3, 20)+1)
	r.install("dying")
	said := r.raysys(1, "restart", "--all", "--settle", "1s", "--wait", "3s")
	expect(t, said, "error: restart: n[123]: it is not back within 3s: it is not in the cluster: .*; not restarted: .n[123] n[123].; to go back, put the old file")
	s := r.status()
	up := 0
	for _, n := range s.Nodes {
		if n.Role == "worker" && n.State == "active" {
			up++
		}
	}
	if up != 2 {
		t.Errorf("%d workers are up, want 2", up)
	}
	r.install("first")
	for _, w := range []string{"n1", "n2", "n3"} {
		r.until("^"+w+" +worker +up ", "status")
	}
	r.ends(d)
}

// begun checks that a job has begun as often as that, each time as the next attempt.
func (r *rolled) begun(job string, times int) {
	r.t.Helper()
	var got []string
	begins := regexp.MustCompile(`the job begins.*"attempt": ?(\d+)`)
	for _, p := range r.nodes {
		for _, m := range begins.FindAllStringSubmatch(p.out.String(), -1) {
			got = append(got, m[1])
		}
	}
	slices.SortFunc(got, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	var want []string
	for i := range times {
		want = append(want, fmt.Sprint(i+1))
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("%s has begun as attempts %v, want %v", job, got, want)
	}
}

// interrupted runs the command until it has said what is waited for, interrupts it, and returns what it says then.
func (r *rolled) interrupted(until func(p *process), args ...string) string {
	r.t.Helper()
	p := r.start("raysys", args...)
	until(p)
	if err := p.Process.Signal(os.Interrupt); err != nil {
		r.t.Fatal(err)
	}
	<-p.over
	if code := p.ProcessState.ExitCode(); code == 0 {
		r.t.Errorf("raysys %q ends with 0 when it is interrupted", args)
	}
	return p.out.String()
}

func (r *rolled) touch(file string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, file), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// pid is that of a node's program.
func (r *rolled) pid(node string) int {
	r.t.Helper()
	for _, n := range r.status().Nodes {
		if string(n.Name) == node {
			return n.PID
		}
	}
	r.t.Fatalf("no node %s", node)
	return 0
}

func expect(t *testing.T, said string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !regexp.MustCompile(p).MatchString(said) {
			t.Errorf("it says %q, without %s", said, p)
		}
	}
}

// TestRestartTrouble: what is refused, and what becomes of a restart in which something goes wrong.
func TestRestartTrouble(t *testing.T) {
	r := newRolled(t, "n2")
	r.node("n1", "--grace", "10s")
	r.until("^n1 +worker +up ", "status")
	alone := r.start("/usr/bin/env", "RAYSYS_ROLE=worker", "RAYSYS_NAME=alone", "./first")
	r.until("^alone +worker +up ", "status")
	expect(t, r.raysys(5, "restart", "n9"), "no node n9 is in the cluster")
	expect(t, r.raysys(1, "restart", "n1", "alone"), "restart: nothing would start alone again")
	expect(t, r.raysys(2, "restart"), "the names of workers, or --all")
	alone.Process.Signal(os.Interrupt)
	<-alone.over
	r.until(" 2 nodes,", "status")

	// A task that hears nothing holds the drain. The command says so and what goes on, and nothing else may begin.
	d := r.start("./first", "deaf", "n1")
	r.says(r.nodes["n1"], "deaf, attempt 1")
	said := r.interrupted(func(*process) { r.until("^n1 +worker +draining ", "status") }, "restart", "n1")
	expect(t, said, "(?m)^n1  [0-9a-f]{8}  draining  0 grains\nn2  [0-9a-f]{8}  active  0 grains$",
		"n1: .*it drains, and starts again after that, unless raysys drain --cancel n1 takes that back; not restarted: ..;")
	expect(t, r.raysys(1, "restart", "--all"), "worker n1 is draining: wait until all are up")
	r.says(r.nodes["n1"], "starting it again, as it was asked") // --grace has cut the drain
	r.says(r.nodes["n1"], "(?m)^n1 . deaf, attempt 2")
	r.until("^n1 +worker +up ", "status")
	r.touch("go")
	<-d.over
	expect(t, d.out.String(), "came to its end in attempt 2")
	os.Remove(filepath.Join(r.dir, "go"))

	// A drain that is taken back: the node stays, and a later death of it is one.
	d = r.start("./first", "deaf", "n1")
	r.says(r.nodes["n1"], "(?s)^n1 . deaf, attempt 1.*^n1 . deaf, attempt 1")
	p := r.start("raysys", "restart", "n1")
	r.until("^n1 +worker +draining ", "status")
	r.raysys(0, "drain", "--cancel", "n1")
	<-p.over
	expect(t, p.out.String(), "n1: .*the drain was cancelled")
	r.until("^n1 +worker +up ", "status")

	// One that is killed while it drains is started again at once, and the restart goes on.
	p = r.start("raysys", "restart", "--all", "--settle", "1s")
	r.until("^n1 +worker +draining ", "status")
	r.kill(r.pid("n1"), syscall.SIGKILL)
	<-p.over
	expect(t, p.out.String(), `(?m)^n1  .*  \(0 objects lost: it did not say how its drain ended\)$`, "(?m)^n2  [0-9a-f]{8} -> [0-9a-f]{8} ")
	r.says(r.nodes["n1"], `(?s)ended by signal \(killed\).*starting it again`)
	r.touch("go")
	<-d.over

	// No file is there: the other worker goes on, and the file brings the first back.
	os.Remove(filepath.Join(r.dir, "app"))
	expect(t, r.raysys(1, "restart", "--all", "--settle", "1s", "--wait", "2s"),
		"(?m)^n2  [0-9a-f]{8}  active  0 grains$", "n1: it is not back within 2s: .*not restarted: .n2.;")
	r.install("first")
	r.until("^n1 +worker +up ", "status")

	// While it is to come back: what was begun goes on.
	os.Remove(filepath.Join(r.dir, "app"))
	said = r.interrupted(func(*process) { r.until(" 1 node,", "status") }, "restart", "n1")
	expect(t, said, "n1: .*it has left, and raysys node starts it again")
	r.install("second")
	r.until("^n1 +worker +up ", "status")
}

// TestRestartSilent: a worker that falls silent while it drains, and is evicted, is started again once it can end, and
// the restart goes on. One that falls silent when it has come back stops it.
func TestRestartSilent(t *testing.T) {
	r := newRolled(t, "n2")
	r.node("n1", "--grace", "10s")
	r.until("^n1 +worker +up ", "status")
	d := r.start("./first", "deaf", "n1")
	r.says(r.nodes["n1"], "deaf, attempt 1")
	p := r.start("raysys", "restart", "--all", "--settle", "1s")
	r.until("^n1 +worker +draining ", "status")
	pid := r.pid("n1")
	r.kill(pid, syscall.SIGSTOP)
	r.eventually("n1 is evicted", func() (bool, string) {
		s := r.status()
		return nodeOf(s, "n1") == nil, fmt.Sprint(s.Nodes)
	})
	r.kill(pid, syscall.SIGCONT)
	<-p.over
	if !p.ProcessState.Success() {
		t.Errorf("restart: %s", p.out.String())
	}
	expect(t, p.out.String(), `(?m)^n1  .*  \(0 objects lost: it did not say how its drain ended\)$`,
		"(?m)^n2  [0-9a-f]{8} -> [0-9a-f]{8} ")
	r.says(r.nodes["n1"], "starting it again, as it was asked")
	r.touch("go")
	<-d.over
	expect(t, d.out.String(), "came to its end in attempt 2")

	was := r.pid("n2")
	p = r.start("raysys", "restart", "n2", "--settle", "5s", "--wait", "1s")
	pid = was
	r.eventually("n2 is back", func() (bool, string) {
		s := r.status()
		if n := nodeOf(s, "n2"); n != nil && n.State == "active" {
			pid = n.PID
		}
		return pid != was && pid != 0, fmt.Sprint(s.Nodes)
	})
	r.kill(pid, syscall.SIGSTOP)
	<-p.over
	r.kill(pid, syscall.SIGCONT)
	expect(t, p.out.String(), "restart: n2: it is not back within 1s: .*; not restarted: ..;")
	r.until("^n2 +worker +up ", "status")
}

// kill sends a signal.
func (r *rolled) kill(pid int, signal syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		r.t.Fatal(err)
	}
}

// TestRestartLongest: no call waits longer in a roll than where workers are drained and started again one by one.
func TestRestartLongest(t *testing.T) {
	long.Only(t)
	r := newRolled(t, "n1", "n2", "n3")
	var drains, rolls []time.Duration
	for i := range 7 {
		d := r.driver(fmt.Sprint("d", i), "no job")
		for _, n := range []string{"n1", "n2", "n3"} {
			r.raysys(0, "drain", n)
			<-r.nodes[n].over
			r.node(n)
			r.until("^"+n+" +worker +up ", "status")
		}
		r.ends(d)
		drains = append(drains, r.longest(d))
		d = r.driver(fmt.Sprint("r", i), "no job")
		r.raysys(0, "restart", "--all", "--settle", "0s")
		r.ends(d)
		rolls = append(rolls, r.longest(d))
	}
	slices.Sort(drains)
	slices.Sort(rolls)
	t.Logf("the longest call: %v in drains one by one, %v in rolls", drains, rolls)
	if a, b := drains[3], rolls[3]; b > a*3/2 {
		t.Errorf("medians: %v in rolls, %v in drains one by one", b, a)
	}
}

// longest is that of a driver's calls.
func (r *rolled) longest(p *process) (d time.Duration) {
	r.t.Helper()
	said := regexp.MustCompile(`the longest took map\[.*\]`).FindString(p.out.String())
	for _, m := range regexp.MustCompile(`:([0-9.]+[mµ]?s)`).FindAllStringSubmatch(said, -1) {
		one, err := time.ParseDuration(m[1])
		if err != nil {
			r.t.Fatal(err)
		}
		d = max(d, one)
	}
	if d == 0 {
		r.t.Fatalf("no call: %s", p.out.String())
	}
	return d
}

// TestRestartMixed: a build whose function has other types stops the roll, and status says why until all are alike.
func TestRestartMixed(t *testing.T) {
	r := newRolled(t, "n1", "n2")
	d := r.driver("m")
	driver := ""
	for _, n := range r.status().Nodes {
		if n.Role == "driver" {
			driver = string(n.Name)
		}
	}
	r.install("other")
	said := r.raysys(1, "restart", "--all", "--settle", "1s")
	first, second := "n1", "n2"
	if strings.Contains(said, "not restarted: [n1]") { // n1 had the job
		first, second = second, first
	}
	same := second + " driver " + driver
	expect(t, said, "(?m)^"+first+"  ", "(?m)^task square +("+first+" / "+same+"|"+same+" / "+first+")$",
		"functions of the two builds differ: give --mixed to go on; not restarted: ."+second+".; to go back, put the old file at --app")
	if strings.Contains(said, "cube") {
		t.Errorf("what only the new build has is nobody's need: %s", said)
	}
	expect(t, r.raysys(0, "status"), "(?m)^MIXED FUNCTION", "(?m)^task cube +not "+same+" / "+first+"$", "(?m)^task square +("+first+" / "+same+"|"+same+" / "+first+")$")
	r.install("first")
	r.raysys(0, "restart", first, "--settle", "1s")
	if said := r.raysys(0, "status"); strings.Contains(said, "MIXED") {
		t.Errorf("all are alike, and status says %s", said)
	}
	r.ends(d)
	r.install("other")
	expect(t, r.raysys(0, "restart", "--all", "--settle", "1s", "--mixed"), "(?m)^n2  ",
		"(?m)^task square +(n1 / n2|n2 / n1)$")
}
