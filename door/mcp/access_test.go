package mcp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/testkit"
)

const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func call(tool, args string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `","arguments":` + args + `}}`
}

// post posts a message, as no client of the SDK would; pairs are headers.
func post(t testing.TB, url, body string, pairs ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for i := 0; i < len(pairs); i += 2 {
		if r.Header[pairs[i]] = []string{pairs[i+1]}; pairs[i] == "Host" {
			r.Host = pairs[i+1]
		}
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a, string(text)
}

// TestAccess: who asks is found out before a message is read.
func TestAccess(t *testing.T) {
	n := testkit.New(t).Node()
	alone, known := serve(t, n), serve(t, n, twoCallers(t))
	for _, c := range []struct {
		url     string
		code    int
		text    string
		headers []string
	}{
		{alone.URL, 200, "mcp_account_add", nil},
		{alone.URL, 403, "raysys:forbidden", []string{"Host", "rebound.example"}},
		{alone.URL, 403, "raysys:forbidden", []string{"X-Forwarded-For", "127.0.0.1"}},
		{alone.URL, 403, "raysys:forbidden", []string{"Via", "1.1 a"}},
		{alone.URL, 403, "another origin", []string{"Origin", "https://evil.example"}},
		{alone.URL, 403, "another origin", []string{"Sec-Fetch-Site", "cross-site"}},
		{alone.URL, 415, "", []string{"Content-Type", "text/plain"}},
		{alone.URL, 400, "", []string{"Mcp-Protocol-Version", "1999-01-01"}},
		{known.URL, 401, "raysys:unauthorized", nil},
		{known.URL, 401, "raysys:unauthorized", []string{"Authorization", "Bearer " + aliceToken + "0"}},
		{known.URL, 403, "another origin", []string{"Authorization", "Bearer " + aliceToken, "Origin", "https://evil.example"}},
		{known.URL, 200, "mcp_account_add", []string{"Authorization", "Bearer " + aliceToken}},
		{known.URL, 200, "mcp_account_add", []string{"Authorization", "Bearer " + aliceToken, "Host", "door.example", "X-Forwarded-For", "1.2.3.4"}},
	} {
		a, text := post(t, c.url, list, c.headers...)
		if a.StatusCode != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%v: %d %.200s, want %d %s", c.headers, a.StatusCode, text, c.code, c.text)
		}
		if c.code == 401 && a.Header.Get("Www-Authenticate") != "Bearer" {
			t.Error("no WWW-Authenticate")
		}
	}
	for body, code := range map[string]int{
		"": 400, "x": 400, "{}": 400, `{"jsonrpc":"2.0","id":1,"method":"none"}`: 400, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}`: 200,
		strings.Repeat("[", 50_000): 400, call("mcp_depth", `{"arg":`+strings.Repeat(`{"next":`, 5000)+"{}"+strings.Repeat("}", 5000)+"}"): 400, `{"jsonrpc":"2.0","id":1,"method":"tools/list","x":"` + strings.Repeat("x", 200<<10) + `"}`: 413,
		call("echo_key", "{\"key\":\"\xff\"}"): 200,
	} {
		a, text := post(t, alone.URL, body)
		if a.StatusCode != code || code == 200 && !strings.Contains(text, "rror") {
			t.Errorf("%.60s: %d %.200s, want %d", body, a.StatusCode, text, code)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		r, _ := http.NewRequestWithContext(context.Background(), method, alone.URL, nil)
		a, err := http.DefaultClient.Do(r)
		if err != nil || a.StatusCode != 405 {
			t.Error(method, a.StatusCode, err)
		}
		a.Body.Close()
	}
}

// dated is a client whose writes have a deadline.
type dated struct {
	*httptest.ResponseRecorder
	till, wrote time.Time
}

func (d *dated) SetWriteDeadline(t time.Time) error { d.till = t; return nil }

func (d *dated) Write(b []byte) (int, error) {
	d.wrote = d.till
	return d.ResponseRecorder.Write(b)
}

// TestUnreadAnswers: a client that does not read its answer is ended, so that it keeps no room.
func TestUnreadAnswers(t *testing.T) {
	s := serve(t, testkit.New(t).Node())
	r := httptest.NewRequest("POST", s.URL, strings.NewReader(list))
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	w := &dated{ResponseRecorder: httptest.NewRecorder()}
	s.Config.Handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, s.Listener.Addr())))
	if left := time.Until(w.wrote); w.Code != 200 || left <= 0 || left > 90*time.Second || !w.till.IsZero() {
		t.Errorf("%d %.100s: written until %v, then %v", w.Code, w.Body, w.wrote, w.till)
	}
}

// TestRoom: a call takes the room of one request: 256 of one caller go at a time, and others are told to wait.
func TestRoom(t *testing.T) {
	s := serve(t, testkit.New(t).Node(), twoCallers(t))
	alice := []string{"Authorization", "Bearer " + aliceToken}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{}, 256)
	for i := range 256 {
		go func() {
			body := call("echo_hold", `{"key":"`+strconv.Itoa(i)+`"}`)
			r, _ := http.NewRequestWithContext(ctx, "POST", s.URL, strings.NewReader(body))
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, alice[0]: {alice[1]}}
			if a, err := s.Client().Do(r); err == nil { // else it is cancelled
				a.Body.Close()
			}
			ended <- struct{}{}
		}()
	}
	for range 256 {
		<-held
	}
	if a, _ := post(t, s.URL, list, alice...); a.StatusCode != 429 || a.Header.Get("Retry-After") != "1" {
		t.Error(a.StatusCode)
	}
	if a, _ := post(t, s.URL, list, "Authorization", "Bearer "+bobToken); a.StatusCode != 200 {
		t.Error(a.StatusCode)
	}
	end()
	for range 256 {
		<-ended
		<-given
	}
}
