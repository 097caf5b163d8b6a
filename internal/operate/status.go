package operate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/internal/member"
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
		Resources: m.Info.Resources, Labels: m.Info.Labels, State: inspect.NodeActive,
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

// ownReport is this node's status by itself.
func ownReport(o *Operator) inspect.NodeStatus {
	k := o.Self()
	l := o.Tasks.Load()
	s := inspect.NodeStatus{
		Name: k.Node, Incarnation: k.Incarnation, PID: os.Getpid(), Build: build(), Free: o.Tasks.Free(), Up: time.Since(o.Node.Started()),
		Queued: l.Queued, Inbound: l.Inbound, BusyCPU: l.Busy, FreeCPU: l.Free, MeanTask: l.Mean,
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
	s.Up, s.Held, s.LeaseLeft, s.Holding = time.Since(c.Started), c.Refs.Exported(), c.Member.Lease(), o.Node.Holding()
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
func with(s, own inspect.NodeStatus) inspect.NodeStatus {
	s.PID, s.Build = own.PID, own.Build
	s.Free, s.Up, s.Queued, s.Inbound, s.BusyCPU, s.FreeCPU, s.MeanTask = own.Free, own.Up, own.Queued, own.Inbound, own.BusyCPU, own.FreeCPU, own.MeanTask
	s.Grains, s.Peers, s.Connected, s.Held, s.LeaseLeft = own.Grains, own.Peers, own.Connected, own.Held, own.LeaseLeft
	s.NamedTasks, s.Holding, s.Devices, s.Demand, s.Groups = own.NamedTasks, own.Holding, own.Devices, own.Demand, own.Groups
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
