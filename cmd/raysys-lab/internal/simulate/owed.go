package simulate

import "github.com/raysys/raysys/internal/forwarding"

// refuses reports whether node i gives a task of another back that has just come. A driver's waits, and the driver is
// told when no more do.
func refuses(s *sim, i, by int32) bool {
	n, driver := &s.nodes[i], s.nodes[by].cpus == 0
	free, waits := int64(n.free), int64(n.inbound.len())
	full := forwarding.Accepts(free, waits, n.settledMean()) == 0
	if full && !driver || driver && waits >= free {
		n.owed.Add(by, 0)
	}
	return full && !driver
}

// tellOwed tells as many of those to which node i owes word of room as CPUs are free, or most where that says more;
// after a pause, while some are, twice as many.
func tellOwed(s *sim, i int32, most int) {
	n := &s.nodes[i]
	if n.dead || n.free == 0 || n.inbound.len() > 0 || n.own != nil && n.own.waits() > 0 {
		return
	}
	for range most {
		to, ok := n.owed.Take()
		if !ok {
			return
		}
		tellOne(s, i, to)
	}
	if n.owed.Len() > 0 && !n.settling {
		n.settling = true
		s.at(int64(forwarding.TellPause), event{kind: settles, node: i, task: int32(2 * most)})
	}
}

func tellOne(s *sim, i, to int32) {
	s.Reports++
	s.at(int64(s.cfg.Latency), event{kind: words, node: to, from: i, with: s.loads.put(s.nodes[i].load())})
}

// hearWord takes in a load that its node has told this one alone.
func hearWord(s *sim, e event) {
	b := s.nodes[e.node].own
	l, p := s.loads.take(e.with), s.peer(b, e.from)
	l.gpus = p.gpus // of what is free beside CPU the last report counts
	b.learn(e.from, l)
	s.look(b, e.from)
	if b.waits() > 0 && s.nodes[b.node].free == 0 {
		s.forward(b)
	}
}

// askSome has b, whose tasks wait and which knows of no room, ask some nodes.
func askSome(s *sim, b *submitter, round int) {
	b.asking = false
	if b.waits() == 0 || s.nodes[b.node].free > 0 {
		b.stalled = false
		return
	}
	lookAgain(s, b)
	all := s.cfg.Nodes
	count, _ := forwarding.Asks(round, all)
	for k := range count {
		i := int32(k)
		if count < all {
			i = int32(b.draw.Below(all))
		}
		if p := s.peer(b, i); i != b.node && !p.gone && p.full == 0 && !p.asked {
			p.asked = true
			s.Reports++
			s.at(int64(s.cfg.Latency), event{kind: asked, node: i, from: b.node})
		}
	}
	if b.stalled && b.open > 0 {
		s.forward(b)
	}
	askLater(s, b, round+1)
}

// askLater has b ask after a pause.
func askLater(s *sim, b *submitter, round int) {
	if !b.asking && b.waits() > 0 {
		b.asking = true
		_, after := forwarding.Asks(round, s.cfg.Nodes)
		s.at(int64(after), event{kind: asks, node: b.node, task: int32(round)})
	}
}
