package bus

import (
	"context"
	"sort"
	"sync"
	"time"
)

// Memory is a Bus in this process. Streams go with it.
type Memory struct {
	mu      sync.Mutex // guards the rest
	streams map[string]*memory
	made    int64 // streams that were made
	closed  chan struct{}
}

// memory is one stream.
type memory struct {
	config Config
	made   int64
	last   uint64
	events []Message         // by number
	ids    map[string]uint64 // numbers of recent events, by ID
	recent []recent          // what is in ids, by time
	more   chan struct{}     // closed when there is another event
}

// recent is an ID that is known until some time.
type recent struct {
	id    string
	until time.Time
}

// NewMemory makes a Memory without streams.
func NewMemory() *Memory { return &Memory{streams: map[string]*memory{}, closed: make(chan struct{})} }

// Ensure implements Bus.
func (b *Memory) Ensure(_ context.Context, c Config) error {
	if err := c.Check(); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.streams[c.Name]
	if s == nil {
		b.made++
		b.streams[c.Name] = &memory{config: c, made: time.Now().UnixNano() + b.made, ids: map[string]uint64{}, more: make(chan struct{})}
		return nil
	}
	if s.config.Partitions != c.Partitions || s.config.Keep != c.Keep {
		return &Mismatch{s.config, c}
	}
	return nil
}

// Publish implements Bus.
func (b *Memory) Publish(ctx context.Context, stream string, list []Message) (uint64, error) {
	if err := Check(list); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.streams[stream]
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case b.isClosed():
		return 0, ErrClosed
	case s == nil:
		return 0, ErrNoStream
	}
	now := time.Now()
	s.forget(now)
	seq := s.last
	for _, m := range list {
		if old, ok := s.ids[m.ID]; ok && m.ID != "" {
			seq = old
			continue
		}
		s.last++
		m.Seq, m.Time, seq = s.last, now, s.last
		s.events = append(s.events, m)
		if m.ID != "" {
			s.ids[m.ID] = seq
			s.recent = append(s.recent, recent{m.ID, now.Add(s.config.Window())})
		}
	}
	close(s.more)
	s.more = make(chan struct{})
	return seq, nil
}

// forget drops events that were kept for long enough, some at a time, and IDs.
func (s *memory) forget(now time.Time) {
	n := 0
	for s.config.Keep > 0 && n < len(s.events) && now.Sub(s.events[n].Time) > s.config.Keep {
		n++
	}
	if n > 0 {
		s.events = append([]Message(nil), s.events[n:]...)
	}
	for len(s.recent) > 0 && now.After(s.recent[0].until) {
		delete(s.ids, s.recent[0].id)
		s.recent = s.recent[1:]
	}
}

// Read implements Bus.
func (b *Memory) Read(ctx context.Context, stream string, f Filter, from, to uint64, take func(Message) bool) error {
	if err := CheckSeen(ctx, b, stream, f.Made, f.Seen); err != nil {
		return err
	}
	var was *memory
	for {
		b.mu.Lock()
		s := b.streams[stream]
		if s == nil || f.Made != 0 && f.Made != s.made {
			b.mu.Unlock()
			return ErrNoStream
		}
		if was != nil && was != s {
			b.mu.Unlock()
			if err := CheckSeen(ctx, b, stream, f.Made, f.Seen); err != nil {
				return err
			}
			was = nil
			continue
		}
		was, f.Made = s, s.made
		at := sort.Search(len(s.events), func(i int) bool { return s.events[i].Seq >= from })
		batch, last, more := s.events[at:], s.last, s.more
		b.mu.Unlock()
		for _, m := range batch {
			if to > 0 && m.Seq > to {
				return nil
			}
			from = m.Seq + 1
			if !f.wants(&m) {
				continue
			}
			m.Pending, f.Seen = last-m.Seq, Mark{m.Seq, m.Time.UnixNano()}
			if !take(m) {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
		if to > 0 && last >= to || to > 0 && len(batch) == 0 {
			return nil
		}
		select {
		case <-more:
		case <-b.closed:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *Filter) wants(m *Message) bool {
	if f.Key != nil {
		return m.Key == *f.Key
	}
	return m.Partition == f.Partition || f.Partition == AnyPartition
}

// Next implements Bus.
func (b *Memory) Next(_ context.Context, stream string, f Filter, from uint64) (Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.streams[stream]
	if s == nil || f.Made != 0 && f.Made != s.made {
		return Message{}, ErrNoStream
	}
	if s.last < f.Seen.Seq {
		return Message{}, ErrOtherStore
	}
	at := sort.Search(len(s.events), func(i int) bool { return s.events[i].Seq >= from })
	for _, m := range s.events[at:] {
		if f.wants(&m) {
			return m, nil
		}
	}
	return Message{}, ErrNoEvent
}

// Info implements Bus.
func (b *Memory) Info(_ context.Context, stream string) (Info, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.streams[stream]
	if s == nil {
		return Info{}, ErrNoStream
	}
	i := Info{Last: s.last, Count: uint64(len(s.events)), Made: s.made}
	if len(s.events) > 0 {
		i.First = s.events[0].Seq
	}
	return i, nil
}

// Replicate implements Bus: there is one copy.
func (b *Memory) Replicate(_ context.Context, stream string, _ int) (have, want int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.streams[stream] == nil {
		return 0, 0, ErrNoStream
	}
	return 1, 1, nil
}

// Remove drops a stream, as an operator of a server does.
func (b *Memory) Remove(stream string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.streams[stream]; s != nil {
		delete(b.streams, stream)
		close(s.more)
	}
}

// Restore has the stream end with an event before its last, as on a server that lost its power: readers lose their connection.
func (b *Memory) Restore(stream string, last uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.streams[stream]
	s := *was
	at := sort.Search(len(s.events), func(i int) bool { return s.events[i].Seq > last })
	s.events, s.last, s.more = append([]Message(nil), s.events[:at]...), last, make(chan struct{})
	b.streams[stream] = &s
	close(was.more)
}

// Connects implements Bus.
func (b *Memory) Connects() uint64 { return 0 }

// Close implements Bus.
func (b *Memory) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isClosed() {
		close(b.closed)
	}
}

func (b *Memory) isClosed() bool {
	select {
	case <-b.closed:
		return true
	default:
		return false
	}
}
