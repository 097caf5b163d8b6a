package simulate

import "math/bits"

// learn enters the load of node i.
func (b *submitter) learn(i int32, l load) {
	p := &b.peers[i]
	p.load, p.among, p.full, p.asked = l, min(p.inflight, l.inbound), 0, false
	p.plain = min(p.inflight-p.inflightGPU, l.inbound-l.inboundGPU)
}

// report is the last load that a node has told.
type report struct {
	load
	number uint32
	news   uint32 // the number of the last in which other GPUs are free than in the one before
	at     int64
}

// peer returns what b knows of node i, with the node's last report. Reports are taken in when they are looked at, before anything else
// that b knows of the node changes: most come to submitters that have nothing to send.
func (s *sim) peer(b *submitter, i int32) *peer {
	p, r := &b.peers[i], &s.reports[i]
	if p.heard != r.number && i != b.node {
		p.heard = r.number
		b.learn(i, r.load)
		s.learnGPUs(b, i)
		if b.offers != nil {
			s.look(b, i)
		}
	}
	return p
}

// hear takes in all reports.
func (s *sim) hear(b *submitter) {
	if b.heard == s.told-1 {
		s.peer(b, s.teller)
	} else if b.heard != s.told {
		for k := range b.peers {
			s.peer(b, int32(k))
		}
	}
	b.heard = s.told
}

// report has the submitters with tasks to send hear a load. The others hear it when they next have some.
func (s *sim) report(i int32, l load) {
	r := &s.reports[i]
	news := r.news
	if l.gpus != r.gpus {
		news = r.number + 1
	}
	if !s.nodes[i].gone {
		s.idle += l.idleCPUs(s.cfg.CPUs) - r.idleCPUs(s.cfg.CPUs)
	}
	*r = report{l, r.number + 1, news, s.now}
	s.told, s.teller = s.told+1, i
	if l.queued > l.waits && !l.idle {
		for k := range s.cfg.Nodes {
			if int32(k) != i {
				s.nodes[k].owed.Add(i, 0)
				tellOwed(s, int32(k), s.nodes[k].free)
			}
		}
	}
	s.sending.each(func(k int32) (stays bool) {
		b := &s.submitters[k]
		if b.node != i {
			s.placeAgain(b)
		}
		if b.waits() > 0 {
			s.hear(b)
			if b.node != i && b.open > 0 && s.nodes[b.node].free == 0 {
				s.forward(b)
			}
		}
		return b.waits() > 0 || len(b.unplaced) > 0
	})
}

// marks is a set of small numbers. A report comes to all nodes and is of use to few: they are found here.
type marks []uint64

func newMarks(size int) marks { return make(marks, (size+63)/64) }

func (m marks) add(i int) { m[i>>6] |= 1 << (i & 63) }

// each calls f with each number, in order, and keeps those that stay. f adds no other.
func (m marks) each(f func(i int32) (stays bool)) {
	for w := range m {
		for left := m[w]; left != 0; left &= left - 1 {
			k := bits.TrailingZeros64(left)
			if !f(int32(w<<6 + k)) {
				m[w] &^= 1 << k
			}
		}
	}
}
