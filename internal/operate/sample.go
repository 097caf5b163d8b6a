package operate

import (
	"cmp"
	"errors"
	"time"

	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/internal/metrics"
	"github.com/raysys/raysys/internal/taskengine"
	"github.com/raysys/raysys/placement/devices"
)

// Sample is what the node, which has started, says of itself to metrics.
func Sample(o *Operator) (metrics.Sample, error) {
	s := metrics.Sample{
		Tasks: taskengine.Functions(o.Tasks), Calls: grainengine.Functions(o.Grains), Grains: o.Grains.Kinds(),
		Mailboxes: map[string]int{}, Late: map[string]int{}, EarlyKeys: grainengine.EarlyKeys(o.Grains),
	}
	s.Outbox, s.VainSends = grainengine.Outboxes(o.Grains)
	grainengine.EachActive(o.Grains, "", func(a grainengine.Active) { s.Mailboxes[a.ID.Kind] += a.Mailbox })
	for _, g := range grainengine.LateTurns(o.Grains) {
		s.Late[g.ID.Kind]++
	}
	use := ownMemoryUse(o)
	s.Memory = metrics.Memory{Limit: float64(use.Limit), Used: float64(cmp.Or(use.Used, use.Resident)), Unloaded: float64(use.Unloaded), Refused: float64(use.Refused)}
	total, free := o.Resources, o.Tasks.Free()
	s.Resources = []metrics.Resource{{Name: "CPU", Total: total.CPU, Free: free.CPU}}
	if total.GPU > 0 {
		s.Resources = append(s.Resources, metrics.Resource{Name: "GPU", Total: total.GPU, Free: free.GPU})
	}
	if total.Memory > 0 {
		s.Resources = append(s.Resources, metrics.Resource{Name: "memory", Total: float64(total.Memory), Free: float64(free.Memory)})
	}
	for name, n := range total.Custom {
		s.Resources = append(s.Resources, metrics.Resource{Name: name, Total: n, Free: free.Custom[name]})
	}
	for _, d := range ownDevices(o) {
		one := metrics.Device{ID: d.UUID, Held: d.Total - d.Free, Sick: d.Sick, Utilization: -1, UsedBytes: -1}
		if d.Busy != devices.Unknown {
			one.Utilization, one.UsedBytes = float64(d.Busy)/100, float64(d.UsedMemory)
		}
		s.Devices = append(s.Devices, one)
	}
	if store := o.Node.Objects(); store != nil {
		st := store.Stats()
		s.Objects = metrics.Objects{
			Count: float64(st.Objects), Bytes: float64(st.Used), Limit: float64(st.Budget), Spilled: float64(st.Spilled), SpillBytes: float64(st.Disk), SpillLost: float64(st.Lost),
		}
		if o.Node.Cluster() != nil {
			t := store.Transfers()
			s.Objects.SentBytes, s.Objects.ReceivedBytes = float64(t.BytesOut), float64(t.BytesIn)
			s.Objects.TransfersFailed, s.Objects.TransfersOpen = float64(t.Failed), float64(t.Flights)
		}
	}
	c := o.Node.Cluster()
	if c == nil {
		return s, nil
	}
	s.Clustered, s.LeaseLeft = true, c.Member.Lease().Seconds()
	if c.Expires != nil {
		own, ca := c.Expires()
		s.Certificates = map[string]float64{"node": time.Until(own).Seconds(), "ca": time.Until(ca).Seconds()}
	}
	m := member.StatsOf(c.Member)
	s.PromiseLeft, s.FencedReads = m.PromiseLeft.Seconds(), m.FencedReads
	s.Evictions = map[string]uint64{"fast": m.EvictedFast, "slow": m.EvictedSlow}
	if b := c.Balance(); b != nil {
		s.Balances, s.GrainLoad, s.GrainMean, s.GrainsMoved = true, b.Load, b.Mean, b.Moved
	}
	for _, p := range c.Mesh.Connected() {
		if s.Links++; p.Relayed() {
			s.Relayed++
		}
	}
	s.Shards, s.Store = len(c.Registry.Led()), map[string]metrics.Store{}
	for name, t := range c.Store.Times() {
		s.Store[name] = metrics.Store{Count: t.Count, Seconds: t.Took.Seconds(), Errors: t.Errors}
	}
	return s, nil
}

// Ready says why the node, which has started, takes no work, nil where it does.
func Ready(o *Operator) error {
	switch c := o.Node.Cluster(); {
	case o.Tasks.Load().Draining:
		return errors.New("the node drains, or closes")
	case c == nil:
		return nil
	case c.Member.State() != member.Active:
		return errors.New("the node is suspended, or has left: its lease ran out")
	case o.Node.WhyNoHost() != "":
		return errors.New(o.Node.WhyNoHost())
	}
	return nil
}
