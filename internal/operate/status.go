package operate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/link"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/mesh"
)

// errInNoCluster is the error of an operator's request to a node that runs everything in one process.
var errInNoCluster = errors.New("the node is in no cluster: set RAYSYS_CONSUL")

// statusPatience is how long a node may take to answer. It only reads counters, so a second already shows that
// something is wrong.
const statusPatience = 3 * time.Second

// shards are the leaders of all shards, as this node knows them.
func (c *Cluster) shards() (list []inspect.ShardStatus) {
	view := c.Member.View()
	for i := range c.Registry.Layout().Shards {
		sh := inspect.ShardStatus{Shard: i}
		if l, ok := view.Leader(i); ok {
			sh.Node, sh.Epoch = l.Node, l.Epoch
		}
		list = append(list, sh)
	}
	return list
}

// Known is the status of a node by its record, which every node has.
func Known(m member.Node) inspect.NodeStatus {
	s := inspect.NodeStatus{
		Name: m.ID, Incarnation: m.Incarnation, Address: m.Info.Address, Role: RoleOf(m.Info), Version: m.Info.Version,
		Resources: m.Info.Resources, Labels: m.Info.Labels, State: inspect.NodeActive, TTL: m.TTL,
	}
	switch {
	case m.Info.Draining:
		s.State = inspect.NodeDraining
	case m.Joining:
		s.State = inspect.NodeJoining
	case m.Suspect:
		s.State = inspect.NodeSuspect
	}
	return s
}

// report is inspect.NodeStatus between nodes.
type report struct {
	inspect.NodeStatus
	Late []grainRow `json:"late,omitempty"`
}

// maxLate bounds the late turns that a node reports.
const maxLate = 10

// ownLate lists this node's late turns, the longest first.
func ownLate(o *Operator) (rows []grainRow) {
	for _, g := range grainengine.LateTurns(o.Grains) {
		rows = append(rows, ownGrain(o, &g))
	}
	slices.SortFunc(rows, func(a, b grainRow) int {
		return cmp.Or(cmp.Compare(b.Lasts, a.Lasts), cmp.Compare(a.Key, b.Key))
	})
	return rows[:min(len(rows), maxLate)]
}

// ownReport is this node's status by itself.
func ownReport(o *Operator, _ context.Context, _ struct{}) (report, error) {
	return report{ownStatus(o), ownLate(o)}, nil
}

func ownStatus(o *Operator) inspect.NodeStatus {
	k := o.Self()
	l := o.Tasks.Load()
	s := inspect.NodeStatus{
		Name: k.Node, Incarnation: k.Incarnation, PID: os.Getpid(), Build: build(), Memory: ownMemoryUse(o),
		Free: o.Tasks.Free(), Up: time.Since(o.Node.Started()),
		Queued: l.Queued, Shaped: l.Shaped, Inbound: l.Inbound, BusyCPU: l.Busy, FreeCPU: l.Free, MeanTask: l.Mean,
		Grains: o.Grains.Kinds(), Devices: ownDevices(o), Demand: ownDemand(o), Groups: ownGroupDemand(o),
	}
	if o.Job.Tasks != nil {
		for _, j := range o.Job.Tasks.ListTasks() {
			s.NamedTasks = append(s.NamedTasks, inspect.NamedTask(j))
		}
	}
	c := o.Node.Cluster()
	if c == nil {
		return s
	}
	s.Balance = c.Balance()
	s.Up, s.Held, s.LeaseLeft, s.Holding = time.Since(c.Started), c.Refs.Exported(), c.Member.Lease(), o.Node.Holding()
	if o.Node.Kept() {
		s.Grace = o.Grace
	}
	stats := member.StatsOf(c.Member)
	s.Electors, s.PromiseLeft = stats.Electors, stats.PromiseLeft
	if c.Member.State() == member.Suspended {
		s.State = inspect.NodeSuspended
	}
	if why := o.Node.WhyNoHost(); why != "" && s.State == "" {
		s.State, s.Error = inspect.NodeJoining, why
	}
	for _, p := range c.Mesh.Connected() {
		s.Connected = append(s.Connected, inspect.PeerStatus{Name: p.Node(), Relayed: p.Relayed()})
	}
	s.Peers = len(s.Connected)
	slices.SortFunc(s.Connected, func(a, b inspect.PeerStatus) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return s
}

// with adds the fields that the node itself reported.
func with(s inspect.NodeStatus, own report) inspect.NodeStatus {
	s.Late = grainsOf(own.Late)
	s.PID, s.Build, s.Memory, s.Shaped = own.PID, own.Build, own.Memory, own.Shaped
	s.Free, s.Up, s.Queued, s.Inbound, s.BusyCPU, s.FreeCPU, s.MeanTask = own.Free, own.Up, own.Queued, own.Inbound, own.BusyCPU, own.FreeCPU, own.MeanTask
	s.Grains, s.Peers, s.Connected, s.Held, s.LeaseLeft = own.Grains, own.Peers, own.Connected, own.Held, own.LeaseLeft
	s.Balance = own.Balance
	s.Electors, s.PromiseLeft = own.Electors, own.PromiseLeft
	s.NamedTasks, s.Holding, s.Devices, s.Demand, s.Groups = own.NamedTasks, own.Holding, own.Devices, own.Demand, own.Groups
	s.Grace = own.Grace
	if own.State != "" {
		s.State, s.Error = own.State, own.Error
	}
	return s
}

// build names the build of this process's program; "" where its file cannot be read. It reads the whole file, the first time.
var build = sync.OnceValue(func() string {
	// Where there is a /proc this is the file that runs, also after another has taken its place.
	if b := buildOf("/proc/self/exe"); b != "" {
		return b
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return buildOf(self)
})

// buildOf is the first 8 digits of the SHA-256 of a file; "" where it cannot be read.
func buildOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:4])
}

// maxMixed bounds the functions of Status.Mixed.
const maxMixed = 200

// mixedAmong are the functions in which members differ that run one program, by the tables that they told when they
// were connected.
func mixedAmong(o *Operator, members []member.Node) (list []inspect.Mixed) {
	type build struct{ space, digest string }
	type key struct{ space, function string }
	programs, nodes := map[string][]raysys.NodeID{}, map[build][]raysys.NodeID{}
	tables, all := map[build][]link.Function{}, map[key]map[string][]raysys.NodeID{}
	for _, m := range members {
		if space, table, ok := tableOf(o, mesh.KeyOf(m)); ok {
			b := build{space, m.Info.Functions}
			nodes[b], tables[b] = append(nodes[b], m.ID), table
			programs[space] = append(programs[space], m.ID)
		}
	}
	for b, table := range tables {
		for _, f := range table {
			k := key{b.space, f.Kind + " " + f.Name}
			if all[k] == nil {
				all[k] = map[string][]raysys.NodeID{}
			}
			version := fmt.Sprintf("%016x", f.Fingerprint)
			all[k][version] = append(all[k][version], nodes[b]...)
		}
	}
	for k, versions := range all {
		have := slices.Concat(slices.Collect(maps.Values(versions))...)
		for _, n := range programs[k.space] {
			if len(have) < len(programs[k.space]) && !slices.Contains(have, n) {
				versions[""] = append(versions[""], n)
			}
		}
		if len(versions) > 1 {
			list = append(list, inspect.Mixed{Namespace: k.space, Function: k.function, Versions: versions})
		}
	}
	slices.SortFunc(list, func(a, b inspect.Mixed) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Function, b.Function))
	})
	return list[:min(len(list), maxMixed)]
}

// tableOf returns the functions of a node that is connected, and the namespace of its program.
func tableOf(o *Operator, k core.NodeKey) (space string, table []link.Function, ok bool) {
	c := o.Node.Cluster()
	switch {
	case c == nil:
		return "", nil, false
	case k == o.Self():
		for _, e := range c.Mesh.Entries() {
			table = append(table, link.Function{Kind: e.Kind, Name: e.Name, Fingerprint: e.Fingerprint})
		}
		return o.Namespace, table, true
	}
	p := c.Mesh.Peer(k)
	if p == nil {
		return "", nil, false
	}
	return p.Namespace(), mesh.FunctionsOf(p), true
}
