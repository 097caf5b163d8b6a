package natsserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/childserver"
	"github.com/raysys/raysys/internal/ownfiles"
)

// Server is a NATS server, or the three of a cluster.
type Server struct {
	options Options
	dir     string // configurations, logs, and the data unless Options.Dir has it
	remove  func() error
	routes  string // the password of routes
	members []*member
}

// member is one server.
type member struct {
	name             string
	address, monitor string // host:port
	childserver.Process
}

// attempts is how often free ports are looked for: one that was free a moment ago may be taken when a server wants it.
const attempts = 5

// Run runs the servers, which the caller closes, and waits until they serve: see Serving.
func Run(ctx context.Context, o Options) (*Server, error) {
	if o.Servers == 0 {
		o.Servers = 1
	}
	if o.Servers != 1 && o.Servers != 3 {
		return nil, fmt.Errorf("start NATS: %d servers: give 1 or 3", o.Servers)
	}
	if o.Program == "" {
		path, err := Find()
		if err != nil {
			return nil, err
		}
		o.Program = path
	}
	dir, remove, err := ownfiles.Temp("raysys-nats-server-")
	if err != nil {
		return nil, fmt.Errorf("start NATS: %w", err)
	}
	s := &Server{options: o, dir: dir, remove: remove, routes: rand.Text()}
	for i := range o.Servers {
		m := &member{name: fmt.Sprintf("nats-%d", i+1)}
		m.Process = childserver.Process{
			Program: o.Program, Args: []string{"-c", s.configPath(m)}, Dir: dir, LogPath: filepath.Join(dir, m.name+".log"), OwnGroup: o.OwnGroup,
		}
		s.members = append(s.members, m)
	}
	for range attempts {
		if err = s.configure(); err == nil {
			err = s.startAll(ctx)
		}
		if err == nil {
			return s, nil
		}
		if o.Port != 0 || !strings.Contains(err.Error(), "address already in use") {
			break
		}
		err = errors.Join(err, s.kill()) // new ports are for all of them
	}
	return nil, errors.Join(fmt.Errorf("start NATS: %w", err), s.Close())
}

func (s *Server) startAll(ctx context.Context) error {
	for i := range s.members {
		if err := s.Start(ctx, i+1); err != nil {
			return err
		}
	}
	return s.Serving(ctx)
}

// URL is what a client connects to: the URLs of all servers, with commas between and with the token. It stays the same over
// restarts.
func (s *Server) URL() string {
	var list []string
	for _, m := range s.members {
		u := url.URL{Scheme: "nats", Host: m.address}
		if s.options.Token != "" {
			u.User = url.User(s.options.Token)
		}
		list = append(list, u.String())
	}
	return strings.Join(list, ",")
}

// Address is host:port of server i for clients.
func (s *Server) Address(i int) string { return s.members[i-1].address }

// Process is that of server i, to be killed, stopped or paused.
func (s *Server) Process(i int) *childserver.Process { return &s.members[i-1].Process }

// Start starts server i, which was stopped or killed, and waits until it takes clients and its JetStream is on. One that does
// not is killed. In a cluster it may not have found the others yet: see Serving.
func (s *Server) Start(ctx context.Context, i int) error {
	m := s.members[i-1]
	if err := m.Launch(); err != nil {
		return err
	}
	err := m.Await(ctx, func(ctx context.Context) error {
		_, err := m.get(ctx, "/healthz?js-enabled-only=true")
		return err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", m.name, err), m.Kill())
	}
	return nil
}

// Serving waits until each server that runs has its streams, and in a cluster until it knows a leader that runs, of JetStream
// and of each stream. A cluster needs two of its servers for that.
func (s *Server) Serving(ctx context.Context) error {
	for _, m := range s.members {
		if !m.Runs() {
			continue
		}
		err := m.Await(ctx, func(ctx context.Context) error { return m.led(ctx, s.runs) })
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// runs reports whether a server of this name runs.
func (s *Server) runs(name string) bool {
	return slices.ContainsFunc(s.members, func(m *member) bool { return m.name == name && m.Runs() })
}

// leader names a server. A server that was killed is named until an election has noticed.
type leader struct {
	Leader string `json:"leader"`
}

// led asks the server for its leaders, and returns an error unless all of them run. Its streams tell of leaders in a server
// without a cluster, too: itself.
func (m *member) led(ctx context.Context, runs func(name string) bool) error {
	body, err := m.get(ctx, "/jsz?streams=true")
	if err != nil {
		return err
	}
	var js struct {
		Meta     *leader `json:"meta_cluster"` // nil without a cluster
		Accounts []struct {
			Streams []struct {
				Name    string  `json:"name"`
				Cluster *leader `json:"cluster"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.Unmarshal(body, &js); err != nil {
		return err
	}
	if js.Meta != nil && !runs(js.Meta.Leader) {
		return errors.New("JetStream has no leader")
	}
	for _, a := range js.Accounts {
		for _, st := range a.Streams {
			if st.Cluster != nil && !runs(st.Cluster.Leader) {
				return fmt.Errorf("stream %s has no leader", st.Name)
			}
		}
	}
	return nil
}

// get reads from the server's monitoring port.
func (m *member) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.monitor+path, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true // no connection stays behind to be counted as a leak
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return body, err
}

// Log is the end of what each server wrote.
func (s *Server) Log() string {
	var b strings.Builder
	for _, m := range s.members {
		fmt.Fprintf(&b, "%s:\n%s\n", m.name, m.Process.Log())
	}
	return b.String()
}

func (s *Server) kill() error {
	var errs []error
	for _, m := range s.members {
		errs = append(errs, m.Kill())
	}
	return errors.Join(errs...)
}

// Close kills the servers and removes their files, but for the data in Options.Dir.
func (s *Server) Close() error { return errors.Join(s.kill(), s.remove()) }
