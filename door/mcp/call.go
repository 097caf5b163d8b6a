package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxItems      = 100 // of a stream
	maxWait       = time.Minute
	feedWait      = time.Second // unless the client says how long
	generatorWait = 30 * time.Second
)

// call is what a tool is given, as a request to the door has it.
type call struct {
	query url.Values
	once  []string // Idempotency-Key
	arg   []byte
	wait  time.Duration // for the items of a stream
}

// read reads what the tool is given.
func (t *tool) read(text json.RawMessage) (*call, error) {
	var given map[string]json.RawMessage
	takes := t.shown.Name + " takes " + strings.Join(slices.Sorted(maps.Keys(t.takes)), ", ")
	if len(text) > 0 && json.Unmarshal(text, &given) != nil {
		return nil, fmt.Errorf("%s, as an object", takes)
	}
	maps.DeleteFunc(given, func(name string, value json.RawMessage) bool {
		return name != "arg" && string(value) == "null"
	})
	for name := range t.takes {
		if given[name] == nil && !slices.Contains(optional, name) {
			return nil, fmt.Errorf("%s: %s is missing", takes, name)
		}
	}
	c := &call{query: url.Values{}, wait: generatorWait}
	if t.takes["last"] != nil {
		c.wait = feedWait
		c.query.Set("last", fmt.Sprint(maxItems))
	}
	for name, value := range given {
		var s string
		bad := name != "arg" && name != "last" && json.Unmarshal(value, &s) != nil
		switch wait, err := time.ParseDuration("0" + s); { // which leaves no sign
		case t.takes[name] == nil:
			return nil, fmt.Errorf("%s, and no %.100q", takes, name)
		case bad, strings.ContainsRune(s, '\uFFFD'): // which encoding/json has for what is no Unicode: another grain's
			return nil, fmt.Errorf("%s: give a string of Unicode as %q", takes, name)
		case name == "arg":
			c.arg = value
		case name == "idempotency_key":
			c.once = []string{s}
		case name == "key", name == "run":
			c.query.Set("key", s)
		case name == "last":
			c.query.Set(name, string(value))
		case !t.Stream:
			c.query.Set(name, s)
		case err != nil || wait == 0 || wait > maxWait:
			return nil, fmt.Errorf("%s: give a wait such as 30s, up to %v", takes, maxWait)
		default:
			c.wait = wait
		}
	}
	return c, nil
}

// call makes a request to the door of what a tool is given.
func (h *handler) call(r *http.Request, t *tool, text json.RawMessage) *sdk.CallToolResult {
	c, err := t.read(text)
	if err != nil {
		return failure(err.Error())
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.Clone(ctx)
	r.Method, r.Body, r.ContentLength = t.method, io.NopCloser(bytes.NewReader(c.arg)), int64(len(c.arg))
	if r.URL, err = url.Parse(t.Path + "?" + c.query.Encode()); err != nil {
		return failure(err.Error())
	}
	r.Header["Idempotency-Key"] = c.once
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Del("Content-Encoding")
	if t.Stream {
		r.Header.Set("Accept", "text/event-stream")
		r.Header.Del("Raysys-Deadline")
		defer time.AfterFunc(c.wait, cancel).Stop() // no deadline of the context: that would be a failure
	}
	a := &answer{header: http.Header{}, most: h.door.MaxResult(), enough: cancel}
	h.door.ServeHTTP(a, r)
	switch body := json.RawMessage(a.body.Bytes()); {
	case a.code == 0:
		return failure("the client has hung up")
	case a.code >= http.StatusBadRequest:
		return failure(string(body))
	case t.Stream:
		return itemsOf(string(body))
	case t.method == http.MethodPut:
		return done("it runs, or has ended")
	case a.code == http.StatusAccepted:
		return structured(object{"running": true})
	case t.method == http.MethodGet && a.code == http.StatusNoContent:
		return structured(object{"running": false})
	case t.method == http.MethodGet:
		return structured(object{"running": false, "result": body})
	case a.code == http.StatusNoContent:
		return done("it is done")
	default:
		return structured(object{"result": body})
	}
}

// itemsOf is the result with the first items of a stream of events.
func itemsOf(events string) *sdk.CallToolResult {
	items, missed := []json.RawMessage{}, 0
	gives := object{"ended": false}
	for event := range strings.SplitSeq(events, "\n\n") {
		switch kind, data, is := strings.Cut(event, "data: "); kind {
		case "":
			if !is { // the end of the text
				continue
			}
			items = append(items, json.RawMessage(data))
		case "event: missed\n":
			var n struct{ N int }
			_ = json.Unmarshal([]byte(data), &n)
			missed += n.N
			gives["missed"] = missed
		case "event: end\n":
			gives["ended"] = true
		case "event: error\n":
			return failure(data)
		}
	}
	gives["items"] = items[:min(len(items), maxItems)]
	return structured(gives)
}

func structured(gives object) *sdk.CallToolResult {
	text, _ := json.Marshal(gives) // it is made of JSON
	r := done(string(text))
	r.StructuredContent = json.RawMessage(text)
	return r
}

func done(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

func failure(text string) *sdk.CallToolResult {
	r := done(text)
	r.IsError = true
	return r
}

// answer is what the door answers, of a stream no more than a result takes.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
	items  int
	most   int // bytes
	enough func()
}

func (a *answer) Header() http.Header  { return a.header }
func (a *answer) WriteHeader(code int) { a.code = code }
func (a *answer) Flush()               {}

func (a *answer) Write(text []byte) (int, error) {
	a.body.Write(text)
	if bytes.HasPrefix(text, []byte("data: ")) {
		if a.items++; a.items == maxItems || a.body.Len() > a.most {
			a.enough()
		}
	}
	return len(text), nil
}
