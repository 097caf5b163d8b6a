package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// throughput is what one model serves beside what it could.
type throughput struct {
	Ceiling float64 `json:"ceiling"` // observations a second of the model alone, in a loop
	Rate    float64 `json:"rate"`    // of the model as it is served
	Ratio   float64 `json:"ratio"`   // the median of the rounds, over all nodes that serve it
	Nodes   int     `json:"nodes"`
}

// ceiling runs the model alone: full batches, one after the other.
func ceiling(r release, batches int, obs []byte) float64 {
	batch := slices.Repeat([][]byte{obs}, batchSize)
	began := time.Now()
	for range batches {
		r.run(batch, func(int, int, error) {})
	}
	return float64(batches*batchSize) / time.Since(began).Seconds()
}

// served has four batches of callers for each node ask again and again, until so many batches are answered.
func served(ctx context.Context, r release, batches, nodes int, obs []byte) (rate float64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	g, callers := servers.Get(r.Model+"@"+r.Version), 4*nodes*batchSize
	each := max(batches*nodes*batchSize/callers, 1)
	var wg sync.WaitGroup
	began := time.Now()
	for i := range callers {
		caller := raysys.Branch(ctx, i)
		wg.Go(func() {
			for range each {
				if _, err := infer.Call(caller, g, obs).Get(caller); err != nil {
					cancel(fmt.Errorf("caller %d: %w", i, err))
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	return float64(callers*each) / took.Seconds(), nil
}

// compare measures both in turn, so that what else the machine does meets both.
func compare(ctx context.Context, r release, rounds, batches int, seed uint64, progress io.Writer) (t throughput, err error) {
	nodes, err := warm(ctx, r)
	if err != nil {
		return t, err
	}
	t.Nodes = len(nodes)
	obs := observation(r, seed)
	var alone, rates, ratios []float64
	for i := range rounds {
		c := ceiling(r, batches, obs)
		s, err := served(ctx, r, batches, t.Nodes, obs)
		if err != nil {
			return t, err
		}
		ratio := s / c / float64(t.Nodes)
		fmt.Fprintf(progress, "%s, round %d of %d: %.0f observations/s, alone %.0f, ratio %.3f\n", r.Model, i+1, rounds, s, c, ratio)
		alone, rates, ratios = append(alone, c), append(rates, s), append(ratios, ratio)
	}
	t.Ceiling, t.Rate, t.Ratio = median(alone), median(rates), median(ratios)
	return t, nil
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

// observation is one that is drawn from seed.
func observation(r release, seed uint64) []byte {
	rng, obs := rand.New(rand.NewPCG(seed, 1)), make([]byte, 4*r.Inputs)
	for i := range obs {
		if obs[i] = byte(rng.Uint32()); i%4 == 3 {
			obs[i] = 63 // the exponent: a number near 1
		}
	}
	return obs
}

// point is how a load went, over HTTP.
type point struct {
	Load    float64 `json:"load"` // over the ceiling
	Rate    float64 `json:"rate"` // answered a second
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	Refused float64 `json:"refused"` // share of 429
}

// loads sends requests at times of their own, as clients that know nothing of each other do: late ones count from when they were due.
func loads(ctx context.Context, f *front, r release, per float64, at []float64, length time.Duration, seed uint64, progress io.Writer) ([]point, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- system.ServeListener(serving, l, f.handler()) }()
	defer func() {
		stop()
		<-served
	}()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096, MaxConnsPerHost: 4096}}
	defer client.CloseIdleConnections()
	url, obs := "http://"+l.Addr().String()+"/models/"+r.Model, observation(r, seed)
	var list []point
	for _, load := range at {
		p, err := loadOnce(ctx, client, url, obs, load*per, length, rand.New(rand.NewPCG(seed, uint64(load*1000))))
		if err != nil {
			return nil, err
		}
		p.Load = load
		list = append(list, p)
		fmt.Fprintf(progress, "load %.2f: %.0f answered a second, p50 %.1f ms, p99 %.1f ms, %.1f %% refused\n", load, p.Rate, p.P50, p.P99, 100*p.Refused)
	}
	return list, nil
}

// loadOnce sends rate requests a second for so long.
func loadOnce(ctx context.Context, client *http.Client, url string, obs []byte, rate float64, length time.Duration, rng *rand.Rand) (p point, err error) {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex // guards the rest
		took    []float64
		refused int
	)
	began := time.Now()
	for due := time.Duration(0); due < length && ctx.Err() == nil; due += time.Duration(rng.ExpFloat64() / rate * float64(time.Second)) {
		<-time.After(due - time.Since(began))
		wg.Go(func() {
			code, e := ask(ctx, client, url, obs)
			ms := (time.Since(began) - due).Seconds() * 1e3
			mu.Lock()
			defer mu.Unlock()
			switch {
			case e == nil && code == http.StatusOK:
				took = append(took, ms)
			case e == nil && code == http.StatusTooManyRequests:
				refused++
			default:
				err = errors.Join(e, fmt.Errorf("a request was answered %d", code))
			}
		})
	}
	wg.Wait()
	if err = errors.Join(err, context.Cause(ctx)); err != nil || len(took) == 0 {
		return p, err
	}
	slices.Sort(took)
	at := func(q float64) float64 { return took[min(int(q*float64(len(took))), len(took)-1)] }
	return point{Rate: float64(len(took)) / time.Since(began).Seconds(), P50: at(0.5), P99: at(0.99), Refused: float64(refused) / float64(refused+len(took))}, nil
}

// ask makes one request.
func ask(ctx context.Context, client *http.Client, url string, obs []byte) (code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(obs))
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, err
}
