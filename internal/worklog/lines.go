package worklog

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/printable"
)

const (
	// perSecond is how many lines of a driver's work a node sends in a second.
	perSecond = 1000
	// maxBox bounds the bytes that wait for a driver.
	maxBox = 1 << 20
	// maxBoxes bounds the drivers for which lines wait.
	maxBoxes = 256
	// boxKept is how long lines wait at least for a driver that this node does not see.
	boxKept = time.Minute
	// corked is how long a batch is held back for more lines.
	corked = 100 * time.Millisecond
	// marked is how long a mark may take to be kept.
	marked = time.Second
)

// Config is what a node's Lines know of the node.
type Config struct {
	Node   raysys.NodeID
	Folder string    // where raysys node keeps what this process writes; "" without it
	Mark   Mark      // that raysys node gave this process
	Out    io.Writer // where lines are written, as People says; nil: to Log
	People bool      // they are shown to people, else as JSON
	Debug  bool      // lines of level debug, too
	Off    bool      // the driver does not want the lines of other nodes
	Log    *slog.Logger
	Run    func(func())    // starts a goroutine that ends with the node
	Done   <-chan struct{} // closed when the node waits for what Run has started; nil where it never does
	// Drivers are the nodes of the cluster that drive, by their incarnation. Nil without a cluster.
	Drivers func() map[uint64]raysys.NodeID
	// Own is the incarnation of this node.
	Own func() uint64
}

// Lines are what the work on a node writes.
type Lines struct {
	cfg      Config
	terminal *Terminal // of Out
	mark     func(uint64)
	names    sync.Map // of drivers, by their incarnation: they write lines after they have left, too

	mu       sync.Mutex // guards the rest; no file is read under it, since each line that work writes takes it
	boxes    map[uint64]*box
	marks    uint64            // that were written
	kept     map[string]uint64 // the last of them that was kept, by output
	watching bool
	ended    bool
}

// New makes the Lines of a node.
func New(cfg Config) *Lines {
	l := &Lines{cfg: cfg, boxes: map[uint64]*box{}, kept: map[string]uint64{}, mark: cfg.Mark.writeNumber}
	if cfg.Out != nil {
		l.terminal = NewTerminal(cfg.Out, cfg.People)
	}
	return l
}

// Logger is raysys.Logger for that turn.
func (l *Lines) Logger(t *core.Turn) *slog.Logger {
	j := t.Job()
	run, driver := uint64(0), l.cfg.Node
	if l.cfg.Drivers != nil {
		run, driver = j.Run, l.driver(j)
	}
	attrs := []slog.Attr{slog.String(keyNode, string(l.cfg.Node)), slog.String(keyDriver, string(driver))}
	if t.Kind() != core.TurnRoot || t.Remote() {
		attrs = append(attrs, slog.String(keyFunction, t.Name()), slog.String(keyID, t.ID().String()))
	}
	level := slog.LevelInfo
	if l.cfg.Debug {
		level = slog.LevelDebug
	}
	h := slog.NewJSONHandler(written{l, run}, &slog.HandlerOptions{Level: level, ReplaceAttr: keys}).WithAttrs(attrs)
	if l.terminal == nil && l.cfg.Log != nil {
		h = slog.NewMultiHandler(h, l.cfg.Log.Handler().WithAttrs(attrs))
	}
	return slog.New(h)
}

// keys gives a line the keys of the node's log.
func keys(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		if a.Value.Kind() == slog.KindTime {
			return slog.String(keyTime, a.Value.Time().Format(timeForm))
		}
	case slog.LevelKey:
		if v, ok := a.Value.Any().(slog.Level); ok {
			return slog.String(keyLevel, strings.ToLower(v.String()))
		}
	}
	return a
}

// driver names the driver of a job: by its number when it left before anything was heard of it.
func (l *Lines) driver(j *core.Job) raysys.NodeID {
	if n, ok := l.names.Load(j.Run); ok {
		return n.(raysys.NodeID)
	}
	n, ok := l.cfg.Drivers()[j.Run]
	switch {
	case ok:
	case j.Run == 0 || j.Run == l.cfg.Own():
		return l.cfg.Node
	default:
		return raysys.NodeID("job-" + j.ID.String()[:12])
	}
	l.names.Store(j.Run, n)
	return n
}

// written takes the lines of one driver's work.
type written struct {
	lines *Lines
	run   uint64
}

// Write takes a line.
func (w written) Write(line []byte) (int, error) {
	l := w.lines
	raw := json.RawMessage(strings.TrimSuffix(string(line), "\n"))
	if l.terminal != nil {
		l.terminal.Show(l.cfg.Node, []json.RawMessage{raw}, 0)
	}
	if l.cfg.Drivers == nil || w.run == 0 || w.run == l.cfg.Own() {
		return len(line), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(l.box(w.run), raw, time.Now())
	return len(line), nil
}

// Show shows lines that the work of this node's driver wrote on another node.
func (l *Lines) Show(node raysys.NodeID, b *Batch) {
	if l.terminal != nil {
		l.terminal.Show(node, b.Lines, b.Omitted)
		return
	}
	for _, raw := range b.Lines {
		if x, ok := Parse(raw); ok {
			var level slog.Level // info, for plain output too
			if x.Level != "" && level.UnmarshalText([]byte(x.Level)) != nil {
				level = slog.LevelError
			}
			l.cfg.Log.Log(context.Background(), level, printable.Behind(x.Text), keyNode, node, keyFunction, x.Function, keyID, x.ID, "fields", string(x.Fields))
		}
	}
	if b.Omitted > 0 {
		l.cfg.Log.Warn("lines were omitted", keyNode, node, "lines", b.Omitted)
	}
}

// Wanted reports whether the driver of this node shows what its work writes elsewhere.
func (l *Lines) Wanted() bool {
	return !l.cfg.Off && (l.terminal != nil || l.cfg.Log != nil && l.cfg.Log.Enabled(context.Background(), slog.LevelInfo))
}

// Flush shows what is held back of the lines of several nodes.
func (l *Lines) Flush() {
	if l.terminal != nil {
		l.terminal.Flush()
	}
}

// Close ends it: no driver is answered any more.
func (l *Lines) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, b := range l.boxes {
		if b.timer != nil {
			b.timer.Stop()
		}
	}
	l.boxes = map[uint64]*box{}
}

// Question is what a driver says when it asks for lines.
type Question struct {
	Last bool   `json:"last,omitempty"` // what there is, at once: the driver ends
	Had  uint64 `json:"had,omitempty"`  // the number of the last batch that it has
}

// Batch is the answer.
type Batch struct {
	Number  uint64            `json:"number"` // 0: there is nothing
	Lines   []json.RawMessage `json:"lines,omitempty"`
	Omitted int               `json:"omitted,omitempty"`
}

// box has what a driver's work wrote here, and the driver has not.
type box struct {
	made    time.Time
	lines   []json.RawMessage
	size    int
	omitted int
	second  int64 // in which lines were put
	count   int   // in that second
	sent    Batch // until the next question says that it came
	wait    func(Batch)
	timer   *time.Timer // runs while lines are held back
	asked   bool
	crowded bool  // there was another driver since plain output was looked at
	from    int64 // plain output: the position of what was not looked at
}

// box returns that of a driver. One that has left keeps its box for a while: a driver that has just come may not be seen yet.
func (l *Lines) box(run uint64) *box {
	if b := l.boxes[run]; b != nil {
		return b
	}
	now, drivers := time.Now(), l.cfg.Drivers()
	for old, b := range l.boxes {
		if _, here := drivers[old]; !here && now.Sub(b.made) > boxKept {
			delete(l.boxes, old)
		}
	}
	b := &box{made: now}
	if len(l.boxes) < maxBoxes {
		l.boxes[run] = b
	}
	return b
}

// put adds a line, or counts it.
func (l *Lines) put(b *box, line json.RawMessage, now time.Time) {
	if s := now.Unix(); b.second != s {
		b.second, b.count = s, 0
	}
	if b.count >= perSecond || b.size+len(line) > maxBox {
		b.omitted++
		return
	}
	b.count++
	b.lines, b.size = append(b.lines, line), b.size+len(line)
	if b.wait != nil && b.timer == nil {
		var own *time.Timer
		own = time.AfterFunc(corked, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if b.timer == own && !l.ended { // not answered meanwhile
				l.answer(b)
			}
		})
		b.timer = own
	}
}

// answer sends what there is.
func (l *Lines) answer(b *box) {
	if len(b.lines) > 0 || b.omitted > 0 {
		b.sent = Batch{Number: b.sent.Number + 1, Lines: b.lines, Omitted: b.omitted}
		b.lines, b.size, b.omitted = nil, 0, 0
	}
	l.drop(b)(b.sent)
}

// drop takes the question out of the box.
func (l *Lines) drop(b *box) (reply func(Batch)) {
	if b.timer != nil {
		b.timer.Stop()
	}
	reply, b.wait, b.timer = b.wait, nil, nil
	return reply
}

// Take answers a driver, by reply: when there are lines for it, or at once where it asks for the last. reply must not block.
func (l *Lines) Take(driver core.NodeKey, q Question, reply func(Batch)) {
	run := driver.Incarnation
	l.names.Store(run, driver.Node)
	var from int64
	if l.cfg.Folder != "" {
		from, _ = end(l.cfg.Folder, string(l.cfg.Node)) // without files there is nothing to read either
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.box(run)
	if b.wait != nil { // asked before, by a driver that ends or on a connection that broke
		l.drop(b)(Batch{})
	}
	if !b.asked && l.cfg.Folder != "" {
		for other, o := range l.boxes { // what follows may be of the new driver
			if other != run && o.asked {
				o.crowded = true
			}
		}
		b.from = from
	}
	b.asked = true
	if q.Had < b.sent.Number {
		reply(b.sent) // again: the answer was lost
		return
	}
	b.sent = Batch{Number: q.Had}
	b.wait = reply
	switch {
	case q.Last && l.cfg.Folder != "" && l.sole(run):
		l.cfg.Run(func() { l.last(run, b) })
	case q.Last, len(b.lines) > 0, b.omitted > 0:
		l.answer(b)
	case l.cfg.Folder != "" && !l.watching:
		l.watching = true
		l.cfg.Run(l.watch)
	}
}

// sole reports whether that driver is the only one: then plain output is of its work.
func (l *Lines) sole(run uint64) bool {
	drivers := l.cfg.Drivers()
	_, here := drivers[run]
	return len(drivers) == 0 || here && len(drivers) == 1
}
