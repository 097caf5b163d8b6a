package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
)

// Source is what the API asks: a *system.Node.
type Source interface {
	Status(context.Context) (inspect.Status, error)
	Functions(ctx context.Context, limit int) (inspect.Functions, error)
	Failures(ctx context.Context, limit int) (inspect.Failures, error)
	Tasks(context.Context, inspect.TaskQuery) (inspect.Tasks, error)
	Grains(context.Context, inspect.GrainQuery) (inspect.Grains, error)
	Waits(ctx context.Context, limit int) (inspect.Waits, error)
	Memory(ctx context.Context, node raysys.NodeID, limit int) (inspect.Memory, error)
	Groups(ctx context.Context, id string, limit int) (inspect.Groups, error)
	Streams(context.Context) (inspect.Streams, error)
	Schedules(ctx context.Context, prefix string, limit int) (inspect.Schedules, error)
	StoredGrains(context.Context, inspect.StoredQuery) (inspect.StoredGrains, error)
	Logs(ctx context.Context, q inspect.LogQuery, follow func(inspect.LogLine)) (inspect.Logs, error)
	Get(ctx context.Context, text string) (inspect.Found, error)
	Timeline(context.Context, inspect.TimelineQuery, io.Writer) (inspect.Timeline, error)
}

// kind is one thing that can be asked for at /api/NAME.
type kind struct {
	takes string // names of its parameters, those of the command's flags
	ask   func(context.Context, Source, *parameters) (any, error)
}

// kinds answer with the JSON of the commands raysys status, list and logs.
var kinds = map[string]kind{
	"status": {"", func(ctx context.Context, s Source, _ *parameters) (any, error) {
		st, err := s.Status(ctx)
		st.Nodes, st.Shards = orEmpty(st.Nodes), orEmpty(st.Shards)
		return st, err
	}},
	"functions": {"limit", func(ctx context.Context, s Source, p *parameters) (any, error) {
		return s.Functions(ctx, p.orNone(100))
	}},
	"failures": {"limit", func(ctx context.Context, s Source, p *parameters) (any, error) { return s.Failures(ctx, p.orNone(100)) }},
	"waits":    {"limit", func(ctx context.Context, s Source, p *parameters) (any, error) { return s.Waits(ctx, p.orNone(100)) }},
	"tasks": {"state function node detached limit", func(ctx context.Context, s Source, p *parameters) (any, error) {
		return s.Tasks(ctx, inspect.TaskQuery{
			State: p.Get("state"), Function: p.Get("function"), Node: raysys.NodeID(p.Get("node")), Detached: p.boolean("detached"), Limit: p.orNone(100),
		})
	}},
	"grains": {"kind key node limit", func(ctx context.Context, s Source, p *parameters) (any, error) {
		return s.Grains(ctx, inspect.GrainQuery{Kind: p.Get("kind"), Key: p.Get("key"), Node: raysys.NodeID(p.Get("node")), Limit: p.orNone(100)})
	}},
	"objects": {"node limit", func(ctx context.Context, s Source, p *parameters) (any, error) {
		limit := p.whole("limit", 20)
		m, err := s.Memory(ctx, raysys.NodeID(p.Get("node")), limit)
		return m.List(limit), err
	}},
	"groups": {"limit", func(ctx context.Context, s Source, p *parameters) (any, error) {
		return s.Groups(ctx, "", p.whole("limit", 100))
	}},
	"streams": {"", func(ctx context.Context, s Source, _ *parameters) (any, error) { return s.Streams(ctx) }},
	"schedules": {"prefix limit", func(ctx context.Context, s Source, p *parameters) (any, error) {
		return s.Schedules(ctx, p.Get("prefix"), p.whole("limit", 1000))
	}},
	"states": {"kind prefix values from", func(ctx context.Context, s Source, p *parameters) (any, error) {
		return s.StoredGrains(ctx, inspect.StoredQuery{
			Kind: p.Get("kind"), Prefix: p.Get("prefix"), Values: p.boolean("values"), From: p.Get("from"),
		})
	}},
	"logs":     {"node driver function lines follow", func(ctx context.Context, s Source, p *parameters) (any, error) { return s.Logs(ctx, p.logs(), nil) }},
	"timeline": {"for function", nil}, // which is a file: see Server.timeline
}

// parameters are those of one request, and what cannot be meant of them.
type parameters struct {
	url.Values
	bad []error
}

func read(query url.Values, takes string) (*parameters, error) {
	p := &parameters{Values: query}
	known := strings.Fields(takes)
	for name := range query {
		switch {
		case !slices.Contains(known, name) && takes == "":
			p.refuse("the parameter %q is not known: there are none", name)
		case !slices.Contains(known, name):
			p.refuse("the parameter %q is not known: there are %s", name, strings.Join(known, ", "))
		case len(query[name]) > 1:
			p.refuse("%s is there %d times: give it once", name, len(query[name]))
		}
	}
	p.whole("limit", 0)
	p.whole("lines", 0)
	p.duration("for")
	p.boolean("detached")
	p.boolean("follow")
	p.boolean("values")
	return p, errors.Join(p.bad...)
}

func (p *parameters) refuse(format string, args ...any) {
	p.bad = append(p.bad, fmt.Errorf("%w: "+format, append([]any{raysys.ErrBadOption}, args...)...))
}

func (p *parameters) whole(name string, unset int) int {
	v := p.Get(name)
	if v == "" {
		return unset
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 {
		p.refuse("%s=%q: give a whole number of 0 or more", name, v)
	}
	return n
}

// orNone is the limit as package inspect has it, where 0 stands for the default.
func (p *parameters) orNone(unset int) int {
	if n := p.whole("limit", unset); n != 0 {
		return n
	}
	return -1
}

func (p *parameters) boolean(name string) bool {
	v := p.Get(name)
	b, err := strconv.ParseBool(v)
	if err != nil && v != "" {
		p.refuse("%s=%q: give true or false", name, v)
	}
	return b
}

func (p *parameters) duration(name string) time.Duration {
	v := p.Get(name)
	d, err := time.ParseDuration(v)
	if err != nil && v != "" {
		p.refuse("%s=%q: give a time such as 10s", name, v)
	}
	return d
}

func (p *parameters) logs() inspect.LogQuery {
	return inspect.LogQuery{Node: raysys.NodeID(p.Get("node")), Driver: p.Get("driver"), Function: p.Get("function"), Limit: p.whole("lines", 100)}
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// api answers /api/NAME and /api/get/ID.
func (s *Server) api(w http.ResponseWriter, r *http.Request) {
	escaped := strings.TrimPrefix(r.URL.EscapedPath(), "/api/")
	k, ok := kinds[escaped]
	if id, of := strings.CutPrefix(escaped, "get/"); of {
		text, err := url.PathUnescape(id)
		ok = err == nil && text != ""
		k.ask = func(ctx context.Context, s Source, _ *parameters) (any, error) { return s.Get(ctx, text) }
	}
	if !ok {
		fail(w, r, http.StatusNotFound, fmt.Sprintf("/api has get/ID, %s", strings.Join(slices.Sorted(maps.Keys(kinds)), ", ")))
		return
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, r, http.StatusBadRequest, fmt.Sprintf("the parameters cannot be read: %v", err))
		return
	}
	p, err := read(query, k.takes)
	if err == nil {
		err = s.ready()
	}
	if err != nil {
		fail(w, r, codeOf(err), err.Error())
		return
	}
	switch {
	case p.boolean("follow"):
		s.follow(w, r, p.logs())
		return
	case escaped == "timeline":
		s.timeline(w, r, inspect.TimelineQuery{For: p.duration("for"), Function: p.Get("function")})
		return
	}
	a, err := s.answers.get(r.Context(), readerOf(r.RemoteAddr), escaped+"?"+query.Encode(), func(ctx context.Context) (any, error) { return k.ask(ctx, s.Source, p) })
	if err != nil {
		fail(w, r, codeOf(err), err.Error())
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Vary", "Accept-Encoding")
	h.Set(Asked, strconv.FormatInt(a.at.UnixMilli(), 10)) // for rates: readers of one answer get it at different times
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
		w.WriteHeader(a.code)
		_, _ = w.Write(a.body) // the reader may be gone
		return
	}
	w.WriteHeader(a.code)
	if z, err := gzip.NewReader(bytes.NewReader(a.body)); err == nil {
		_, _ = io.Copy(w, z)
	}
}

// long is an answer that takes its time, and is written part by part.
type long struct {
	w      http.ResponseWriter
	to     *http.ResponseController
	kind   string // its type
	begun  bool
	cancel context.CancelFunc
}

// Write implements io.Writer.
func (l *long) Write(b []byte) (int, error) {
	if !l.begun {
		l.begun = true
		l.w.Header().Set("Content-Type", l.kind)
	}
	_ = l.to.SetWriteDeadline(time.Now().Add(writeLimit))
	n, err := l.w.Write(b)
	if err = cmp.Or(err, l.to.Flush()); err != nil {
		l.cancel() // the reader is gone
	}
	return n, err
}

// long has f write an answer of that type, which ends with its reader and with the server.
func (s *Server) long(w http.ResponseWriter, r *http.Request, in *rooms, kind string, f func(context.Context, *long) error) {
	reader := readerOf(r.RemoteAddr)
	if !in.enter(reader) {
		fail(w, r, http.StatusServiceUnavailable, errBusy.Error())
		return
	}
	defer in.leave(reader)
	if !s.answers.enter() {
		fail(w, r, http.StatusServiceUnavailable, errNotServed.Error())
		return
	}
	defer s.answers.all.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.answers.ctx, cancel)()
	w.Header().Set(Asked, strconv.FormatInt(time.Now().UnixMilli(), 10))
	l := &long{w: w, to: http.NewResponseController(w), kind: kind, cancel: cancel}
	_ = l.to.SetReadDeadline(time.Time{}) // else the connection ends with it
	_ = l.to.SetWriteDeadline(time.Time{})
	err := f(ctx, l)
	switch {
	case err == nil:
	case l.begun:
		panic(http.ErrAbortHandler) // so that the reader sees that there should be more
	case ctx.Err() == nil:
		fail(w, r, codeOf(err), err.Error())
	}
}

// follow writes the lines of logs that there are, and those that come, each as JSON.
func (s *Server) follow(w http.ResponseWriter, r *http.Request, q inspect.LogQuery) {
	s.long(w, r, s.followers, "application/x-ndjson", func(ctx context.Context, l *long) error {
		e := json.NewEncoder(l)
		_, err := s.Source.Logs(ctx, q, func(line inspect.LogLine) { _ = e.Encode(line) })
		return err
	})
}

// Asked is the header of each answer with when the nodes were asked, in milliseconds of Unix time. No other server has it.
const Asked = "Raysys-Asked"

// Recorded is the trailer behind a timeline: what is in it, as JSON.
const Recorded = "Raysys-Timeline"

// timeline writes a timeline, as a file.
func (s *Server) timeline(w http.ResponseWriter, r *http.Request, q inspect.TimelineQuery) {
	w.Header().Set("Trailer", Recorded)
	s.long(w, r, s.timelines, "application/json", func(ctx context.Context, l *long) error {
		all, err := s.Source.Timeline(ctx, q, l)
		if err != nil {
			return err
		}
		told, err := json.Marshal(all)
		w.Header().Set(Recorded, string(told))
		return err
	})
}

// fail says why there is no answer: as JSON where that is asked for.
func fail(w http.ResponseWriter, r *http.Request, code int, why string) {
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if !strings.HasPrefix(r.URL.Path, "/api/") {
		http.Error(w, why, code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(failure{why}) // the reader may be gone
}
