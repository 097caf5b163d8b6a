package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/operate"
)

const (
	// freshFor is how long an answer serves further readers, from when its question began.
	freshFor = time.Second
	// maxMade bounds the answers that are made at once, and maxKept those that are made or fresh. One reader's questions have half of the rooms:
	// whatever it asks, others are answered.
	maxMade, eachMade = 16, 8
	maxKept, eachKept = 128, 64
	// madeWithin bounds a question. A node that does not answer costs 3 s of it.
	madeWithin = 10 * time.Second
)

// answers makes each answer once for all who ask for it while it is fresh.
type answers struct {
	ctx context.Context // ends when nobody is served any more
	end context.CancelFunc

	made *rooms // of answers that are being made
	kept *rooms

	mu  sync.Mutex // guards the rest, but for waiting
	by  map[string]*answer
	all sync.WaitGroup
}

func newAnswers() *answers {
	s := &answers{made: newRooms(maxMade, eachMade), kept: newRooms(maxKept, eachKept), by: map[string]*answer{}}
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// answer is what all readers of one question get, once done is closed.
type answer struct {
	reader string // who asked first
	done   chan struct{}
	at     time.Time // when its question began
	code   int
	body   []byte // JSON, gzipped
}

// errNotServed: the node ends.
var errNotServed = errors.New("the node is closed")

var errBusy = errors.New("too many questions at once: ask again in a second")

// enter counts one more who is served until all.Done, unless nobody is any more.
func (s *answers) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.all.Add(1)
	return true
}

// close ends what is served, and waits for it.
func (s *answers) close() {
	s.mu.Lock()
	s.end()
	s.mu.Unlock()
	s.all.Wait()
}

// get returns the answer with the key; where there is none it makes one for the reader.
func (s *answers) get(ctx context.Context, reader, key string, ask func(context.Context) (any, error)) (*answer, error) {
	s.mu.Lock()
	a := s.by[key]
	if a == nil {
		if s.ctx.Err() != nil || !s.kept.enter(reader) {
			s.mu.Unlock()
			return nil, errBusy
		}
		if !s.made.enter(reader) {
			s.kept.leave(reader)
			s.mu.Unlock()
			return nil, errBusy
		}
		a = &answer{reader: reader, done: make(chan struct{}), at: time.Now()}
		s.by[key] = a
		s.all.Add(1)
		s.mu.Unlock()
		s.make(key, a, ask)
		return a, nil
	}
	s.mu.Unlock()
	select {
	case <-a.done:
		return a, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// make makes the answer, for whoever reads it: it does not end with its first reader.
func (s *answers) make(key string, a *answer, ask func(context.Context) (any, error)) {
	defer s.all.Done()
	ctx, cancel := context.WithTimeout(s.ctx, madeWithin)
	defer cancel()
	v, err := asked(ctx, ask)
	if a.code = codeOf(err); err != nil {
		v = failure{err.Error()}
	}
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is valid
	if err := json.NewEncoder(z).Encode(v); err != nil {
		a.code = http.StatusInternalServerError // a reader finds no JSON
	}
	_ = z.Close() // into memory
	a.body = b.Bytes()
	close(a.done)
	s.made.leave(a.reader)
	gone := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.by, key)
		s.kept.leave(a.reader)
	}
	if left := freshFor - time.Since(a.at); left > 0 {
		time.AfterFunc(left, gone)
	} else {
		gone()
	}
}

// failure is the JSON of an answer that is none.
type failure struct {
	Error string `json:"error"`
}

// asked is ask, of which a panic is an error: a program does not end because somebody looks at it.
func asked(ctx context.Context, ask func(context.Context) (any, error)) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return ask(ctx)
}

// codeOf is the status code of an error.
func codeOf(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, raysys.ErrBadOption):
		return http.StatusBadRequest
	case errors.Is(err, raysys.ErrNotFound), errors.Is(err, operate.ErrNoSuchNode):
		return http.StatusNotFound
	case errors.Is(err, errBusy), errors.Is(err, errNotServed), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}
