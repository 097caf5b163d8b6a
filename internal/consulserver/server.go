package consulserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/subprocess"
)

// patience bounds how long a server may take to serve, on a machine that has other work.
const patience = 60 * time.Second

// Server is a Consul server.
type Server struct {
	options Options
	dir     string // configuration, data and log
	address string

	cmd    *exec.Cmd
	exited <-chan struct{} // closed when cmd ended
}

// attempts is how often free ports are looked for: one that was free a moment ago may be taken when Consul wants it.
const attempts = 5

// Run runs a server, which the caller closes, and waits until it serves.
func Run(ctx context.Context, o Options) (*Server, error) {
	if o.Program == "" {
		path, err := Find()
		if err != nil {
			return nil, err
		}
		o.Program = path
	}
	dir, err := os.MkdirTemp("", "raysys-consul-server-")
	if err != nil {
		return nil, fmt.Errorf("start Consul: %w", err)
	}
	s := &Server{options: o, dir: dir}
	for range attempts {
		if err = s.configure(); err == nil {
			err = s.Start(ctx)
		}
		if err == nil {
			return s, nil
		}
		if o.Port != 0 || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return nil, errors.Join(fmt.Errorf("start Consul: %w", err), s.Close())
}

// Address is host:port of the HTTP API. It stays the same over restarts.
func (s *Server) Address() string { return s.address }

// Token is a token that may do everything, "" without ACLs.
func (s *Server) Token() string {
	if s.options.ACL {
		return management
	}
	return ""
}

// Dir is where the server's configuration, data and log are.
func (s *Server) Dir() string { return s.dir }

// PID is the id of the server's last process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Exited is closed when the process of this moment has ended.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// State is how the last process ended; nil while it runs.
func (s *Server) State() *os.ProcessState { return s.cmd.ProcessState }

// Start starts a server that was stopped or killed, and waits until it serves. One that does not is killed.
func (s *Server) Start(ctx context.Context) error {
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"agent", "-config-file", s.configPath()}
	if !s.options.Disk {
		args = append(args, "-dev")
	}
	cmd := exec.Command(s.options.Program, args...)
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = withoutConsul(os.Environ())
	if s.options.OwnGroup {
		ownGroup(cmd)
	}
	exited, err := subprocess.Start(cmd)
	if err != nil {
		return err
	}
	s.cmd, s.exited = cmd, exited
	if err := s.Serving(ctx); err != nil {
		return errors.Join(err, s.Kill())
	}
	return nil
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

// Serving waits until the server answers consistent reads. Nothing tells when it does, so it is asked.
func (s *Server) Serving(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("it does not serve after %v", patience))
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// The catalog names the server itself once it leads and has settled.
		var nodes []struct{}
		body, err := s.Call(ctx, http.MethodGet, "/v1/catalog/nodes?consistent", nil)
		if err == nil && json.Unmarshal(body, &nodes) == nil && len(nodes) > 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return fmt.Errorf("it ended: %s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %s", context.Cause(ctx), err, s.Log())
		}
	}
}

// Call calls the server's API with its token, and returns the body of the answer.
func (s *Server) Call(ctx context.Context, method, path string, body any) ([]byte, error) {
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
	req.Header.Set("X-Consul-Token", s.Token())
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

func (s *Server) logPath() string { return filepath.Join(s.dir, "log") }

// Log returns the end of the server's log.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(b[max(0, len(b)-4096):]))
}

// Kill ends the server at once, as a power cut would, and waits until it is gone.
func (s *Server) Kill() error {
	if s.cmd == nil {
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
