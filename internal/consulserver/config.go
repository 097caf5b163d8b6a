package consulserver

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/raysys/raysys/internal/childserver"
)

// Options says what server to run. The zero Options is the server that Find finds, in memory: it comes back empty when it
// is started again.
type Options struct {
	// Program is the path of the server; "" means what Find finds.
	Program string
	// Port of the HTTP interface; 0 means a free one.
	Port int
	// Disk keeps the data over restarts, and writes it through before it answers.
	Disk bool
	// ACL denies everything to clients without a token.
	ACL bool
	// MinTTL is the shortest TTL of a session; 0 means Consul's own, 10 s.
	MinTTL time.Duration
	// MaxConns is how many connections it takes from one address; 0 means Consul's own, 200.
	MaxConns int
	// Client makes it an agent that is no server, as it runs beside the nodes of a cluster, of the cluster of Join.
	Client bool
	// Join is the server of a cluster that this one joins; nil begins one. A second server makes a majority of two.
	Join *Server
	// JoinPort is its port of gossip, Member.Port of /v1/agent/self, where Join is not at hand; 0 means none.
	JoinPort int
	// OwnGroup puts the process into a group of its own, so that a signal of the terminal does not reach it.
	OwnGroup bool
}

// management is the token that may do everything. The server is reached from this host only.
const management = "5f2ba4c0-6d1f-4f6a-9d7e-0c5d3f1a2b3c"

// configure writes the configuration of a server on free ports.
func (s *Server) configure() error {
	ports, err := childserver.FreePorts(3)
	if err != nil {
		return err
	}
	if s.options.Port != 0 {
		ports[0] = s.options.Port
	}
	s.address = fmt.Sprintf("127.0.0.1:%d", ports[0])
	s.name = "raysys"
	join := s.options.JoinPort
	if s.options.Join != nil {
		join = s.options.Join.serf
	}
	if join != 0 {
		s.name = fmt.Sprintf("raysys-%d", ports[0])
	}
	config := map[string]any{
		"node_name":            s.name,
		"bind_addr":            "127.0.0.1",
		"client_addr":          "127.0.0.1",
		"server":               true,
		"log_level":            "warn",
		"disable_update_check": true,
		"performance":          map[string]any{"raft_multiplier": 1},
		"ports": map[string]any{
			"http": ports[0], "server": ports[1], "serf_lan": ports[2],
			"serf_wan": -1, "dns": -1, "grpc": -1, "grpc_tls": -1,
		},
	}
	s.serf = ports[2]
	if s.options.Client {
		config["server"] = false // and it leaves on SIGTERM, as such agents do unless they are told
	} else {
		config["leave_on_terminate"] = false
		config["autopilot"] = map[string]any{"server_stabilization_time": "100ms"} // until a server that joined may vote
	}
	if join != 0 {
		config["retry_join"] = []string{fmt.Sprintf("127.0.0.1:%d", join)}
		config["retry_interval"] = "1s"
	} else if s.options.Disk {
		config["bootstrap_expect"] = 1
	}
	if s.onDisk() {
		config["data_dir"] = filepath.Join(s.dir, "data")
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
	return os.WriteFile(s.configPath(), b, 0o600)
}

func (s *Server) onDisk() bool {
	return s.options.Disk || s.options.Join != nil || s.options.JoinPort != 0
}

func (s *Server) configPath() string { return filepath.Join(s.dir, "consul.json") }
