package consultest

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
	"strings"
	"testing"
	"time"
)

// patience bounds how long a server may take to serve, on a machine that many tests share.
const patience = 60 * time.Second

// Options says what server to run. The zero Options is one in memory, which comes back empty when it is started again.
type Options struct {
	// Disk keeps the data over restarts, and writes it through before it answers.
	Disk bool
	// ACL denies everything to who has no token.
	ACL bool
	// MinTTL is the shortest TTL of a session; 0 means Consul's own, 10 s.
	MinTTL time.Duration
	// MaxConns is how many connections it takes from one address; 0 means Consul's own, 200.
	MaxConns int
}

// Server is a Consul server.
type Server struct {
	options Options
	dir     string // configuration, data and log
	address string
	token   string

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd ended
}

// management is the token that may do everything. A test's server is reached from this host only.
const management = "5f2ba4c0-6d1f-4f6a-9d7e-0c5d3f1a2b3c"

// Start runs a server for the test and waits until it serves.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of Consul's log:\n%s", s.Log())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Run runs a server, which the caller closes, and waits until it serves.
func Run(o Options) (*Server, error) {
	dir, err := os.MkdirTemp("", "consultest")
	if err != nil {
		return nil, err
	}
	s := &Server{options: o, dir: dir}
	if o.ACL {
		s.token = management
	}
	// A port that was free a moment ago may be taken when Consul wants it.
	for range 5 {
		if err = s.configure(); err == nil {
			err = s.Start()
		}
		if err == nil {
			return s, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return nil, errors.Join(err, s.Close())
}

// Address is host:port of the HTTP API. It stays the same over restarts.
func (s *Server) Address() string { return s.address }

// Token is a token that may do everything, "" without ACLs.
func (s *Server) Token() string { return s.token }

func (s *Server) configure() error {
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	s.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	config := map[string]any{
		"node_name":            "consultest",
		"bind_addr":            "127.0.0.1",
		"client_addr":          "127.0.0.1",
		"server":               true,
		"bootstrap_expect":     1,
		"data_dir":             filepath.Join(s.dir, "data"),
		"log_level":            "warn",
		"disable_update_check": true,
		"leave_on_terminate":   false,
		"performance":          map[string]any{"raft_multiplier": 1},
		"ports": map[string]any{
			"http": ports[0], "server": ports[1], "serf_lan": ports[2],
			"serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		},
	}
	if !s.options.Disk {
		delete(config, "bootstrap_expect")
		delete(config, "data_dir")
	}
	if s.options.MinTTL > 0 {
		config["session_ttl_min"] = s.options.MinTTL.String()
	}
	if s.options.MaxConns > 0 {
		config["limits"] = map[string]any{"http_max_conns_per_client": s.options.MaxConns}
	}
	if s.options.ACL {
		config["acl"] = map[string]any{
			"enabled": true, "default_policy": "deny",
			"tokens": map[string]any{"initial_management": management, "agent": management},
		}
	}
	b, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, "consul.json"), b, 0o600)
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all are open together, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// Start starts a server that was stopped or killed, and waits until it serves.
func (s *Server) Start() error {
	path, err := binary()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"agent", "-config-file", filepath.Join(s.dir, "consul.json")}
	if !s.options.Disk {
		args = append(args, "-dev")
	}
	s.cmd = exec.Command(path, args...)
	s.cmd.Dir = s.dir
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Env = withoutConsul(os.Environ())
	endWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start Consul: %w", err)
	}
	s.exited = make(chan struct{})
	go func(cmd *exec.Cmd, exited chan struct{}) {
		defer close(exited)
		_ = cmd.Wait()
	}(s.cmd, s.exited)
	return s.Serving()
}

// withoutConsul keeps the variables that steer a client, or another server, from this one.
func withoutConsul(env []string) []string {
	var out []string
	for _, e := range env {
		if !strings.HasPrefix(e, "CONSUL_") {
			out = append(out, e)
		}
	}
	return out
}

// Serving waits until the server answers consistent reads.
func (s *Server) Serving() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// The catalog names the server itself once it leads and has settled.
		body, err := s.http(ctx, http.MethodGet, "/v1/catalog/nodes?consistent", nil)
		if err == nil && bytes.Contains(body, []byte(`"consultest"`)) {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return fmt.Errorf("consul ended: %s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("consul does not serve after %v: %w: %s", patience, err, s.Log())
		}
	}
}

// http calls the API with the management token.
func (s *Server) http(ctx context.Context, method, path string, body any) ([]byte, error) {
	var buf bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&buf).Encode(body); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+path, &buf)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Consul-Token", s.token)
	req.Close = true // no connection stays behind to be counted as a leak
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(resp.Body); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, out.String())
	}
	return out.Bytes(), nil
}

// NewToken makes a token with a policy of these rules, in Consul's language.
func (s *Server) NewToken(t testing.TB, rules string) string {
	t.Helper()
	name := fmt.Sprintf("policy-%d", time.Now().UnixNano())
	_, err := s.http(t.Context(), http.MethodPut, "/v1/acl/policy", map[string]any{"Name": name, "Rules": rules})
	if err != nil {
		t.Fatal(err)
	}
	body, err := s.http(t.Context(), http.MethodPut, "/v1/acl/token", map[string]any{"Policies": []any{map[string]any{"Name": name}}})
	if err != nil {
		t.Fatal(err)
	}
	var token struct{ SecretID string }
	if err := json.Unmarshal(body, &token); err != nil || token.SecretID == "" {
		t.Fatalf("new token: %v: %s", err, body)
	}
	return token.SecretID
}

func (s *Server) logPath() string { return filepath.Join(s.dir, "log") }

// Log returns the end of the server's log.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4096):])
}

// Kill ends the server at once, as a power cut would, and waits until it is gone.
func (s *Server) Kill() error {
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	err := s.cmd.Process.Kill()
	<-s.exited
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// Close kills the server and removes its files.
func (s *Server) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }
