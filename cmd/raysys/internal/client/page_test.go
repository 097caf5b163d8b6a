package client

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/inspect"
	pages "github.com/raysys/raysys/internal/page"
)

// endless is the body of an answer without an end.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	e.read += int64(len(p))
	return len(p), nil
}

type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// asking is a Reader of a page that answers so.
func asking(t *testing.T, body io.Reader, header http.Header) Reader {
	t.Helper()
	r, err := OpenPage(Where{URL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	r.(*page).http.Transport = answers(func(*http.Request) *http.Response {
		return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(body)}
	})
	return r
}

// TestAnswersWithoutAnEnd: what a page may send is bounded, and the error says by what.
func TestAnswersWithoutAnEnd(t *testing.T) {
	header := http.Header{pages.Asked: {"1"}}
	for what, c := range map[string]struct {
		ask  func(Reader) error
		most int64
		says string
	}{
		"an answer": {func(r Reader) error { _, err := r.Status(t.Context()); return err }, maxRead, "it has more than 64 MiB"},
		"a line": {func(r Reader) error {
			_, err := r.Logs(t.Context(), inspect.LogQuery{}, func(inspect.LogLine) {})
			return err
		}, maxLine, "has more than 8 MiB"},
		"a timeline": {func(r Reader) error {
			_, err := r.Timeline(t.Context(), inspect.TimelineQuery{For: time.Second}, io.Discard)
			return err
		}, maxTimeline, "it has more than 1024 MiB"},
	} {
		body := &endless{}
		if err := c.ask(asking(t, body, header)); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "is it the page of a node?") {
			t.Errorf("%s: %v", what, err)
		}
		if body.read > c.most+c.most/2 {
			t.Errorf("%s: %d bytes were read of at most %d", what, body.read, c.most)
		}
	}
}

// TestOfAnotherServer: JSON that no page has sent is no cluster without nodes.
func TestOfAnotherServer(t *testing.T) {
	follow := func(inspect.LogLine) { t.Error("it has a line") }
	for _, body := range []string{"{}", `{"nodes":[]}`, ""} {
		r := asking(t, strings.NewReader(body), nil)
		_, status := r.Status(t.Context())
		_, logs := r.Logs(t.Context(), inspect.LogQuery{}, follow)
		_, timeline := r.Timeline(t.Context(), inspect.TimelineQuery{}, io.Discard)
		for _, err := range []error{status, logs, timeline} {
			if err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1/api/ is not the page of a node: another server answers there") {
				t.Errorf("%s: %v", body, err)
			}
		}
	}
}

// TestLines: each line is shown, and one that is cut off is none.
func TestLines(t *testing.T) {
	var texts []string
	r := asking(t, strings.NewReader(`{"text":"a"}`+"\n"+`{"text":"`+strings.Repeat("b", 100_000)+`"}`+"\n"+`{"text":"c`), http.Header{pages.Asked: {"1"}})
	_, err := r.Logs(t.Context(), inspect.LogQuery{}, func(l inspect.LogLine) { texts = append(texts, l.Text) })
	if !errors.Is(err, ErrUnreachable) || len(texts) != 2 || len(texts[1]) != 100_000 {
		t.Errorf("%d lines, %v", len(texts), err)
	}
}
