package door

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/graindir"
	"github.com/raysys/raysys/internal/grainengine"
	"github.com/raysys/raysys/internal/jsonfit"
	"github.com/raysys/raysys/internal/metrics"
	"github.com/raysys/raysys/internal/taskengine"
)

// request is one request.
type request struct {
	*Door
	w      http.ResponseWriter
	r      *http.Request
	mark   *mark  // nil for what is not marked
	work   Work   // that is asked for
	key    string // of the grain, or the name of the run
	has    bool   // there is a key
	query  url.Values
	caller string
	ctx    context.Context // of a driver, which ends with the client
	id     string          // of the work, once there is some
	code   int             // of the answer
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &request{Door: d, w: w, r: r}
	defer x.end()
	if err := x.serve(); err != nil {
		refuse(x, err)
	}
}

// end is deferred. It counts a request that is answered.
func (x *request) end() {
	if p := recover(); p != nil { // of the Who, or an UnmarshalJSON of the program
		x.logPanic(p)
		if x.code == 0 {
			refuse(x, &problem{Type: "failed", Status: internal, Ran: ranMaybe})
		}
	}
	if x.code != 0 {
		metrics.CountRequest(x.work.Function, x.code)
	}
}

func (d *Door) logPanic(p any) {
	d.node.Log().Error("the door: the program's code has panicked", "panic", p, "stack", string(debug.Stack()))
}

// serve answers, or says why not. Who asks comes first: nobody else learns what there is.
func (x *request) serve() error {
	answer, streams, err := x.choose()
	if err != nil {
		return err
	}
	// Of a batch each call but one has a room of its own.
	if has, _ := x.r.Context().Value(admitted{}).(*atomic.Bool); has == nil || has.Swap(true) {
		if err := x.room.enter(x.caller, streams); err != nil {
			return err
		}
		defer x.room.leave(x.caller, streams)
	}
	x.ctx = x.node.Context(callerKey.With(x.r.Context(), x.caller))
	select {
	case <-raysys.Leaving(x.ctx):
	default:
		if x.node.Err() == nil {
			return answer()
		}
	}
	return refusal(unavailable, "closed", "this node ends: ask another one")
}

// choose finds out who asks for what, and is what answers that, and how many streams that is.
func (x *request) choose() (answer func() error, streams int, err error) {
	below := strings.TrimPrefix(x.r.URL.EscapedPath(), "/call/")
	if below == "openapi.json" {
		list, err := allowed(x)
		return func() error { return sendDocument(x, list) }, 0, err
	}
	var bad error
	m, rest := x.found(below)
	if m != nil {
		x.mark, x.work = m, m.Work
		bad = x.readKey(rest)
		x.work.Key, x.work.ReadOnly = x.key, m.ReadOnly || x.r.Method == http.MethodGet
	}
	x.caller, err = identify(x, x.work)
	switch {
	case err != nil:
		return nil, 0, err
	case m == nil:
		return nil, 0, refusal(missing, "not-found", "no such function")
	case m.item != nil:
		return func() error { return streamItems(x) }, 1, bad
	case m.form == "task" && x.has:
		return func() error { return serveRun(x) }, 0, bad
	}
	return x.call, 0, bad
}

// takes refuses other methods than those of the list, and clients that do not take the type of content. That of a
// generator must be named.
func (x *request) takes(methods, content string) error {
	if !slices.Contains(strings.Split(methods, ", "), x.r.Method) {
		x.w.Header().Set("Allow", methods)
		return refusal(http.StatusMethodNotAllowed, "method-not-allowed", "this takes "+methods)
	}
	accept := strings.ToLower(strings.Join(x.r.Header.Values("Accept"), ","))
	named := methods == http.MethodPost && content == eventStream
	kind, _, _ := strings.Cut(content, "/")
	if strings.Contains(accept, content) || !named &&
		(accept == "" || strings.Contains(accept, "*/*") || strings.Contains(accept, kind+"/*")) {
		return nil
	}
	return refusal(http.StatusNotAcceptable, "not-acceptable", "the answer is "+content+": Accept that")
}

// oddKeys says which keys proxies change.
const oddKeys = `is empty, begins or ends with "/", or has "//", "." or ".." between slashes goes as ?key=`

// readKey reads the key or run, of the rest of the path or of the query.
func (x *request) readKey(rest string) (err error) {
	if x.query, err = url.ParseQuery(x.r.URL.RawQuery); err != nil {
		return badRequest("the query cannot be read")
	}
	takes := map[string]string{"task": "wait", "feed": "last"}[x.mark.form]
	for k, v := range x.query {
		if k != "key" && k != cmp.Or(takes, "key") || len(v) > 1 {
			return badRequest("the query has %.100q, which this does not take, or takes once", k)
		}
	}
	x.key, x.has = x.query.Get("key"), x.query.Has("key")
	if rest != "" {
		key, err := url.PathUnescape(rest[1:])
		if err != nil || key == "" || path.Clean("/"+key) != "/"+key || x.has {
			return badRequest("give one key. One that " + oddKeys)
		}
		x.key, x.has = key, true
	}
	switch {
	case x.mark.form != "task" && !x.has:
		return badRequest("the path ends without the key of a grain")
	case x.mark.form != "task" && len(x.key) > grainengine.MaxKey:
		return badRequest("a key has %d bytes at most", grainengine.MaxKey)
	}
	return nil
}

// call makes a call of a grain, or runs a task.
func (x *request) call() error {
	m := x.mark
	limit, bad := x.limit()
	key, err := x.idempotencyKey()
	if err = cmp.Or(x.takes(http.MethodPost, "application/json"), bad, err); err != nil {
		return err
	}
	p, err := x.pack()
	if err != nil {
		return err
	}
	if p.Opts.Deadline > 0 && !p.Opts.NoLimit {
		limit = min(limit, p.Opts.Deadline)
	}
	p.Opts.Deadline, p.Opts.NoLimit, p.Opts.Key = limit, false, key
	ctx, link := x.ctx, core.Link{}
	if m.form == "task" { // with a derived context Get runs no task in place, and returns in time
		var done context.CancelFunc
		ctx, done = context.WithCancel(ctx)
		defer done()
		link = taskengine.GoPacked(ctx, &p)
	} else {
		link = grainengine.CallPacked(ctx, &p, graindir.ID{Kind: m.Kind, Key: x.key})
	}
	x.setID(link)
	v := reflect.New(m.res.Type)
	if err := core.GetInto(ctx, link, m.res, v.UnsafePointer()); err != nil {
		return x.problemOf(err)
	}
	return x.answer(v)
}

func (x *request) setID(l core.Link) {
	if id := core.IDOf(l); !id.IsZero() {
		x.id = id.String()
	}
}

// limit is how long the request may take.
func (x *request) limit() (time.Duration, error) {
	text := strings.Join(x.r.Header["Raysys-Deadline"], ",") // two are none
	d, err := time.ParseDuration(cmp.Or(text, x.deadline.String()))
	if err != nil || d <= 0 || d > x.deadline {
		return 0, badRequest("Raysys-Deadline: give one duration such as 5s, up to %v", x.deadline)
	}
	return d, nil
}

// maxIdempotencyKey is the most bytes of the header.
const maxIdempotencyKey = 255

// idempotencyKey is the raysys.Key of the call, "" where the client gives none. Each caller has keys of its own.
func (x *request) idempotencyKey() (string, error) {
	list := x.r.Header["Idempotency-Key"]
	switch {
	case len(list) == 0:
		return "", nil
	case len(list) > 1 || list[0] == "" || len(list[0]) > maxIdempotencyKey:
		return "", badRequest("Idempotency-Key: give one, of 1 to %d bytes", maxIdempotencyKey)
	case !x.mark.packed.Keyed:
		return "", badRequest("Idempotency-Key: what changes a durable grain has one; PUT of a run starts a task once")
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(x.caller), x.caller, list[0]))
	return "door." + hex.EncodeToString(sum[:]), nil
}

// pack is the work with the argument of the body.
func (x *request) pack() (core.Packed, error) {
	arg, err := x.readArgument()
	if err != nil {
		return core.Packed{}, err
	}
	p, err := x.mark.pack(x.key, arg)
	if err != nil {
		return p, badArgument("the argument cannot travel: some value in it is out of its range")
	}
	return p, nil
}

// bodyWithin is how long a body may take to come.
const bodyWithin = 30 * time.Second

// readBody reads the body, of limit bytes at most.
func (x *request) readBody(limit int64) ([]byte, error) {
	var body bytes.Buffer
	rc := http.NewResponseController(x.w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyWithin)) // a writer of the program's own may have none
	_, err := body.ReadFrom(http.MaxBytesReader(x.w, x.r.Body, limit))
	_ = rc.SetReadDeadline(time.Time{})
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		text := fmt.Sprintf("an argument has %d bytes at most", x.argument)
		return nil, refusal(http.StatusRequestEntityTooLarge, "too-large", text)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refusal(http.StatusRequestTimeout, "timeout", "the body has not come in time")
	case err != nil:
		return nil, badRequest("the body was cut off")
	}
	return body.Bytes(), nil
}

// readArgument reads the argument: it points to a value of the mark's type.
func (x *request) readArgument() (unsafe.Pointer, error) {
	body, err := x.readBody(x.argument)
	if err != nil {
		return nil, err
	}
	arg, text := reflect.New(x.mark.arg.Type), bytes.TrimSpace(body)
	if x.mark.arg.Nothing() {
		if s := string(text); s != "" && s != "{}" && s != "null" {
			return nil, badArgument("this takes no argument")
		}
		return arg.UnsafePointer(), nil
	}
	kind, _, err := mime.ParseMediaType(x.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || x.r.Header.Get("Content-Encoding") != "" {
		return nil, refusal(http.StatusUnsupportedMediaType, "unsupported-media-type",
			"the argument is application/json, without Content-Encoding")
	}
	err = jsonfit.Decode("", text, arg.Interface())
	if e, own := errors.AsType[*jsonfit.RefusedError](err); own { // whose text is the program's
		at, _ := strings.CutSuffix(err.Error(), e.Error())
		err = fmt.Errorf("%s%s refuses it", at, e.Type)
	}
	if err != nil {
		return nil, badArgument(err.Error())
	}
	return arg.UnsafePointer(), nil
}

// encode writes a result or an item.
func (x *request) encode(v any) (text []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // of a MarshalJSON of the program: a stream says so too
			x.logPanic(p)
			err = failure("unencodable", "the result cannot be written as JSON")
		}
	}()
	if text, err = json.Marshal(v); err != nil {
		return nil, failure("unencodable", "the result cannot be written as JSON")
	} else if int64(len(text)) > x.result {
		return nil, failure("result-too-large", fmt.Sprintf("the result has more than %d bytes", x.result))
	}
	return text, nil
}

// answer sends a result.
func (x *request) answer(v reflect.Value) error {
	if x.mark.res.Nothing() {
		x.send(http.StatusNoContent, "", nil)
		return nil
	}
	text, err := x.encode(v.Interface())
	if err == nil {
		x.send(http.StatusOK, "application/json", text)
	}
	return err
}

// send answers. An error is the client's end, which its context tells.
func (x *request) send(code int, content string, text []byte) {
	h, rc := x.w.Header(), http.NewResponseController(x.w)
	h.Set("Cache-Control", "no-store")
	if content != "" {
		h.Set("Content-Type", content)
		h.Set("X-Content-Type-Options", "nosniff")
	}
	x.code = code
	_ = rc.SetWriteDeadline(time.Now().Add(writeWithin)) // the request has its room until then
	x.w.WriteHeader(code)
	if _, err := x.w.Write(text); err == nil { // else what is left in buffers has to fail
		_ = rc.SetWriteDeadline(time.Time{})
	}
}
