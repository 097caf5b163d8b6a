package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const limit = 2 * time.Minute // of a busy machine

// shop is a client.
type shop struct{ url string }

// open serves until the test ends, or stop is called.
func open(t *testing.T, ctx context.Context) (s shop, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- system.ServeListener(ctx, l, handler(ctx)) }()
	stop = sync.OnceFunc(func() {
		http.DefaultClient.CloseIdleConnections()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return shop{"http://" + l.Addr().String()}, stop
}

// do makes a request, and returns the code and the body of the answer.
func (s shop) do(method, path, body string) (int, string, error) {
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, string(b), err
}

// order posts an order, and returns its number.
func (s shop) order(customer string, amount int) (seq uint64, err error) {
	code, body, err := s.do("POST", "/orders/"+url.PathEscape(customer), fmt.Sprintf(`{"item": "book", "amount": %d}`, amount))
	if err != nil || code != http.StatusCreated {
		return 0, fmt.Errorf("%d %s %w", code, body, err)
	}
	var a struct{ Seq uint64 }
	err = json.Unmarshal([]byte(body), &a)
	return a.Seq, err
}

// list gets the events of /orders/alice, or another path.
func (s shop) list(path string) (list []line, err error) {
	code, body, err := s.do("GET", path, "")
	if err != nil || code != http.StatusOK {
		return nil, fmt.Errorf("%d %s %w", code, body, err)
	}
	for d := json.NewDecoder(strings.NewReader(body)); d.More(); {
		var l line
		if err := d.Decode(&l); err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

// becomes waits until a path answers that.
func (s shop) becomes(t *testing.T, path, want string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s answered %s, want %s", path, last, want)
		}
	}()
	testkit.Eventually(t, limit, path, func() bool {
		code, body, err := s.do("GET", path, "")
		last = fmt.Sprint(code, " ", body, err)
		return err == nil && code == http.StatusOK && body == want+"\n"
	})
}

// days has what the audits of these orders shall be.
func days(lists ...[]line) map[string]Totals {
	m := map[string]Totals{}
	for _, list := range lists {
		for _, l := range list {
			d := l.Time.UTC().Format(time.DateOnly)
			m[d] = Totals{m[d].Orders + 1, m[d].Amount + l.Amount}
		}
	}
	return m
}

func (s shop) audited(t *testing.T, want map[string]Totals) {
	t.Helper()
	for d, w := range want {
		s.becomes(t, "/audits/"+d, fmt.Sprintf(`{"orders":%d,"amount":%d}`, w.Orders, w.Amount))
	}
}

func TestAlone(t *testing.T) {
	s, _ := open(t, testkit.New(t).Context())
	if _, err := s.order("bob & sons/2", 5); err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for _, amount := range []int{30, 12, auditLimit + 1} {
		seq, err := s.order("alice", amount)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, seq)
	}
	s.becomes(t, "/accounts/alice", `{"balance":10043}`)
	s.becomes(t, "/accounts/bob%20&%20sons%2F2", `{"balance":5}`)
	s.becomes(t, "/accounts/nobody", `{"balance":0}`)

	all, err := s.list("/orders/alice")
	if err != nil || len(all) != 3 || all[0].Seq != seqs[0] || all[0].Item != "book" || all[1].Amount != 12 {
		t.Fatal(all, err)
	}
	if list, err := s.list(fmt.Sprint("/orders/alice?from=", seqs[1])); err != nil || len(list) != 2 || list[0].Amount != 12 {
		t.Error(list, err)
	}
	if list, err := s.list("/orders/nobody"); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
	bob, err := s.list("/orders/bob%20&%20sons%2F2")
	if err != nil {
		t.Fatal(err)
	}
	s.audited(t, days(all[:2], bob)) // all but the one that it refuses
	var parked []line
	testkit.Eventually(t, limit, "an order is parked", func() bool {
		parked, err = s.list("/parked/alice")
		return err == nil && len(parked) > 0
	})
	if len(parked) != 1 || parked[0].Amount != auditLimit+1 || !strings.Contains(parked[0].Reason, "above 10000") {
		t.Error(parked)
	}
}

func TestBadRequests(t *testing.T) {
	s, _ := open(t, testkit.New(t).Context())
	for _, c := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", "/orders/alice", `{"item": "book"}`, 400},
		{"POST", "/orders/alice", `{"amount": 30}`, 400},
		{"POST", "/orders/alice", `{"item": "book", "amount": -1}`, 400},
		{"POST", "/orders/alice", `{`, 400},
		{"POST", "/orders/alice", `{"item": "` + strings.Repeat("x", maxBody) + `", "amount": 1}`, 400},
		{"POST", "/orders/" + strings.Repeat("x", 300), `{"item": "book", "amount": 30}`, 413},
		{"GET", "/orders/alice?from=x", "", 400},
		{"GET", "/orders/" + strings.Repeat("x", 300), "", 413},
	} {
		if code, body, err := s.do(c.method, c.path, c.body); code != c.code || err != nil {
			t.Errorf("%s %.40s %.40s: %d %q %v, want %d", c.method, c.path, c.body, code, body, err, c.code)
		}
	}
	if list, err := s.list("/orders/alice"); err != nil || len(list) != 0 {
		t.Error(list, err)
	}
}

// TestFollows: a reader that follows gets the orders that come, and ends when the shop does.
func TestFollows(t *testing.T) {
	s, stop := open(t, testkit.New(t).Context())
	r, err := http.Get(s.url + "/orders/alice?follow=1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewReader(r.Body)
	for amount := range 3 {
		if _, err := s.order("alice", amount+1); err != nil {
			t.Fatal(err)
		}
		b, err := lines.ReadBytes('\n')
		if err != nil || !bytes.Contains(b, fmt.Appendf(nil, `"amount":%d`, amount+1)) {
			t.Fatalf("%s %v", b, err)
		}
	}
	stop()
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%s %v", rest, err)
	}
}

// TestFaults: a worker dies, the NATS server dies, and each order that the shop has acknowledged counts once.
func TestFaults(t *testing.T) {
	nats := testkit.NATS(t, testkit.NATSSyncAlways())
	p := testkit.Processes(t, 3, testkit.Env("RAYSYS_NATS="+nats.URL()), testkit.Config(system.Config{NATS: system.NATS{URL: nats.URL()}}))
	s, _ := open(t, p.Context())

	customers := []string{"alice", "bob", "carol", "dave"}
	acked := make([][]uint64, len(customers)) // of each, the number of the order of amount i+1
	// post has each customer order n times. It returns when one of them is half way; wait, when all are done.
	post := func(n int) (wait func()) {
		var clients sync.WaitGroup
		half := make(chan struct{}, len(customers))
		for c, name := range customers {
			clients.Go(func() {
				for i := range n {
					amount := len(acked[c]) + 1
					seq, err := s.order(name, amount)
					for err != nil { // it may be there twice, but was acknowledged once
						t.Logf("%s %d: %v: it is tried again", name, amount, err)
						seq, err = s.order(name, amount)
					}
					acked[c] = append(acked[c], seq)
					if i == n/2 {
						half <- struct{}{}
					}
				}
			})
		}
		<-half
		return clients.Wait
	}
	post(20)()
	wait := post(60)
	p.Proc(1).Restart()
	wait()
	wait = post(60)
	nats.Kill(1)
	nats.Start(1)
	wait()
	p.Ready()
	post(20)()

	var lists [][]line
	var sums []int
	for c, name := range customers {
		list, err := s.list("/orders/" + name)
		if err != nil {
			t.Fatal(err)
		}
		sum, next := 0, 0 // next is the acknowledged order that comes
		for i, l := range list {
			if i > 0 && l.Seq <= list[i-1].Seq {
				t.Errorf("%s: order %d comes after %d", name, l.Seq, list[i-1].Seq)
			}
			switch {
			case next == len(acked[c]) || l.Amount != next+1:
				t.Errorf("%s: order %d of %d, want that of %d", name, l.Seq, l.Amount, next+1)
			case l.Seq == acked[c][next]:
				next++
			default:
				t.Logf("%s: order %d of %d was stored and not acknowledged", name, l.Seq, l.Amount)
			}
			sum += l.Amount
		}
		if next != len(acked[c]) {
			t.Errorf("%s: %d of %d acknowledged orders are there", name, next, len(acked[c]))
		}
		lists, sums = append(lists, list), append(sums, sum)
	}
	s.audited(t, days(lists...))
	for c, name := range customers {
		s.becomes(t, "/accounts/"+name, fmt.Sprintf(`{"balance":%d}`, sums[c]))
		if list, err := s.list("/parked/" + name); err != nil || len(list) != 0 {
			t.Error(list, err)
		}
	}
}

// TestParked: the orders behind one that an audit refuses are audited.
func TestParked(t *testing.T) {
	s, _ := open(t, testkit.New(t).Context())
	for _, amount := range []int{30, auditLimit + 1, 12} {
		if _, err := s.order("alice", amount); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.list("/orders/alice")
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	s.audited(t, days(all[:1], all[2:]))
	if parked, err := s.list("/parked/alice"); err != nil || len(parked) != 1 {
		t.Error(parked, err)
	}
}
