package natsserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"

	"github.com/raysys/raysys/internal/childserver"
)

// Options says what servers to run. The zero Options is one server that Find finds, without a token.
type Options struct {
	// Program is the path of the server; "" means what Find finds.
	Program string
	// Servers is how many there are: 1, which 0 means too, or 3, which are a cluster.
	Servers int
	// Port is that of the first server for clients; 0 means a free one.
	Port int
	// Token is what clients must give; "" lets everybody in who reaches loopback.
	Token string
	// Dir is the folder for the data, which Close leaves there: a test gives a small file system that becomes full. "" means a
	// folder that Close removes.
	Dir string
	// SyncAlways writes each message through to the disk before the server acknowledges it. Without it NATS does so every two
	// minutes, and a machine that crashes loses what came after.
	SyncAlways bool
	// MaxFileStore bounds the data of one server, in bytes; 0 means three quarters of what the disk has free.
	MaxFileStore int64
	// More is more of the servers' configuration, by the names that NATS has for it: accounts, max_payload.
	More map[string]any
	// OwnGroup puts the processes into groups of their own, so that a signal of the terminal does not reach them.
	OwnGroup bool
}

// routeUser is the name under which the servers of a cluster connect to each other.
const routeUser = "route"

// configure writes the configurations of servers on free ports.
func (s *Server) configure() error {
	const each = 3 // for clients, for the monitor, for the other servers
	ports, err := childserver.FreePorts(each * len(s.members))
	if err != nil {
		return err
	}
	if s.options.Port != 0 {
		ports[0] = s.options.Port
	}
	host := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	var routes []string
	for i := range s.members {
		u := url.URL{Scheme: "nats", User: url.UserPassword(routeUser, s.routes), Host: host(ports[each*i+2])}
		routes = append(routes, u.String())
	}
	for i, m := range s.members {
		m.address, m.monitor = host(ports[each*i]), host(ports[each*i+1])
		js := map[string]any{"store_dir": s.data(m)}
		if s.options.SyncAlways {
			js["sync_interval"] = "always"
		}
		if s.options.MaxFileStore > 0 {
			js["max_file_store"] = s.options.MaxFileStore
		}
		config := map[string]any{"server_name": m.name, "listen": m.address, "http": m.monitor, "jetstream": js}
		if s.options.Token != "" {
			config["authorization"] = map[string]any{"token": s.options.Token}
		}
		if len(s.members) > 1 {
			config["cluster"] = map[string]any{
				"name": "raysys", "listen": host(ports[each*i+2]), "routes": routes,
				"authorization": map[string]any{"user": routeUser, "password": s.routes},
			}
		}
		maps.Copy(config, s.options.More)
		var b bytes.Buffer // the language of the configuration has JSON in it, but for some escapes
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		if err := e.Encode(config); err != nil {
			return err
		}
		if err := os.WriteFile(s.configPath(m), b.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) configPath(m *member) string { return filepath.Join(s.dir, m.name+".json") }

// data is the folder of a server's data.
func (s *Server) data(m *member) string {
	if s.options.Dir != "" {
		return filepath.Join(s.options.Dir, m.name)
	}
	return filepath.Join(s.dir, m.name)
}
