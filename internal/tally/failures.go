package tally

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxGroups bounds the failures that a node keeps apart. Where more come, the group goes of which none came for longest.
	maxGroups = 256
	// textsPerSecond bounds the texts of one function that are looked at. Further ones are counted with the function alone.
	textsPerSecond = 20
	// maxText and maxStack bound what is kept of an example.
	maxText  = 1 << 10
	maxStack = 8 << 10
)

// Failure is failures of one function whose texts differ in digits alone.
type Failure struct {
	Function string    `json:"function"`
	Kind     Kind      `json:"kind"`
	Panic    bool      `json:"panic,omitempty"`
	Count    uint64    `json:"count"`          // that were looked at
	Left     uint64    `json:"left,omitempty"` // of the function, that were not: they may be of this text
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	// The last of them that was looked at.
	Text  string `json:"text"`
	ID    string `json:"id"`              // of the task or call
	Work  string `json:"work,omitempty"`  // of a call: kind/key.method
	Stack string `json:"stack,omitempty"` // of a panic
}

// texts bounds how many failures of a function are looked at.
type texts struct {
	mu     sync.Mutex // guards the rest
	second int64
	n      int
}

func (b *texts) take(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := now.Unix(); s != b.second {
		b.second, b.n = s, 0
	}
	b.n++
	return b.n <= textsPerSecond
}

// failures are the groups of one node.
type failures struct {
	mu     sync.Mutex // guards groups
	groups map[groupKey]*Failure
}

type groupKey struct {
	of   *Function
	text string
}

// Example is one failure.
type Example struct {
	Text  string
	ID    string
	Work  string
	Stack []byte
}

// Failed counts a run of f that ended so: Error, Panic or Retried. example is called for few of many.
func (f *Function) Failed(o Outcome, now time.Time, example func() Example) {
	f.Ended(o, 1)
	if f.texts.take(now) {
		f.of.failures.add(f, o, now, example())
	} else {
		f.left.Add(1)
	}
}

func (l *failures) add(f *Function, o Outcome, now time.Time, e Example) {
	e.Text = cut(e.Text, maxText)
	k := groupKey{f, withoutDigits(e.Text)}
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.groups[k]
	if g == nil {
		if l.groups == nil {
			l.groups = map[groupKey]*Failure{}
		}
		if len(l.groups) >= maxGroups {
			l.forget()
		}
		g = &Failure{Function: f.Name, Kind: f.Kind, First: now}
		l.groups[k] = g
	}
	g.Count++
	g.Last, g.Panic = now, o == Panic
	g.Text, g.ID, g.Work, g.Stack = e.Text, e.ID, e.Work, cut(string(e.Stack), maxStack)
}

// forget drops the group of which none came for longest.
func (l *failures) forget() {
	var oldest groupKey
	var last time.Time
	for k, g := range l.groups {
		if last.IsZero() || g.Last.Before(last) {
			oldest, last = k, g.Last
		}
	}
	delete(l.groups, oldest)
}

// Failures are what failed here, the latest first.
func (t *Tally) Failures() []Failure {
	l := &t.failures
	l.mu.Lock()
	list := make([]Failure, 0, len(l.groups))
	for k, g := range l.groups {
		one := *g
		one.Left = k.of.left.Load()
		list = append(list, one)
	}
	l.mu.Unlock()
	slices.SortFunc(list, func(a, b Failure) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Text, b.Text))
	})
	return list
}

var expected sync.Map // of errors

// Expect has calls that end with err itself, not with one that wraps it, count as OK: it is an answer of a package of
// raysys, as io.EOF is one, and no failure.
func Expect(err error) error {
	expected.Store(err, nil)
	return err
}

// Expected reports whether Expect was called with err.
func Expected(err error) bool {
	if !reflect.ValueOf(err).Comparable() {
		return false
	}
	_, ok := expected.Load(err)
	return ok
}

// withoutDigits is a text with one 0 in the place of each row of digits: ids, numbers and times differ between failures of one cause.
func withoutDigits(s string) string {
	var b strings.Builder
	digits := false
	for _, r := range s {
		if r >= '0' && r <= '9' {
			if !digits {
				b.WriteByte('0')
			}
			digits = true
			continue
		}
		digits = false
		b.WriteRune(r)
	}
	return b.String()
}

// cut bounds a text, at the begin of a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const more = " ..."
	return strings.ToValidUTF8(s[:n-len(more)], "") + more
}
