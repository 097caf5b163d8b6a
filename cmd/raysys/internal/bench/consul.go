package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Consul is a server of the benchmark's own, with its data on disk, as the rows of the cross-process tier want it. It
// goes with the benchmark, and so does its data.
type Consul struct {
	address string
	dir     string // configuration, data and log
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the server has ended
}

// FindConsul returns the path of the server's binary: beside this one, in ./bin, or in PATH.
func FindConsul() (string, error) {
	name := "consul"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	places := []string{filepath.Join("bin", name)}
	if self, err := os.Executable(); err == nil {
		places = append([]string{filepath.Join(filepath.Dir(self), name)}, places...)
	}
	for _, p := range places {
		if i, err := os.Stat(p); err == nil && i.Mode().IsRegular() {
			return filepath.Abs(p)
		}
	}
	if p, err := exec.LookPath(name); err == nil {
		return p, nil
	}
	return "", &SelectionError{"tier cross-process needs a Consul server, and there is no consul beside raysys, in ./bin or in PATH: " +
		"run make consul, or give a server that runs with --consul HOST:PORT"}
}

// reachPatience bounds the look at a server that is said to run.
const reachPatience = 5 * time.Second

// ReachConsul looks whether a server answers at address. Nodes go on trying for ever, which would say nothing.
func ReachConsul(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
	defer cancel()
	kv, err := openStore(address, "raysys/")
	if err != nil {
		return err
	}
	defer kv.Close()
	if _, err := kv.Keys(ctx, "bench"); err != nil {
		return fmt.Errorf("no Consul answers at %s: %w: give the address of one that runs, or none, to have one started", address, err)
	}
	return nil
}

// consulTries is how often free ports are looked for: one that was free a moment ago may be taken when Consul wants it.
const consulTries = 5

// StartConsul runs the server and waits until it serves.
func StartConsul(ctx context.Context, path string) (*Consul, error) {
	dir, err := os.MkdirTemp("", "raysys-bench-consul-")
	if err != nil {
		return nil, fmt.Errorf("start Consul: %w", err)
	}
	c := &Consul{dir: dir}
	for range consulTries {
		if err = c.start(ctx, path); err == nil {
			return c, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return nil, errors.Join(fmt.Errorf("start Consul: %w", err), c.Close())
}

// Address is host:port of the server's HTTP interface.
func (c *Consul) Address() string { return c.address }

// Dir is where its configuration, data and log are.
func (c *Consul) Dir() string { return c.dir }

// PID is the server's process id.
func (c *Consul) PID() int { return c.cmd.Process.Pid }

// Close ends the server and removes its data.
func (c *Consul) Close() error {
	var err error
	if c.cmd != nil {
		// It is killed: what it would put in order is removed with it.
		if err = c.cmd.Process.Kill(); errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		<-c.exited
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

func (c *Consul) start(ctx context.Context, path string) error {
	file, err := c.configure()
	if err != nil {
		return err
	}
	log, err := os.Create(c.log())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(path, "agent", "-config-file", file)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, log, log
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "CONSUL_") { // they are about another server
			cmd.Env = append(cmd.Env, v)
		}
	}
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	c.cmd, c.exited = cmd, make(chan struct{})
	go func(exited chan struct{}) {
		defer close(exited)
		_ = cmd.Wait() // Close ends it; before that serving looks at the log
	}(c.exited)
	if err := c.serving(ctx); err != nil {
		_ = cmd.Process.Kill()
		<-c.exited
		c.cmd = nil
		return err
	}
	return nil
}

// configure writes the configuration: one server on free ports of loopback, which writes its data through to disk.
func (c *Consul) configure() (file string, err error) {
	ports, err := freePorts(3)
	if err != nil {
		return "", err
	}
	c.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	conf, err := json.Marshal(map[string]any{
		"node_name": "bench", "server": true, "bootstrap_expect": 1, "data_dir": filepath.Join(c.dir, "data"),
		"bind_addr": "127.0.0.1", "client_addr": "127.0.0.1", "log_level": "warn", "disable_update_check": true,
		"performance": map[string]any{"raft_multiplier": 1},
		"ports": map[string]any{
			"http": ports[0], "server": ports[1], "serf_lan": ports[2], "serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		},
	})
	if err != nil {
		return "", err
	}
	file = filepath.Join(c.dir, "consul.json")
	return file, os.WriteFile(file, conf, 0o600)
}

func (c *Consul) log() string { return filepath.Join(c.dir, "log") }

func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are open together, so that they differ
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// consulPatience bounds how long a server may take to lead itself.
const consulPatience = 30 * time.Second

// serving waits until the server answers a consistent read. Nothing tells when it does, so it is asked.
func (c *Consul) serving(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, consulPatience, fmt.Errorf("it does not serve after %v", consulPatience))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if c.answers(ctx) {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.exited:
			return fmt.Errorf("it ended: %s", c.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), c.lastWords())
		}
	}
}

func (c *Consul) answers(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+"/v1/catalog/nodes?consistent", nil)
	if err != nil {
		return false
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	var nodes []struct{}
	// The server is in its own catalog once it leads.
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(&nodes) == nil && len(nodes) > 0
}

// lastWords is the end of the server's log.
func (c *Consul) lastWords() string {
	b, err := os.ReadFile(c.log())
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[max(0, len(b)-1000):])
}
