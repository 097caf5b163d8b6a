package metrics

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// profiles are /debug/pprof/ of net/http/pprof, for go tool pprof and go tool trace. That package itself is not used: whoever imports it has
// profiles in http.DefaultServeMux, which a program of the user's may serve to anybody. Who may ask is decided by whoever serves the Handler.
func profiles(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "profile?seconds=30\ntrace?seconds=1\n")
		for _, p := range pprof.Profiles() {
			fmt.Fprintf(w, "%s?debug=1 (%d)\n", p.Name(), p.Count())
		}
	})
	mux.HandleFunc("GET /debug/pprof/profile", record(30, pprof.StartCPUProfile, pprof.StopCPUProfile))
	mux.HandleFunc("GET /debug/pprof/trace", record(1, trace.Start, trace.Stop))
	mux.HandleFunc("GET /debug/pprof/{name}", func(w http.ResponseWriter, r *http.Request) {
		p := pprof.Lookup(r.PathValue("name"))
		if p == nil {
			http.Error(w, "no such profile: see /debug/pprof/", http.StatusNotFound)
			return
		}
		if p.Name() == "heap" && r.FormValue("gc") != "" {
			runtime.GC()
		}
		debug, _ := strconv.Atoi(r.FormValue("debug"))
		if debug == 0 {
			w.Header().Set("Content-Type", "application/octet-stream")
		}
		_ = p.WriteTo(w, debug) // the caller is gone
	})
}

// record has what start begins written for the seconds that the caller asks for, or until the caller is gone.
func record(seconds float64, start func(io.Writer) error, stop func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		long := seconds
		if v := r.FormValue("seconds"); v != "" {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil || !(n > 0 && n <= maxSeconds) {
				http.Error(w, fmt.Sprintf("seconds=%q: give a number above 0, at most %d", v, maxSeconds), http.StatusBadRequest)
				return
			}
			long = n
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		to, end := http.NewResponseController(w), time.Now().Add(time.Duration(long*float64(time.Second))+writeLimit)
		_, _ = to.SetReadDeadline(end), to.SetWriteDeadline(end) // those of the server may be sooner
		if err := start(w); err != nil {                         // it runs already, for another caller or for the program
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		defer stop()
		t := time.NewTimer(time.Duration(long * float64(time.Second)))
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
	}
}

// writeLimit is how long a recording that has ended may take to be written.
const writeLimit = 30 * time.Second

// maxSeconds bounds a recording, which costs the program time.
const maxSeconds = 600
