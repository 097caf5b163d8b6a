package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// tiny is a model whose batches take no time worth waiting for.
func tiny(version string, seed uint64) release {
	return draw("tiny", version, time.Millisecond, 64, seed)
}

// listen serves by the node of ctx until the test ends, and returns the URL.
func listen(ctx context.Context, t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- system.ServeListener(ctx, l, h) }()
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}

// request makes one and returns its code, its body, and Retry-After.
func request(t *testing.T, method, url string, body []byte) (code int, text, retry string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header.Get("Retry-After")
}

// TestVersions: while clients ask, a version is replaced, the old one is asked for by name, and two share the traffic. No request is lost.
func TestVersions(t *testing.T) {
	for _, nodes := range []int{0, 3} {
		t.Run(fmt.Sprint("nodes=", nodes), func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(nodes))
			ctx := k.Context()
			url := listen(ctx, t, newFront(1).handler())
			v1, v2 := tiny("v1", 1), tiny("v2", 2)
			if err := deploy(ctx, v1, traffic{"v1": 1}); err != nil {
				t.Fatal(err)
			}
			obs := observation(v1, 1)
			var (
				wg   sync.WaitGroup
				mu   sync.Mutex // guards the rest
				seen = map[string]int{}
				bad  []string
			)
			ask := func(url string) string {
				code, text, _ := request(t, http.MethodPost, url, obs)
				var d decision
				if err := json.Unmarshal([]byte(text), &d); err != nil || code != http.StatusOK {
					text = fmt.Sprint(code, " ", text)
					mu.Lock()
					bad = append(bad, text)
					mu.Unlock()
					return text
				}
				want, err := map[string]release{"v1": v1, "v2": v2}[d.Version], error(nil)
				if best, e := want.act(obs); e != nil || best != d.Action {
					err = fmt.Errorf("version %q says %d, and its policy %d, %v", d.Version, d.Action, best, e)
				}
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					bad = append(bad, err.Error())
				}
				seen[d.Version]++
				return d.Version
			}
			stop := make(chan struct{})
			for range 4 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							ask(url + "/models/tiny")
						}
					}
				})
			}
			served := func(version string, n int) {
				t.Helper()
				testkit.Eventually(t, 20*time.Second, "answers of "+version, func() bool {
					mu.Lock()
					defer mu.Unlock()
					return seen[version] >= n
				})
			}
			served("v1", 50)
			if err := deploy(ctx, v2, traffic{"v2": 1}); err != nil {
				t.Fatal(err)
			}
			served("v2", 50)
			if v := ask(url + "/models/tiny?version=v1"); v != "v1" {
				t.Error("asked for v1 by name:", v)
			}
			close(stop)
			wg.Wait()
			if code, text, _ := request(t, http.MethodPut, url+"/models/tiny/traffic", []byte(`{"v1": 3, "v2": 1}`)); code != http.StatusOK {
				t.Fatal(code, text)
			}
			share := newFront(7) // one that knows nothing of before
			of := map[string]int{}
			for range 400 {
				v, err := share.route(ctx, "tiny")
				if err != nil {
					t.Fatal(err)
				}
				of[v]++
			}
			if of["v1"] < 250 || of["v1"] > 350 || of["v1"]+of["v2"] != 400 {
				t.Errorf("shares of 3 to 1: %v", of)
			}
			if len(bad) > 0 {
				t.Errorf("%d requests were lost, the first: %s", len(bad), bad[0])
			}
			if code, text, _ := request(t, http.MethodGet, url+"/models/tiny/traffic", nil); code != http.StatusOK || strings.TrimSpace(text) != `{"v1":3,"v2":1}` {
				t.Error(code, text)
			}
		})
	}
}

// TestRefused: what a client does wrong, and a model that has too much to do, have codes of their own.
func TestRefused(t *testing.T) {
	k := testkit.New(t)
	ctx := k.Context()
	url := listen(ctx, t, newFront(1).handler())
	slow := tiny("v1", 1)
	slow.Model, slow.Takes = "slow", time.Second
	for _, r := range []release{tiny("v1", 1)} {
		if err := deploy(ctx, r, traffic{"v1": 1}); err != nil {
			t.Fatal(err)
		}
	}
	obs := observation(slow, 1)
	for _, c := range []struct {
		method, path string
		body         []byte
		code         int
		text         string
	}{
		{"POST", "/models/tiny", obs[:8], 400, "an observation of another size: 8 bytes, and tiny takes 256"},
		{"POST", "/models/tiny?version=v9", obs, 404, "no such version"},
		{"POST", "/models/none", obs, 404, "no such version"},
		{"POST", "/models/tiny", make([]byte, maxBody+1), 413, "too large"},
		{"PUT", "/models/tiny/traffic", []byte("{"), 400, "give weights of versions"},
		{"PUT", "/models/tiny/traffic", []byte(`{"v9": 1}`), 404, "no such version"},
		{"PUT", "/models/tiny/traffic", []byte(`{"v1": 0}`), 400, "no version has a weight above 0"},
		{"PUT", "/models/tiny/traffic", []byte(`{"v1": -1}`), 400, "give 0 to 1,000,000"},
	} {
		if code, text, _ := request(t, c.method, url+c.path, c.body); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, code, text, c.code, c.text)
		}
	}
	other := tiny("v1", 9)
	if err := deploy(ctx, other, traffic{"v1": 1}); !errors.Is(err, errBad) {
		t.Error("another v1:", err)
	}

	if _, err := publish.Call(ctx, catalogs.Get("slow"), slow).Get(ctx); err != nil {
		t.Fatal(err)
	}
	full, cancel := context.WithCancel(ctx)
	defer cancel()
	for range (queued + 3) * batchSize { // one batch runs, and as many wait as may
		infer.Call(full, servers.Get("slow@v1"), obs)
	}
	testkit.Eventually(t, 20*time.Second, "429 of a model that has too much to do", func() bool {
		for range batchSize {
			infer.Call(full, servers.Get("slow@v1"), obs)
		}
		short, stop := context.WithTimeout(t.Context(), 50*time.Millisecond) // a request that is taken waits
		defer stop()
		req, err := http.NewRequestWithContext(short, http.MethodPost, url+"/models/slow?version=v1", bytes.NewReader(obs))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "1"
	})
}

// TestMeasures: the report has what it promises, on one node and on three.
func TestMeasures(t *testing.T) {
	for _, nodes := range []int{0, 3} {
		t.Run(fmt.Sprint("nodes=", nodes), func(t *testing.T) {
			k := testkit.New(t, testkit.Nodes(nodes), testkit.Loose())
			w := wanted{seed: 1, rounds: 1, batches: 8, length: 50 * time.Millisecond, form: "json", svg: filepath.Join(t.TempDir(), "load.svg")}
			var out, progress bytes.Buffer
			if err := w.measure(k.Context(), &out, &progress); err != nil {
				t.Fatal(err)
			}
			var r report
			d := json.NewDecoder(bytes.NewReader(out.Bytes()))
			d.DisallowUnknownFields()
			if err := d.Decode(&r); err != nil {
				t.Fatal(err, out.String())
			}
			if r.SmallRatio <= 0 || r.SmallRatio > 1.5 || r.LargeRatio <= 0 || r.LargeRatio > 1.5 || r.Small.Nodes != max(nodes, 1) || r.Seed != 1 || r.Paper != paper || len(r.Loads) != 6 {
				t.Errorf("%+v", r)
			}
			if n := strings.Count(progress.String(), "round"); n != 2 {
				t.Errorf("progress: %s", progress.String())
			}
			var text bytes.Buffer
			if err := r.print(&text); err != nil || !strings.Contains(text.String(), "0.97, 0.69") || !strings.Contains(text.String(), "0.54, 0.02") {
				t.Error(err, text.String())
			}
			svg, err := os.ReadFile(w.svg)
			if err != nil || strings.Count(string(svg), "<circle") != 12 {
				t.Error(err, string(svg))
			}
			if err := xml.Unmarshal(svg, new(struct{})); err != nil {
				t.Error(err)
			}
		})
	}
}

// parse parses a command line, as main does.
func parse(args ...string) (*wanted, error) {
	set := flag.NewFlagSet("serve", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	w := define(set)
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	return w, w.check(set.Args())
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-rounds", "0"}, "rounds are 1 or more"},
		{[]string{"-o", "xml"}, `-o is text or json, and was given "xml"`},
		{[]string{"x"}, `serve takes no argument, and was given "x"`},
		{[]string{"-none"}, "flag provided but not defined"},
	} {
		if _, err := parse(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// TestServes: -addr deploys both models and serves until ctx ends.
func TestServes(t *testing.T) {
	ctx, cancel := context.WithCancel(testkit.New(t).Context())
	defer cancel()
	w := wanted{seed: 1, addr: "nowhere:none"}
	if err := w.serve(ctx); err == nil || !strings.Contains(err.Error(), "serve HTTP at nowhere:none") {
		t.Error(err)
	}
	w.addr = "127.0.0.1:0"
	ended := make(chan error, 1)
	go func() { ended <- w.serve(ctx) }()
	small := w.small("v1", 0)
	url := listen(ctx, t, newFront(1).handler()) // any front serves what is deployed
	for _, version := range []string{"", "?version=v2"} {
		if code, text, _ := request(t, http.MethodPost, url+"/models/small"+version, observation(small, 1)); code != http.StatusOK {
			t.Error(code, text)
		}
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
