package placement

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/raysys/raysys"
)

// View is the nodes as its owner knows them, in a form that Place can use many thousand times per second. Make a new
// one when a node comes or goes; correct what is known of one with Update. Place keeps in it what it finds, so one goroutine
// uses a View at a time. The zero View has no nodes.
type View struct {
	local   int // index of the node that asks unless a request says another, -1 when it is not among them
	nodes   []Node
	hashes  []uint64 // of the IDs, shifted
	index   map[raysys.NodeID]int
	upTo    []uint64 // at i the sum of the sizes of the nodes before i, at the end of all; nil where all are equal
	counts  [2][]int // of the grains and of the tasks of each node
	largest float64  // of the sizes
	shapes  map[shapeKey]*shape
	turn    int // of the nodes whose counts are read anew for Spread

	// Refresh, where set, corrects the counts of a node before a decision compares them with another's: what changes too often
	// for Update. Which nodes have room, for a grain or a task with Now, is known from Update alone. Spread compares
	// all nodes, and reads the counts of a few of many anew for each decision.
	Refresh func(*Node)
}

// NewView returns the view of local, which need not be among the nodes. The order of the nodes does not matter. Of two
// incarnations of a node the later counts: the earlier is dead.
func NewView(local raysys.NodeID, nodes []Node) *View {
	v := &View{local: -1, nodes: slices.Clone(nodes)}
	slices.SortFunc(v.nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(b.Incarnation, a.Incarnation))
	})
	v.nodes = slices.CompactFunc(v.nodes, func(a, b Node) bool { return a.ID == b.ID })
	v.index = make(map[raysys.NodeID]int, len(v.nodes))
	v.counts = [2][]int{make([]int, len(v.nodes)), make([]int, len(v.nodes))}
	even := true
	for i := range v.nodes {
		n := &v.nodes[i]
		n.Free.Custom = maps.Clone(n.Free.Custom) // Placed and Gone change it
		n.Devices = slices.Clone(n.Devices)
		v.index[n.ID] = i
		v.hashes = append(v.hashes, shifted(hashString(string(n.ID))))
		even = even && n.milli() == v.nodes[0].milli()
		v.largest = max(v.largest, n.size())
		v.count(i)
	}
	if i, ok := v.index[local]; ok {
		v.local = i
	}
	if !even {
		v.upTo = make([]uint64, 1, len(v.nodes)+1)
		for i := range v.nodes {
			v.upTo = append(v.upTo, v.upTo[i]+v.nodes[i].milli())
		}
	}
	return v
}

// Len returns the number of nodes.
func (v *View) Len() int { return len(v.nodes) }

// At returns node i in the order of their IDs, to read.
func (v *View) At(i int) *Node { return &v.nodes[i] }

// Find returns the node named id, to read, or nil.
func (v *View) Find(id raysys.NodeID) *Node {
	if i, ok := v.index[id]; ok {
		return &v.nodes[i]
	}
	return nil
}

// refresh brings the counts of nodes up to date.
func (v *View) refresh(nodes ...int) {
	if v.Refresh == nil {
		return
	}
	for _, i := range nodes {
		v.Refresh(&v.nodes[i])
		v.count(i)
	}
}

// count enters what Spread compares of node i.
func (v *View) count(i int) {
	n := &v.nodes[i]
	v.counts[Grain][i], v.counts[Task][i] = n.Grains, n.Queued+n.Running
}

// Placed enters what a decision will do to its node: one grain more and its needs taken, or one task more in the queue.
func (v *View) Placed(r Request, d Decision) {
	n := v.Find(d.Node)
	if n == nil || n.Incarnation != d.Incarnation {
		return
	}
	if r.Kind == Task {
		n.Queued++
	} else {
		n.Grains++
		n.release(&r.Needs, -1)
	}
	v.changed(v.index[d.Node])
}

// Gone enters that a grain with these needs left the node.
func (v *View) Gone(id raysys.NodeID, needs raysys.Resources) {
	n := v.Find(id)
	if n == nil || n.Grains == 0 {
		return
	}
	n.Grains--
	n.release(&needs, 1)
	v.changed(v.index[id])
}

// sample draws two nodes that fit and are sound, without reading all of the view. ok is false when it did not find
// them.
func (v *View) sample(r *Request, d *draw) (p pair, ok bool) {
	if len(v.nodes) < 2 {
		return p, false
	}
	p.a = -1
	for range tries {
		i := v.node(d)
		if i == p.a || v.exclude(i, r) != fit || v.reserve(i, r.Avoid) != 0 {
			continue
		}
		if p.a >= 0 {
			p.b = i
			return p, true
		}
		p.a = i
	}
	return p, false
}

// two draws two of c, or its only one, with odds by size.
func (v *View) two(c *set, d *draw) pair {
	p := pair{c.bySize(d), -1}
	if c.n > 1 {
		c.remove(p.a)
		p.b = c.bySize(d)
		c.add(p.a)
	}
	return p
}

// better is the power of two choices (Mitzenmacher 2001): of two random nodes the less busy one. Taking the least
// busy of all would make all nodes that read the same stale report choose the same node.
func (v *View) better(p pair, r *Request) int {
	if p.b < 0 {
		return p.a
	}
	v.refresh(p.a, p.b)
	if !v.busier(p.a, p.b, r) {
		return p.a
	}
	return p.b
}

// busier reports whether a should rather not take r when b can.
func (v *View) busier(a, b int, r *Request) bool {
	m, n := &v.nodes[a], &v.nodes[b]
	slack := grainSlack
	if r.Kind == Task {
		slack = taskSlack
	}
	x, y := m.Wait(r.Needs), n.Wait(r.Needs)
	if x > y+y/8+slack {
		return true
	}
	if y > x+x/8+slack {
		return false
	}
	if r.Kind == Task {
		if x, y := m.load(), n.load(); x != y {
			return x > y
		}
	}
	return float64(m.Grains)*n.size() > float64(n.Grains)*m.size()
}

func (v *View) named(list []Condition) (out named) {
	for k := range list {
		c := &list[k]
		switch {
		case c.Soft || c.Label != "":
		case c.Not:
			out.never = v.indices(out.never, c.Nodes)
		case out.limited:
			also := v.indices(nil, c.Nodes)
			out.only = slices.DeleteFunc(out.only, func(i int) bool { return !slices.Contains(also, i) })
		default:
			out.limited, out.only = true, v.indices(nil, c.Nodes)
		}
	}
	if out.limited {
		out.only = slices.DeleteFunc(out.only, func(i int) bool { return slices.Contains(out.never, i) })
		out.never = nil
	}
	return out
}

// indices adds those of the nodes that are in the view to list, which stays in order and without doubles.
func (v *View) indices(list []int, ids []raysys.NodeID) []int {
	for _, id := range ids {
		if i, ok := v.index[id]; ok && !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	slices.Sort(list)
	return list
}

// node draws a node with odds by size.
func (v *View) node(d *draw) int {
	if v.upTo == nil {
		return int(d.below(uint64(len(v.nodes))))
	}
	ends := v.upTo[1:]
	i, found := slices.BinarySearch(ends, d.below(ends[len(ends)-1]))
	if found {
		i++ // ends[i] is the first value beyond node i
	}
	return i
}

// exclude returns why node i may not take r. The order matters: what does not pass with time is found first.
func (v *View) exclude(i int, r *Request) cause {
	n := &v.nodes[i]
	if !n.Worker && (r.Kind == Grain || i != v.local || n.Total.CPU == 0 && !n.everHas(&r.Needs)) {
		return noWorker // a driver runs what it submits itself, where it offers something
	}
	if r.Function != "" && n.Namespace != r.Namespace {
		return otherProgram
	}
	if r.Function != "" && n.Runs != nil && !n.Runs(r.Function) {
		return noFunction
	}
	for key, want := range r.Labels {
		if have, ok := n.Labels[key]; !ok || have != want {
			return noLabel
		}
	}
	if !n.everHas(&r.Needs) {
		return tooSmall
	}
	if len(r.Conditions) > 0 && r.unmet(n) != nil {
		return unmet
	}
	if n.Joining && (r.Kind == Grain || i != v.local) {
		return joining
	}
	if n.Draining {
		return draining
	}
	if !n.hasDevices(&r.Needs, well) {
		return sick
	}
	if r.Kind == Grain && !r.Queue && !n.hasNow(&r.Needs) || r.Now && n.Wait(r.Needs) > 0 {
		return noRoom
	}
	return fit
}

// reserve says in which order nodes that fit are taken: 0 sound, 1 to avoid, 2 suspect or crowded, 3 both.
func (v *View) reserve(i int, avoid []raysys.NodeID) int {
	rank := 0
	if len(avoid) > 0 && slices.Contains(avoid, v.nodes[i].ID) {
		rank = 1
	}
	if v.nodes[i].shunned() {
		rank += 2
	}
	return rank
}

// eligible returns the nodes to choose from, or the error that there is none.
func (v *View) eligible(r *Request) (*set, error) {
	s := v.shapeOf(r)
	c, ok := v.candidates(r, s)
	if !ok {
		return c, v.noNode(r, s)
	}
	return c, nil
}

// start estimates how long it takes until r begins on node i (Ray, OSDI 2018, section 4.2.2).
func (v *View) start(i int, r *Request) time.Duration {
	n := &v.nodes[i]
	return min(n.Wait(r.Needs), longest) + n.Move(r.Inputs)
}

// appendCandidates appends the nodes among which soonest chooses.
func (v *View) appendCandidates(r *Request, c *set, d *draw, list []int) []int {
	if c.n <= maxLooked {
		return c.list(list)
	}
	add := func(i int) {
		if !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	if v.local >= 0 && c.has(v.local) {
		add(v.local)
	}
	var at []int
	for id, bytes := range r.Inputs.At {
		if i, ok := v.index[id]; ok && bytes > 0 && c.has(i) {
			at = append(at, i)
		}
	}
	slices.SortFunc(at, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.Inputs.missing(&v.nodes[a]), r.Inputs.missing(&v.nodes[b])), cmp.Compare(a, b))
	})
	for _, i := range at[:min(len(at), maxLooked/2)] {
		add(i)
	}
	for len(list) < maxLooked {
		add(c.one(d))
	}
	return list
}

// soonest is the node of list where r begins first. Where that is about the same, the one to which the least is moved, so
// that no node is taken that waits longer and moves more than another; then the one that is preferred, then the one that asks, then the
// less loaded one,
// and the seed decides the rest.
//
// Nodes that ask with different inputs choose differently, and
// what one has sent it counts itself, so that they do not all go to the same node as those would that have none.
func (v *View) soonest(r *Request, list []int) int {
	var buf [maxLooked]option
	options := buf[:0]
	first := time.Duration(math.MaxInt64)
	v.refresh(list...)
	for _, i := range list {
		o := option{i, v.start(i, r), r.Inputs.missing(&v.nodes[i])}
		options = append(options, o)
		first = min(first, o.start)
	}
	limit := first + first/8 + taskSlack
	best := -1
	for k := range options {
		if options[k].start <= limit && (best < 0 || v.fitter(&options[k], &options[best], r)) {
			best = k
		}
	}
	return options[best].node
}

// fitter decides between two nodes where r begins at about the same time.
func (v *View) fitter(x, y *option, r *Request) bool {
	a, b := x.node, y.node
	if x.missing != y.missing {
		return x.missing < y.missing
	}
	if len(r.Conditions) > 0 {
		if p, q := r.prefers(&v.nodes[a]), r.prefers(&v.nodes[b]); p != q {
			return p > q
		}
	}
	if v.busier(a, b, r) != v.busier(b, a, r) {
		return v.busier(b, a, r)
	}
	if a == v.local || b == v.local {
		return a == v.local
	}
	h := shifted(r.Seed)
	return mixed(h^v.hashes[a]) > mixed(h^v.hashes[b])
}

func (v *View) place(r *Request) (out Decision, err error) {
	strategy := r.Strategy
	if strategy == "" {
		strategy = raysys.Balanced
	}
	own := r.Custom[strategy]
	if own == nil && !slices.Contains(builtin[:], strategy) {
		return out, unknown(r)
	}
	d := draw(r.Seed)
	drawn := pair{-1, -1}
	var chosen, looked, met int
	var list []int
	soft := 0
	if len(r.Conditions) > 0 {
		if soft = r.soft(); soft > 0 {
			list, met = v.preferred(r, strategy, &d)
		}
	}
	switch {
	case len(list) > 0:
		if chosen, err = v.among(r, strategy, list); err != nil {
			return out, err
		}
	case strategy == raysys.Balanced || strategy == raysys.PreferLocal:
		if strategy == raysys.Balanced && r.moves() {
			c, err := v.eligible(r)
			if err != nil {
				return out, err
			}
			var buf [maxLooked]int
			list := v.appendCandidates(r, c, &d, buf[:0])
			chosen, looked = v.soonest(r, list), len(list)
			break
		}
		var ok bool
		if drawn, ok = v.sample(r, &d); !ok {
			c, err := v.eligible(r)
			if err != nil {
				return out, err
			}
			drawn = v.two(c, &d)
		}
		chosen = v.better(drawn, r)
		if strategy == raysys.PreferLocal {
			chosen = v.stay(r, chosen)
		}
	default:
		c, err := v.eligible(r)
		if err != nil {
			return out, err
		}
		switch {
		case strategy == raysys.ByHash:
			chosen = v.hashed(r.Key, c)
		case strategy == raysys.Spread:
			chosen = v.spread(r, c)
		default:
			if chosen, err = v.askStrategy(own, *r, c.list(nil)); err != nil {
				return out, err
			}
		}
	}
	v.refresh(chosen)
	if strategy == raysys.Spread && r.Kind == Task && v.Refresh != nil {
		v.counts[r.Kind][chosen]++ // until it is read again
	}
	n := &v.nodes[chosen]
	out = Decision{
		Node: n.ID, Incarnation: n.Incarnation, Wait: n.Wait(r.Needs), Move: n.Move(r.Inputs), Account: v.account(r, strategy, drawn, looked, chosen),
	}
	out.Account.Soft, out.Account.Met = soft, met
	if r.Explain {
		out.Reasons = v.explain(r, &out)
	}
	return out, nil
}

// askStrategy calls a strategy of the program. It runs inside a shard's leader, which must outlive its mistakes.
func (v *View) askStrategy(own Strategy, r Request, list []int) (chosen int, err error) {
	v.refresh(list...)
	nodes := make([]*Node, len(list))
	for k, i := range list {
		n := v.nodes[i] // a copy, so that the view stays as it is
		nodes[k] = &n
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("strategy %q: %w", r.Strategy, &raysys.PanicError{Value: p})
		}
	}()
	k := own(r, nodes)
	if k < 0 || k >= len(list) {
		return 0, fmt.Errorf("%w: strategy %q chose %d of %d nodes: it must return an index into them", raysys.ErrBadOption, r.Strategy, k, len(list))
	}
	return list[k], nil
}

func (v *View) noNode(r *Request, s *shape) error {
	there := s.have(v)
	err := &NoNodeError{Request: *r, Most: there.most, nodes: s.tally, there: there}
	if len(r.Conditions) > 0 {
		n := v.named(r.Conditions)
		err.nodes = n.tally(s)
	}
	if r.Explain {
		err.Reasons = v.explain(r, nil)
	}
	return err
}

// preferred returns the nodes among which a request with soft conditions is placed, and how many of these they meet: sound nodes where it
// begins at once, and of those the ones that meet the first condition which any meets, of these the second, and so on. None is returned
// where it would wait, or every node is to be avoided: then soft conditions do not count.
func (v *View) preferred(r *Request, s raysys.Strategy, d *draw) (list []int, met int) {
	q := r.weighs(s)
	q.Conditions = r.hard()
	for _, c := range r.Conditions {
		if !c.Soft {
			continue
		}
		c.Soft = false
		q.Conditions = append(q.Conditions, c)
		if better := v.atOnce(&q, s, d); len(better) > 0 {
			list = better
			met++
		} else {
			q.Conditions = q.Conditions[:len(q.Conditions)-1]
		}
	}
	if list == nil {
		list = v.atOnce(&q, s, d)
	}
	return list, met
}

// atOnce returns nodes that are sound and not to be avoided, on which r begins at once. Where Balanced or PreferLocal choose it is some
// of them, else all.
func (v *View) atOnce(r *Request, s raysys.Strategy, d *draw) []int {
	c, ok := v.sound(r)
	if !ok {
		return nil
	}
	balances, own := s == raysys.Balanced || s == raysys.PreferLocal, v.asks(r)
	switch {
	case s == raysys.PreferLocal && r.Kind == Grain && own >= 0 && c.has(own):
		return []int{own}
	case balances && r.Kind == Grain:
		if p := v.two(c, d); p.b >= 0 {
			return []int{p.a, p.b}
		} else {
			return []int{p.a}
		}
	case r.Kind == Grain:
		return c.list(nil)
	}
	var list []int
	if balances {
		list = v.appendCandidates(r, c, d, nil)
	} else {
		list = c.list(nil)
	}
	v.refresh(list...)
	waits := func(i int) bool {
		n := &v.nodes[i]
		return n.Wait(r.Needs) > 0 || r.moves() && n.Move(r.Inputs) > taskSlack
	}
	all := c.n == len(list)
	if list = slices.DeleteFunc(list, waits); all || len(list) > 0 {
		return list
	}
	now := *r
	now.Now = true
	for range tries {
		c, ok := v.sound(&now)
		if !ok {
			return nil
		}
		i := c.one(d)
		if v.refresh(i); !waits(i) {
			return []int{i}
		}
		v.changed(i)
	}
	return nil
}

// sound returns the nodes that fit, where some of them are sound and not to be avoided.
func (v *View) sound(r *Request) (c *set, ok bool) {
	if c, ok = v.candidates(r, v.shapeOf(r)); ok {
		ok = v.reserve(c.at(0), r.Avoid) == 0
	}
	return c, ok
}

// among chooses among nodes on which r begins at once.
func (v *View) among(r *Request, s raysys.Strategy, list []int) (int, error) {
	switch {
	case s == raysys.ByHash:
		return v.hashed(r.Key, v.setOf(list)), nil
	case s == raysys.Spread:
		return v.spread(r, v.setOf(list)), nil
	case s == raysys.PreferLocal && slices.Contains(list, v.asks(r)):
		return v.asks(r), nil
	case s != raysys.Balanced && s != raysys.PreferLocal:
		return v.askStrategy(r.Custom[s], *r, list)
	case r.Kind == Task:
		q := r.weighs(s)
		return v.soonest(&q, list), nil
	case len(list) == 1:
		return list[0], nil
	}
	return v.better(pair{list[0], list[1]}, r), nil
}

func (v *View) newSet() set {
	s := set{words: make([]uint64, (len(v.nodes)+63)/64), upTo: v.upTo}
	if v.upTo != nil {
		s.sizes = make([]uint64, len(s.words))
	}
	return s
}

// setOf returns the nodes of list as a set.
func (v *View) setOf(list []int) *set {
	s := v.newSet()
	for _, i := range list {
		s.add(i)
	}
	return &s
}

// shapeOf returns the shape of r, made when it is asked for the first time.
func (v *View) shapeOf(r *Request) *shape {
	k := r.shape()
	if s := v.shapes[k]; s != nil {
		return s
	}
	if v.shapes == nil || len(v.shapes) >= maxShapes {
		v.shapes = map[shapeKey]*shape{}
	}
	n := len(v.nodes)
	s := &shape{
		request: Request{Kind: r.Kind, Now: r.Now, Queue: r.Queue, Function: r.Function, Namespace: r.Namespace, Needs: r.Needs, Labels: maps.Clone(r.Labels)},
		causes:  make([]cause, n), shunned: make([]bool, n), fits: [2]set{v.newSet(), v.newSet()},
	}
	s.request.Needs.Custom = maps.Clone(r.Needs.Custom)
	for _, c := range r.Conditions {
		if c.Label != "" && !c.Soft {
			c.Values = slices.Clone(c.Values)
			s.request.Conditions = append(s.request.Conditions, c)
		}
	}
	for i := range v.nodes {
		s.enter(v, i)
	}
	v.shapes[k] = s
	return s
}

// candidates returns the nodes to choose from, to read: those that fit, of the best rank there is. False: there are none.
func (v *View) candidates(r *Request, s *shape) (*set, bool) {
	avoided := v.indices(make([]int, 0, 8), r.Avoid)
	var n named
	if len(r.Conditions) > 0 {
		n = v.named(r.Conditions)
		avoided = append(avoided, n.never...)
		slices.Sort(avoided)
		avoided = slices.Compact(avoided)
	}
	for k := range s.fits {
		f := &s.fits[k]
		if n.limited {
			f = v.setOf(f.both(n.only))
		}
		but, never := f.both(avoided), f.both(n.never)
		switch {
		case f.n > len(but):
			return f.without(but), true
		case f.n > len(never): // they are to be avoided, and better than a suspect node
			return f.without(never), true
		}
	}
	return nil, false
}

// Update has change correct node id, and reports whether there is one. ID, Incarnation, Namespace, Total, Labels, Worker and
// Runs stay.
func (v *View) Update(id raysys.NodeID, change func(*Node)) bool {
	i, ok := v.index[id]
	if ok {
		change(&v.nodes[i])
		v.changed(i)
	}
	return ok
}

// changed is called when node i has changed.
func (v *View) changed(i int) {
	v.count(i)
	for _, s := range v.shapes {
		s.correct(v, i)
	}
}

// Place chooses the node for r. The error is a *NoNodeError, or matches raysys.ErrBadOption when the strategy is unknown
// or chose nothing.
func Place(v *View, r Request) (Decision, error) { return v.place(&r) }

func unknown(r *Request) error {
	known := slices.Concat(builtin[:], slices.Sorted(maps.Keys(r.Custom)))
	return fmt.Errorf("%w: no strategy %q: there are %q", raysys.ErrBadOption, r.Strategy, known)
}

// cause is why a node is out of the question. Those before joining do not pass with time.
type cause uint8

const (
	fit cause = iota
	noWorker
	otherProgram
	noFunction
	noLabel
	tooSmall
	unmet
	joining
	draining
	sick
	noRoom
	causes // their number
)

// tally counts the nodes by cause.
type tally [causes]int

// ever reports whether some node would do if it had room. One whose devices are sick would not: nothing says that they recover.
func (t *tally) ever() bool { return t[fit]+t[joining]+t[draining]+t[noRoom] > 0 }

// Inputs are the values a task reads, as bytes on nodes.
type Inputs struct {
	Bytes int64                   // of all
	At    map[raysys.NodeID]int64 // of those, what each node has
}

const (
	// smallInputs is what does not matter: it is on its way for less time than a decision is wrong by.
	smallInputs = 100 << 10
	// unknownBandwidth stands for the rate of a node that has fetched nothing: that of a 2.5 Gbit network, which is less
	// than the machines of a cluster mostly have. Too low a rate keeps work beside its data a little too stubbornly, until
	// the first megabytes have shown better; too high a rate moves data for nothing.
	unknownBandwidth = 256 << 20
	// longest bounds an estimate so that sums of them do not overflow.
	longest = 1 << 61
)

// missing returns the bytes that must be moved to n.
func (in *Inputs) missing(n *Node) int64 { return max(in.Bytes-max(in.At[n.ID], 0), 0) }

// maxLooked is how many nodes are compared for a task with inputs. Where more fit it is those that have the most of the inputs,
// the one that asks, and for the rest draws.
const maxLooked = 16

// option is a node on which a task could begin.
type option struct {
	node    int
	start   time.Duration // from now
	missing int64         // bytes
}
