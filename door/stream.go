package door

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/feed"
)

const (
	beatEvery    = 15 * time.Second // proxies end connections on which nothing comes
	writeWithin  = 30 * time.Second // a client that takes nothing for so long is ended
	maxLastItems = 1000
)

// events is a stream of text/event-stream.
type events struct {
	x  *request
	rc *http.ResponseController
	// stop ends what makes the items.
	stop func()

	mu   sync.Mutex // guards the rest, and what is written
	over bool
	beat *time.Timer // a comment is written when it fires
}

// errLeaves ends the streams of a node that ends, or of a server that shuts down.
var errLeaves = fmt.Errorf("%w: this node or its server ends", raysys.ErrNotDelivered)

// streamItems answers with the items of a feed or a generator.
func streamItems(x *request) error {
	last, err := 0, error(nil)
	if x.query.Has("last") {
		last, err = strconv.Atoi(x.query.Get("last"))
	}
	if err != nil || last < 0 || last > maxLastItems {
		return badRequest("last: give 0 to %d", maxLastItems)
	}
	if len(x.r.Header["Raysys-Deadline"]) > 0 || len(x.r.Header["Idempotency-Key"]) > 0 {
		return badRequest("a stream has neither a deadline nor a key")
	}
	var arg unsafe.Pointer
	if x.mark.form == "task" {
		if arg, err = x.readArgument(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(x.ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-raysys.Leaving(x.ctx):
			cancel(errLeaves)
		case <-shutdown(x):
			cancel(errLeaves)
		case <-ctx.Done():
		}
	}()
	e := &events{x: x, rc: http.NewResponseController(x.w), stop: func() { cancel(nil) }}
	x.w.Header().Set("X-Accel-Buffering", "no")
	x.send(http.StatusOK, "text/event-stream", nil)
	e.beat = time.AfterFunc(beatEvery, func() { _ = e.write(nil, "") })
	_ = e.write(nil, "") // so that the client learns that the stream is open
	defer e.end()
	x.mark.stream(ctx, x.key, last, arg, func(item any, bad error) bool {
		if missed, some := errors.AsType[*feed.MissedError](bad); some {
			err = e.write(map[string]int{"n": missed.N}, "missed")
		} else if err = bad; err == nil {
			err = e.write(item, "")
		}
		return err == nil
	})
	if cause := context.Cause(ctx); errors.Is(cause, errLeaves) {
		err = cause
	}
	switch {
	case x.r.Context().Err() != nil:
		x.code = gone
	case err == nil:
		_ = e.write(struct{}{}, "end")
	default:
		_ = e.write(shown(x, err), "error")
	}
	return nil
}

// write writes one event, or a comment where there is no data. The error is the end of the stream.
func (e *events) write(data any, event string) error {
	text := []byte(":\n\n")
	if data != nil {
		line, err := e.x.encode(data)
		if err != nil {
			return err
		}
		if text = nil; event != "" {
			text = []byte("event: " + event + "\n")
		}
		text = fmt.Appendf(text, "data: %s\n\n", line) // JSON has no line ends
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over {
		return context.Canceled
	}
	_ = e.rc.SetWriteDeadline(time.Now().Add(writeWithin)) // a writer of the program's own may have none
	_, err := e.x.w.Write(text)
	if err == nil {
		err = e.rc.Flush()
	}
	if err != nil {
		e.over = true
		e.stop()
		return err
	}
	e.beat.Reset(beatEvery)
	return nil
}

// end waits for a comment that is being written: the writer is of no use after the request.
func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over { // else what is left in buffers has to fail
		_ = e.rc.SetWriteDeadline(time.Time{}) // the connection may have further requests
	}
	e.over = true
	e.beat.Stop()
}

// shutdown returns a channel that is closed when the server of the request shuts down, which waits for its streams.
func shutdown(x *request) <-chan struct{} {
	s, ok := x.r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok {
		return nil
	}
	c, known := x.servers.LoadOrStore(s, make(chan struct{}))
	down := c.(chan struct{})
	if !known {
		s.RegisterOnShutdown(func() { x.servers.Delete(s); close(down) })
	}
	return down
}
