package door

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"strconv"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains/feed"
)

const (
	beatEvery    = 15 * time.Second // proxies end connections on which nothing comes
	writeWithin  = 30 * time.Second // a client that takes nothing for so long is ended
	maxLastItems = 1000
	eventStream  = "text/event-stream"
)

// anyItems gives up the type of items.
func anyItems[T any](items iter.Seq2[T, error]) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		for v, err := range items {
			if !yield(v, err) {
				return
			}
		}
	}
}

// item is one of a stream, or an error of it.
type item struct {
	value any
	err   error
}

// streamItems answers with the items of a feed or a generator.
func streamItems(x *request) error {
	methods := map[string]string{"feed": http.MethodGet, "task": http.MethodPost}
	if err := x.takes(methods[x.mark.form], eventStream); err != nil {
		return err
	}
	if len(x.r.Header["Raysys-Deadline"]) > 0 || len(x.r.Header["Idempotency-Key"]) > 0 {
		return badRequest("a stream has neither a deadline nor a key")
	}
	last, err := strconv.Atoi(cmp.Or(x.query.Get("last"), "0"))
	if err != nil || last < 0 || last > maxLastItems {
		return badRequest("last: give 0 to %d", maxLastItems)
	}
	var arg unsafe.Pointer
	if x.mark.form == "task" {
		if arg, err = x.readArgument(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(x.ctx)
	items := make(chan item)
	go func() {
		defer close(items)
		for v, err := range x.mark.items(ctx, x.key, last, arg) {
			select {
			case items <- item{v, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	x.w.Header().Set("X-Accel-Buffering", "no")
	x.send(http.StatusOK, eventStream, nil)
	defer func() {
		cancel()
		for range items { // until the goroutine has ended
		}
	}()
	sendItems(x, items)
	return nil
}

// sendItems sends items as events, and what has ended them.
func sendItems(x *request, items <-chan item) {
	const comment = ":\n\n" // the first one tells the client that the stream is open
	beat, down := time.NewTicker(beatEvery), shutdown(x)
	defer beat.Stop()
	text, over := comment, false
	for write(x, text) == nil {
		if over {
			return
		}
		select {
		case i, more := <-items:
			text, over = eventOf(x, i, more)
		case <-beat.C:
			text = comment
		case <-raysys.Leaving(x.ctx):
			text, over = eventOf(x, item{err: raysys.ErrNotDelivered}, true)
		case <-down:
			text, over = eventOf(x, item{err: raysys.ErrNotDelivered}, true)
		}
		if x.r.Context().Err() != nil {
			break
		}
	}
	x.code = gone
}

// eventOf is the text of an item, or of the end. over: it is the last.
func eventOf(x *request, i item, more bool) (text string, over bool) {
	event, data := "", i.value
	if missed, some := errors.AsType[*feed.MissedError](i.err); some {
		event, data, i.err = "event: missed\n", map[string]int{"n": missed.N}, nil
	} else if !more {
		event, data, over = "event: end\n", struct{}{}, true
	}
	line, err := x.encode(data)
	if err = cmp.Or(i.err, err); err != nil {
		event, over = "event: error\n", true
		line, _ = json.Marshal(shown(x, err))
	}
	return event + "data: " + string(line) + "\n\n", over // JSON has no line ends
}

// write sends a text at once. The error is the end of the client: what is left in buffers has to fail then.
func write(x *request, text string) error {
	rc := http.NewResponseController(x.w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeWithin)) // a writer of the program's own may have none
	_, err := io.WriteString(x.w, text)
	if err = cmp.Or(err, rc.Flush()); err == nil {
		_ = rc.SetWriteDeadline(time.Time{}) // the connection may have further requests
	}
	return err
}

// shutdown returns a channel that is closed when the server of the request shuts down, which waits for its streams.
func shutdown(x *request) <-chan struct{} {
	s, _ := x.r.Context().Value(http.ServerContextKey).(*http.Server)
	if s == nil {
		return nil
	}
	c, known := x.servers.LoadOrStore(s, make(chan struct{}))
	down := c.(chan struct{})
	if !known {
		s.RegisterOnShutdown(func() { x.servers.Delete(s); close(down) })
	}
	return down
}
