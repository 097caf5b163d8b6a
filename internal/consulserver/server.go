package consulserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/childserver"
)

// Server is a Consul server.
type Server struct {
	options Options
	dir     string // configuration, data and log
	address string
	serf    int // the port at which others join
	name    string
	childserver.Process
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
	s.Process = childserver.Process{
		Program: o.Program, Args: []string{"agent", "-config-file", s.configPath()}, Env: withoutConsul(os.Environ()),
		Dir: dir, LogPath: filepath.Join(dir, "log"), OwnGroup: o.OwnGroup,
	}
	if !s.onDisk() {
		s.Args = append(s.Args, "-dev")
	}
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

// Name is what its node is called in the catalog.
func (s *Server) Name() string { return s.name }

// Token is a token that may do everything, "" without ACLs.
func (s *Server) Token() string {
	if s.options.ACL {
		return management
	}
	return ""
}

// Dir is where the server's configuration, data and log are.
func (s *Server) Dir() string { return s.dir }

// Start starts a server that was stopped or killed, and waits until it serves. One that does not is killed.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Launch(); err != nil {
		return err
	}
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

// Serving waits until the server answers consistent reads.
func (s *Server) Serving(ctx context.Context) error {
	return s.Await(ctx, func(ctx context.Context) error {
		// A read holds out for a leader, looks again only at random times, and may find none in its time: this one answers at once.
		if body, err := s.Call(ctx, http.MethodGet, "/v1/status/leader", nil); err != nil || string(body) == `""` {
			return errors.Join(err, errors.New("it has no leader"))
		}
		// The catalog names the server itself once it leads and has settled.
		var nodes []struct{}
		body, err := s.Call(ctx, http.MethodGet, "/v1/catalog/nodes?consistent", nil)
		if err == nil {
			err = json.Unmarshal(body, &nodes)
		}
		if err == nil && len(nodes) == 0 {
			err = errors.New("it has no leader")
		}
		return err
	})
}

// Call calls the server's API with its token, and returns the body of the answer. The body of the request is JSON, but for
// bytes, which are sent as they are.
func (s *Server) Call(ctx context.Context, method, path string, body any) ([]byte, error) {
	var buf bytes.Buffer
	if raw, ok := body.([]byte); ok {
		buf.Write(raw)
	} else if body != nil {
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

// Close kills the server and removes its files.
func (s *Server) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }
