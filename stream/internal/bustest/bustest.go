package bustest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/stream/internal/bus"
)

// Run tests buses that open makes: several connections to the same streams.
func Run(t *testing.T, open func(t *testing.T) bus.Bus) {
	for name, test := range map[string]func(*testing.T, bus.Bus, bus.Bus){
		"order": order, "from": from, "bounded": bounded, "follow": follow, "ids": ids, "mismatch": mismatch, "keys": keys, "missing": missing, "many": many, "next": next, "seen": seen,
		"streams": streams, "sizes": sizes, "copies": copies,
	} {
		t.Run(name, func(t *testing.T) {
			a, b := open(t), open(t)
			defer b.Close()
			defer a.Close()
			test(t, a, b)
		})
	}
}

const partitions = 4

// limit bounds each test; it is not waited for where all goes well.
const limit = 60 * time.Second

func made(t *testing.T, b bus.Bus) string {
	t.Helper()
	name := fmt.Sprintf("%s/%d", t.Name(), time.Now().UnixNano())
	if err := b.Ensure(t.Context(), bus.Config{Name: name, Partitions: partitions, Keep: time.Hour, Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	return name
}

func put(t *testing.T, b bus.Bus, stream, key string, partition int, data ...string) (last uint64) {
	t.Helper()
	var list []bus.Message
	for _, d := range data {
		list = append(list, bus.Message{Key: key, Partition: partition, Data: []byte(d)})
	}
	last, err := b.Publish(t.Context(), stream, list)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// read returns the data of up to n events.
func read(t *testing.T, b bus.Bus, stream string, f bus.Filter, from, to uint64, n int) (list []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err := b.Read(ctx, stream, f, from, to, func(m bus.Message) bool {
		list = append(list, string(m.Data))
		return len(list) < n
	})
	if err != nil {
		t.Fatal(list, err)
	}
	return list
}

func same(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
}

// order: the events of a partition, and of a key, come in the order in which they were published, over both connections.
func order(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	put(t, a, s, "x", 1, "1", "2")
	put(t, b, s, "y", 1, "3")
	put(t, a, s, "z", 2, "other")
	last := put(t, b, s, "x", 1, "4")
	x := "x"
	same(t, read(t, a, s, bus.Filter{Partition: 1}, 0, 0, 4), "1", "2", "3", "4")
	same(t, read(t, b, s, bus.Filter{Partition: 1, Key: &x}, 0, 0, 3), "1", "2", "4")
	if i, err := b.Info(t.Context(), s); err != nil || i.Count != 5 || i.First != 1 || i.Last != last {
		t.Fatalf("%+v, %v", i, err)
	}
}

// from: a reader begins where it says.
func from(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	put(t, a, s, "x", 0, "1")
	two := put(t, a, s, "x", 0, "2")
	put(t, a, s, "x", 0, "3")
	same(t, read(t, b, s, bus.Filter{}, two, 0, 2), "2", "3")
	same(t, read(t, b, s, bus.Filter{}, two+1, 0, 1), "3")
}

// bounded: a reader with an end returns when it has all that there is up to it.
func bounded(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	put(t, a, s, "x", 0, "1", "2")
	other := put(t, a, s, "y", 1, "other")
	same(t, read(t, b, s, bus.Filter{}, 0, other, 10), "1", "2")
	three := put(t, a, s, "x", 0, "3", "4") - 1
	same(t, read(t, b, s, bus.Filter{}, 2, three, 10), "2", "3")
	same(t, read(t, b, s, bus.Filter{Partition: 3}, 0, three, 10))
	same(t, read(t, b, s, bus.Filter{}, three+2, three+2, 10))
}

// follow: a reader gets what comes, and its own end.
func follow(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	got := make(chan string)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Read(ctx, s, bus.Filter{}, 0, 0, func(m bus.Message) bool { got <- string(m.Data); return true })
	}()
	for i := range 10 {
		put(t, a, s, "x", 0, fmt.Sprint(i))
		if d := <-got; d != fmt.Sprint(i) {
			t.Fatal(d)
		}
	}
	enough := errors.New("enough")
	cancel(enough)
	if err := <-ended; !errors.Is(err, enough) {
		t.Fatal(err)
	}
}

// ids: what is sent again with the same ID is stored once.
func ids(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	m := bus.Message{Key: "x", Data: []byte("1"), ID: "one", Reason: "because: of\nthis"}
	first, err := a.Publish(t.Context(), s, []bus.Message{m})
	if err != nil {
		t.Fatal(err)
	}
	again, err := b.Publish(t.Context(), s, []bus.Message{m})
	if err != nil || again != first {
		t.Fatal(again, first, err)
	}
	put(t, a, s, "x", 0, "2")
	var reason string
	if err := a.Read(t.Context(), s, bus.Filter{}, 0, 0, func(m bus.Message) bool { reason = m.Reason; return false }); err != nil || reason != "because: of\nthis" {
		t.Fatalf("%q, %v", reason, err)
	}
	same(t, read(t, b, s, bus.Filter{}, 0, 0, 2), "1", "2")
	var list []bus.Message
	for i := 3; i < 13; i++ {
		list = append(list, bus.Message{Key: "x", Data: fmt.Append(nil, i), ID: fmt.Sprint("number ", i)})
	}
	for range 2 {
		if _, err := a.Publish(t.Context(), s, list); err != nil {
			t.Fatal(err)
		}
	}
	last := put(t, a, s, "x", 0, "13")
	same(t, read(t, b, s, bus.Filter{}, 0, last, 20), "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13")
	var back []string
	err = a.Read(t.Context(), s, bus.Filter{}, 0, last-1, func(m bus.Message) bool {
		back = append(back, m.ID)
		return true
	})
	if err != nil || len(back) != 12 || back[0] != "one" || back[2] != "number 3" || back[11] != "number 12" {
		t.Fatal(back, err)
	}
	if m, err := b.Next(t.Context(), s, bus.Filter{}, first); err != nil || m.ID != "one" {
		t.Fatal(m.ID, err)
	}
	var many []string
	for i := range 1200 {
		many = append(many, fmt.Sprint("many ", i))
	}
	same(t, read(t, b, s, bus.Filter{}, last+1, put(t, a, s, "x", 0, many...), 5000), many...)
}

// mismatch: a stream that was made with other settings is refused.
func mismatch(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	if err := b.Ensure(t.Context(), bus.Config{Name: s, Partitions: partitions, Keep: time.Hour, Replicas: 3}); err != nil {
		t.Fatal("the same settings:", err)
	}
	for _, c := range []bus.Config{{Name: s, Partitions: partitions + 1, Keep: time.Hour}, {Name: s, Partitions: partitions, Keep: time.Minute}} {
		var m *bus.Mismatch
		if err := b.Ensure(t.Context(), c); !errors.As(err, &m) || m.Have.Partitions != partitions || m.Have.Keep != time.Hour {
			t.Fatal(c, err)
		}
	}
}

// keys: a key is any bytes.
func keys(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	all := []string{"", "a b", "a.b", "a>*", "=", "=2e", "ä\x00\xff", "a/b\\c"}
	for _, k := range all {
		put(t, a, s, k, 0, "of "+k)
	}
	for _, k := range all {
		same(t, read(t, b, s, bus.Filter{Key: &k}, 0, uint64(len(all)), 10), "of "+k)
	}
}

// missing: a stream that nobody made is said to be missing.
func missing(t *testing.T, a, _ bus.Bus) {
	if _, err := a.Info(t.Context(), "nothing"); !errors.Is(err, bus.ErrNoStream) {
		t.Fatal(err)
	}
	if _, err := a.Publish(t.Context(), "nothing", []bus.Message{{Key: "x"}}); !errors.Is(err, bus.ErrNoStream) {
		t.Fatal(err)
	}
}

// many: goroutines publish at the same time, and each one's events are in its order.
func many(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			to := a
			if i%2 == 1 {
				to = b
			}
			for n := range 25 {
				if _, err := to.Publish(t.Context(), s, []bus.Message{{Key: fmt.Sprint(i), Data: fmt.Append(nil, n)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range 8 {
		k := fmt.Sprint(i)
		list := read(t, b, s, bus.Filter{Key: &k}, 0, 200, 100)
		if len(list) != 25 || !slices.IsSortedFunc(list, func(a, b string) int { return len(a)*1000 + int(a[0]) - len(b)*1000 - int(b[0]) }) {
			t.Fatal(k, list)
		}
	}
}

// next: one event is found by its number, also a large one, and by its key.
func next(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	large := strings.Repeat("l", 1<<20-4<<10)
	one := put(t, a, s, "x", 0, "1")
	put(t, a, s, "y", 0, "2")
	other := put(t, a, s, "z", 1, "3")
	last := put(t, a, s, "x", 0, large)
	x, none := "x", "none"
	var at time.Time
	if err := b.Read(t.Context(), s, bus.Filter{}, last, 0, func(m bus.Message) bool { at = m.Time; return false }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		f    bus.Filter
		from uint64
		data string
		seq  uint64
	}{
		{bus.Filter{}, 0, "1", one},
		{bus.Filter{}, one, "1", one},
		{bus.Filter{}, one + 1, "2", one + 1},
		{bus.Filter{}, one + 2, large, last},
		{bus.Filter{}, last + 1, "", 0},
		{bus.Filter{Key: &x}, one, "1", one},
		{bus.Filter{Key: &x}, one + 1, large, last},
		{bus.Filter{Key: &none}, 0, "", 0},
		{bus.Filter{Partition: 1}, 0, "3", other},
	} {
		m, err := b.Next(t.Context(), s, c.f, c.from)
		if c.seq == 0 && errors.Is(err, bus.ErrNoEvent) {
			continue
		}
		if err != nil || m.Seq != c.seq || string(m.Data) != c.data || m.Partition != c.f.Partition {
			t.Fatalf("from %d: event %d of part %d with %d bytes, %v; want %d", c.from, m.Seq, m.Partition, len(m.Data), err, c.seq)
		}
		if m.Seq == last && (!m.Time.Equal(at) || m.Key != "x") {
			t.Fatal(m.Key, m.Time, at)
		}
	}
	if _, err := b.Next(t.Context(), s, bus.Filter{Made: 1}, 1); !errors.Is(err, bus.ErrNoStream) {
		t.Fatal(err)
	}
	if _, err := b.Next(t.Context(), "nothing", bus.Filter{}, 1); !errors.Is(err, bus.ErrNoStream) {
		t.Fatal(err)
	}
}

// seen: a stream that does not have an event which was read is another one.
func seen(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	put(t, a, s, "x", 0, "1")
	two := put(t, a, s, "y", 1, "2")
	m, err := b.Next(t.Context(), s, bus.Filter{Partition: bus.AnyPartition}, two)
	if err != nil || m.Partition != 1 {
		t.Fatal(m, err)
	}
	at := m.Time.UnixNano()
	for _, c := range []struct {
		mark bus.Mark
		want error
	}{{bus.Mark{}, nil}, {bus.Mark{Seq: two, Time: at}, nil}, {bus.Mark{Seq: two}, nil}, {bus.Mark{Seq: two, Time: at - 1}, bus.ErrOtherStore}, {bus.Mark{Seq: two + 1, Time: at}, bus.ErrOtherStore}} {
		if err := bus.CheckSeen(t.Context(), b, s, 0, c.mark); !errors.Is(err, c.want) {
			t.Errorf("%+v: %v, want %v", c.mark, err, c.want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := b.Read(ctx, s, bus.Filter{Seen: c.mark}, 1, 0, func(bus.Message) bool { return false })
		if cancel(); !errors.Is(err, c.want) {
			t.Errorf("Read after %+v: %v, want %v", c.mark, err, c.want)
		}
	}
}

// streams: every bus makes the streams that the table of bounds allows, and refuses others at once.
func streams(t *testing.T, a, b bus.Bus) {
	name := func(n int) string { // so many bytes that stay as they are, another one in each run
		s := fmt.Sprintf("%x", time.Now().UnixNano())
		return s + strings.Repeat("x", n-len(s))
	}
	for what, c := range map[string]struct {
		bus.Config
		bad bool
	}{
		"the longest name":              {bus.Config{Name: name(bus.MaxName), Partitions: 1}, false},
		"a longer name":                 {bus.Config{Name: name(bus.MaxName + 1), Partitions: 1}, true},
		"the longest name of odd signs": {bus.Config{Name: name(bus.MaxName-6*30) + strings.Repeat("ü", 30), Partitions: 1}, false},
		"a longer name of odd signs":    {bus.Config{Name: name(bus.MaxName-6*30+1) + strings.Repeat("ü", 30), Partitions: 1}, true},
		"no parts":                      {bus.Config{Name: name(20)}, true},
		"all parts":                     {bus.Config{Name: name(21), Partitions: bus.MaxPartitions}, false},
		"more parts":                    {bus.Config{Name: name(22), Partitions: bus.MaxPartitions + 1}, true},
		"the shortest Keep":             {bus.Config{Name: name(23), Partitions: 1, Keep: bus.MinKeep}, false},
		"a shorter Keep":                {bus.Config{Name: name(24), Partitions: 1, Keep: bus.MinKeep - 1}, true},
		"a long Keep":                   {bus.Config{Name: name(25), Partitions: 1, Keep: 100 * 365 * 24 * time.Hour}, false},
	} {
		err := a.Ensure(t.Context(), c.Config)
		if c.bad {
			if !errors.Is(err, bus.ErrBounds) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if c.Keep == bus.MinKeep {
			continue // it would be gone
		}
		put(t, a, c.Name, "x", 0, "1")
		same(t, read(t, b, c.Name, bus.Filter{}, 0, 0, 1), "1")
	}
}

// sizes: every bus stores the messages that the table of bounds allows, also where they have all the headers, and none of a list that has a larger one.
func sizes(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	most := bus.Message{
		Key: strings.Repeat("\xff", bus.MaxKey), Data: make([]byte, bus.MaxData), ID: strings.Repeat("i", bus.MaxHead-4*512), Reason: strings.Repeat("\x01", 512),
	}
	one := bus.Message{Key: "x"}
	key, data, id, reason := most, most, most, most
	key.Key += "x"
	data.Data = make([]byte, bus.MaxData+1)
	id.ID += "i"
	reason.Reason += "x"
	for i, m := range []bus.Message{key, data, id, reason} {
		if _, err := a.Publish(t.Context(), s, []bus.Message{one, m, one}); !errors.Is(err, bus.ErrTooLarge) || !strings.Contains(err.Error(), "event 2 of 3") {
			t.Error(i, err)
		}
	}
	list := []bus.Message{most}
	for range 9 { // enough of them go as a batch
		m := most
		m.ID += fmt.Sprint(len(list))
		m.ID = m.ID[1:]
		list = append(list, m)
	}
	for _, l := range [][]bus.Message{{most}, list[1:]} {
		if _, err := a.Publish(t.Context(), s, l); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	err := b.Read(t.Context(), s, bus.Filter{Key: &most.Key}, 0, 10, func(m bus.Message) bool {
		n++
		if len(m.Data) != bus.MaxData || m.Key != most.Key || m.Reason != most.Reason {
			t.Error("it came back changed", n, len(m.Data), len(m.Key), len(m.Reason))
		}
		return n < 10
	})
	if i, _ := b.Info(t.Context(), s); err != nil || n != 10 || i.Count != 10 {
		t.Fatal(n, i, err)
	}
}

// copies: a stream has those that it should have.
func copies(t *testing.T, a, b bus.Bus) {
	s := made(t, a)
	if have, want, err := b.Replicate(t.Context(), s, 3); err != nil || have != want || have == 0 {
		t.Fatal(have, want, err)
	}
	if _, _, err := b.Replicate(t.Context(), "nothing", 3); !errors.Is(err, bus.ErrNoStream) {
		t.Fatal(err)
	}
}
