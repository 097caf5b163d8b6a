package member

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// ledgerKey holds what evictions there were lately, see ledger.
const ledgerKey = "evictions"

func nodeKey(id raysys.NodeID) string { return shardlog.NodesPrefix + string(id) }

func evictKey(incarnation uint64) string {
	return fmt.Sprintf("%s%d", shardlog.EvictPrefix, incarnation)
}

// Role says what a node is there for (C14).
type Role string

const (
	// Worker leads shards, hosts grains and runs tasks.
	Worker Role = "worker"
	// Driver submits work, and comes and goes; it leads and hosts nothing unless Info.Serves.
	Driver Role = "driver"
)

// Info is what a node tells of itself. It is kept as JSON: fields may be added, and unknown ones are skipped.
type Info struct {
	ID        raysys.NodeID     `json:"id"`
	Address   string            `json:"address"` // where it can be dialled; bound before Join
	Role      Role              `json:"role"`    // "" means Worker
	Serves    bool              `json:"serves,omitempty"`
	Draining  bool              `json:"draining,omitempty"`
	Resources raysys.Resources  `json:"resources"`
	Devices   []raysys.Device   `json:"devices,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Version   string            `json:"version,omitempty"`
	Functions string            `json:"functions,omitempty"` // digest of the function table
	KeyPrint  string            `json:"keyPrint,omitempty"`  // fingerprint of its key (C18)
	Started   time.Time         `json:"started,omitzero"`
	Launch    string            `json:"launch,omitempty"`   // which start of its process this is, see DiedLaunch
	Observer  bool              `json:"observer,omitempty"` // here to look and to ask, for a moment
	Proves    bool              `json:"proves,omitempty"`   // its program proves the cluster's secret on plain connections
}

// Works reports whether the node takes work of others: it is a worker, or a driver that was asked to.
func (i Info) Works() bool { return i.Role != Driver || i.Serves }

// Eligible reports whether the node may become a host, which leads shards and has grains: it takes work of others, and
// is not draining.
func (i Info) Eligible() bool { return i.Works() && !i.Draining }

const (
	maxNodeID  = 128
	maxAddress = 512
	maxRecord  = 64 << 10 // of nodes/<node>; every node reads every one of them
)

// Validate returns an error for a record that cannot be written.
func (i Info) Validate() error {
	switch {
	case i.ID == "" || len(i.ID) > maxNodeID || !utf8.ValidString(string(i.ID)) || strings.ContainsAny(string(i.ID), "/\x00"):
		return fmt.Errorf("%w: node name %q: it needs 1 to %d bytes of UTF-8 without a slash", raysys.ErrBadOption, i.ID, maxNodeID)
	case i.Address == "" || len(i.Address) > maxAddress:
		return fmt.Errorf("%w: address %q of node %s: give the host:port that other nodes can dial", raysys.ErrBadOption, i.Address, i.ID)
	case i.Role != "" && i.Role != Worker && i.Role != Driver:
		return fmt.Errorf("%w: role %q of node %s: it is %q or %q", raysys.ErrBadOption, i.Role, i.ID, Worker, Driver)
	}
	if host, _, err := net.SplitHostPort(i.Address); err == nil {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return fmt.Errorf("%w: address %q of node %s: no other node can dial it, name one host", raysys.ErrBadOption, i.Address, i.ID)
		}
	}
	return i.validateOffer()
}

// MaxDevices bounds the devices of a node, which are in its record and its reports.
const MaxDevices = 256

// validateOffer returns an error where no node can have what the record says.
func (i Info) validateOffer() error {
	if err := i.Resources.Validate(); err != nil {
		return err
	}
	if len(i.Devices) > MaxDevices || i.Resources.GPU > MaxDevices || i.Devices != nil && i.Resources.GPU > float64(len(i.Devices)) {
		return fmt.Errorf("%w: node %s has %d devices and GPU %v: list at most %d devices, and no more GPU than devices",
			raysys.ErrBadOption, i.ID, len(i.Devices), i.Resources.GPU, MaxDevices)
	}
	seen := make(map[string]bool, len(i.Devices))
	for n, d := range i.Devices {
		if d.UUID == "" || seen[d.UUID] {
			return fmt.Errorf("%w: device %d of node %s has UUID %q: each device needs one of its own", raysys.ErrBadOption, n, i.ID, d.UUID)
		}
		seen[d.UUID] = true
		if d.Memory < 0 || !(d.Share == 0 || d.Share >= 0.001 && d.Share <= 1) {
			return fmt.Errorf("%w: device %d of node %s has %d bytes and a share of %v: give 0 or more bytes, and 0 (all) or 0.001 to 1",
				raysys.ErrBadOption, n, i.ID, d.Memory, d.Share)
		}
	}
	return nil
}

// record is the value of nodes/<node>.
type record struct {
	V int `json:"v"`
	Info
	// Unheard are the incarnations that this node has not heard for long, though they are members (see pairs.go).
	Unheard []uint64 `json:"unheard,omitempty"`
	// Joining: it is no host yet, because too few hosts have a session with it (see member.go).
	Joining bool `json:"joining,omitempty"`
	// Promise is for how many milliseconds a pong of this node holds, see promise.go; a node without cannot be an
	// elector.
	Promise int64 `json:"promise,omitempty"`
	// Lease is the TTL of this node's session in milliseconds.
	Lease int64 `json:"lease,omitempty"`
}

const recordVersion = 1

// maxLease is the longest TTL that Consul takes.
const maxLease = 24 * time.Hour

func (r record) encode() ([]byte, error) {
	r.V = recordVersion
	if r.Role == "" {
		r.Role = Worker
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the record of node %s: %w", r.ID, err)
	}
	if len(data) > maxRecord {
		return nil, fmt.Errorf("%w: the record of node %s has %d bytes, at most %d may be: it has too many labels or resources", raysys.ErrBadOption, r.ID, len(data), maxRecord)
	}
	return data, nil
}

// decodeNode reads nodes/<node>. The key is the truth on the name, and the pair on incarnation and session.
func decodeNode(p store.Pair) (Node, error) {
	var r record
	if err := json.Unmarshal(p.Value, &r); err != nil {
		return Node{}, fmt.Errorf("read %s: %w", p.Key, err)
	}
	if r.V < 1 {
		return Node{}, fmt.Errorf("read %s: %w: it has no version", p.Key, store.ErrCorrupt)
	}
	if r.Address == "" {
		return Node{}, fmt.Errorf("read %s: %w: it has no address", p.Key, store.ErrCorrupt)
	}
	r.ID = raysys.NodeID(strings.TrimPrefix(p.Key, shardlog.NodesPrefix))
	if err := r.validateOffer(); err != nil { // work would go where it can never run
		return Node{}, fmt.Errorf("read %s: %w: %w", p.Key, store.ErrCorrupt, err)
	}
	slices.Sort(r.Unheard)
	n := Node{Info: r.Info, Incarnation: p.Create, Joining: r.Joining, session: p.Session, unheard: r.Unheard}
	if r.Lease > 0 && r.Lease <= maxLease.Milliseconds() {
		n.TTL = time.Duration(r.Lease) * time.Millisecond
	}
	if r.Promise > 0 && r.Promise < r.Lease && n.TTL > 0 { // else a mistake would let a node trust this one for long
		n.promise = time.Duration(r.Promise) * time.Millisecond
	}
	return n, nil
}
