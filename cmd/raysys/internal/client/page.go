package client

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/cmd/internal/cli"
	"github.com/raysys/raysys/inspect"
	pages "github.com/raysys/raysys/internal/page"
	"github.com/raysys/raysys/internal/thishost"
)

// What a page may send: whoever answers at a URL need not be one.
const (
	maxRead     = 64 << 20 // an answer
	maxLine     = 8 << 20  // a line of a log that is followed: a node reads 1 MiB at a time, which JSON may escape
	maxTimeline = 1 << 30  // a million events
)

// page implements Reader over the page of a node.
type page struct {
	base  string // URL of the API, with a slash at the end
	token string
	http  *http.Client
}

// OpenPage reads the token and certificates that at names. Nothing is asked yet.
func OpenPage(at Where) (Reader, error) {
	u, err := url.Parse(at.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("--url %q: give the URL of a node's page, such as http://127.0.0.1:8265/, without a user, a password or a query: the token is in the file of RAYSYS_HTTP_TOKEN_FILE", cli.Redact(at.URL))
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	p := &page{base: strings.TrimSuffix(u.String(), "/") + "/api/", http: &http.Client{Transport: t}}
	p.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // who answers gets the token
	if at.CA != "" {
		pem, err := os.ReadFile(at.CA)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		t.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca %s: there is no certificate in it", at.CA)
		}
	}
	if at.Token == "" {
		return p, nil
	}
	if u.Scheme == "http" && !thishost.Loopback(u.Hostname()) && !at.Insecure {
		return nil, fmt.Errorf("--url %s: the token would be sent for all on the way to read: give an https URL, or --insecure", at.URL)
	}
	token, err := os.ReadFile(at.Token)
	if err != nil {
		return nil, fmt.Errorf("RAYSYS_HTTP_TOKEN_FILE: %w", err)
	}
	p.token = strings.TrimSpace(string(token))
	return p, nil
}

// refused is an error that a page has answered with.
type refused struct {
	text string
	is   error
}

func (r refused) Error() string { return r.text }
func (r refused) Unwrap() error { return r.is }

// open asks for path; the caller closes what comes.
func (p *page) open(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	a, err := p.answer(ctx, path, query)
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}

// answer is open with what is beside the body.
func (p *page) answer(ctx context.Context, path string, query url.Values) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	a, err := p.http.Do(r)
	var gone *net.OpError
	switch {
	case errors.As(err, &gone):
		return nil, fmt.Errorf("%w: %w", ErrUnreachable, err)
	case err != nil:
		return nil, err
	case a.StatusCode == http.StatusOK && a.Header.Get(pages.Asked) != "":
		return a, nil
	}
	defer a.Body.Close()
	if a.StatusCode == http.StatusOK {
		return nil, fmt.Errorf("%s is not the page of a node: another server answers there", p.base)
	}
	var said struct {
		Error string `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(a.Body, maxRead)).Decode(&said); err != nil || said.Error == "" {
		return nil, fmt.Errorf("%s answers %s: is it the page of a node?", p.base, a.Status)
	}
	classes := map[int]error{
		http.StatusBadRequest: raysys.ErrBadOption, http.StatusNotFound: ErrNotFound, http.StatusServiceUnavailable: ErrUnreachable, http.StatusGatewayTimeout: ErrTimedOut,
	}
	return nil, refused{said.Error, classes[a.StatusCode]}
}

// read asks for a kind of answer.
func read[T any](ctx context.Context, p *page, path string, query url.Values) (v T, err error) {
	body, err := p.open(ctx, path, query)
	if err != nil {
		return v, err
	}
	defer body.Close()
	if err := json.NewDecoder(&bounded{body, maxRead, maxRead}).Decode(&v); err != nil {
		return v, fmt.Errorf("read the answer of %s%s: %w", p.base, path, err)
	}
	return v, nil
}

// bounded reads from a page, so much at most: more is an error.
type bounded struct {
	from       io.Reader
	left, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.from.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("it has more than %d MiB: is it the page of a node?", b.most>>20)
	}
	return n, err
}

// query has the pairs of names and values whose value is not empty.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// number is a limit; a Reader is given one below 0 for none at all.
func number(limit int) string { return strconv.Itoa(max(limit, 0)) }

func (p *page) Status(ctx context.Context) (Status, error) {
	return read[Status](ctx, p, "status", nil)
}

func (p *page) Memory(ctx context.Context, node raysys.NodeID, limit int) (Memory, error) {
	return read[Memory](ctx, p, "objects", query("node", string(node), "limit", number(limit)))
}

func (p *page) Get(ctx context.Context, text string) (inspect.Found, error) {
	return read[inspect.Found](ctx, p, "get/"+url.PathEscape(text), nil)
}

func (p *page) Groups(ctx context.Context, limit int) (inspect.Groups, error) {
	return read[inspect.Groups](ctx, p, "groups", query("limit", number(limit)))
}

func (p *page) Tasks(ctx context.Context, q inspect.TaskQuery) (inspect.Tasks, error) {
	detached := ""
	if q.Detached {
		detached = "true"
	}
	return read[inspect.Tasks](ctx, p, "tasks", query("state", q.State, "function", q.Function, "node", string(q.Node), "detached", detached, "limit", number(q.Limit)))
}

func (p *page) Grains(ctx context.Context, q inspect.GrainQuery) (inspect.Grains, error) {
	return read[inspect.Grains](ctx, p, "grains", query("kind", q.Kind, "key", q.Key, "node", string(q.Node), "limit", number(q.Limit)))
}

func (p *page) Waits(ctx context.Context, limit int) (inspect.Waits, error) {
	return read[inspect.Waits](ctx, p, "waits", query("limit", number(limit)))
}

func (p *page) Functions(ctx context.Context, limit int) (inspect.Functions, error) {
	return read[inspect.Functions](ctx, p, "functions", query("limit", number(limit)))
}

func (p *page) Failures(ctx context.Context, limit int) (inspect.Failures, error) {
	return read[inspect.Failures](ctx, p, "failures", query("limit", number(limit)))
}

func (p *page) Streams(ctx context.Context) (inspect.Streams, error) {
	return read[inspect.Streams](ctx, p, "streams", nil)
}

func (p *page) Schedules(ctx context.Context, prefix string, limit int) (inspect.Schedules, error) {
	return read[inspect.Schedules](ctx, p, "schedules", query("prefix", prefix, "limit", strconv.Itoa(limit)))
}

func (p *page) StoredGrains(ctx context.Context, q inspect.StoredQuery) (inspect.StoredGrains, error) {
	values := ""
	if q.Values {
		values = "true"
	}
	asks := query("kind", q.Kind, "prefix", q.Prefix, "values", values, "from", q.From)
	return read[inspect.StoredGrains](ctx, p, "states", asks)
}

func (p *page) Logs(ctx context.Context, q inspect.LogQuery, follow func(inspect.LogLine)) (all inspect.Logs, err error) {
	asks := query("node", string(q.Node), "driver", q.Driver, "function", q.Function, "lines", number(q.Limit))
	if follow == nil {
		return read[inspect.Logs](ctx, p, "logs", asks)
	}
	asks.Set("follow", "true")
	body, err := p.open(ctx, "logs", asks)
	if err != nil {
		return all, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l inspect.LogLine
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			break // the page has ended within the line, or this is none
		}
		follow(l)
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return all, nil
	case errors.Is(err, bufio.ErrTooLong):
		return all, fmt.Errorf("a line of the logs of %s has more than %d MiB: is it the page of a node?", p.base, maxLine>>20)
	default:
		return all, fmt.Errorf("%w: the page has ended: %w", ErrUnreachable, cmp.Or(err, io.EOF))
	}
}

func (p *page) Timeline(ctx context.Context, q inspect.TimelineQuery, w io.Writer) (all inspect.Timeline, err error) {
	a, err := p.answer(ctx, "timeline", query("for", q.For.String(), "function", q.Function))
	if err != nil {
		return all, err
	}
	defer a.Body.Close()
	if _, err = io.Copy(w, &bounded{a.Body, maxTimeline, maxTimeline}); err == nil {
		err = json.Unmarshal([]byte(a.Trailer.Get(pages.Recorded)), &all) // there is none where the page is that of another version, or has ended
	}
	if err != nil {
		err = fmt.Errorf("read the timeline of %s: %w", p.base, err)
	}
	return all, err
}

func (p *page) Close() error {
	p.http.CloseIdleConnections()
	return nil
}
