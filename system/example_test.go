package system_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// A program that owns its main makes a node, starts it and closes it.
func Example() {
	n, err := system.New(system.Config{Name: "web-1", Table: table})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := n.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())
	fmt.Println(twice.Go(ctx, 21).Get(ctx))
	// Output: 42 <nil>
}

// Main is all that a program needs which is nothing but a driver. It exits when the function returns.
func ExampleMain() {
	main := func() {
		system.Main(func(ctx context.Context) error {
			v, err := mainSquare.Go(ctx, 7).Get(ctx)
			fmt.Println(v)
			return err
		})
	}
	_ = main
	// Output:
}

// A program whose work comes over HTTP serves until it is told to end. -addr has its value: Main has parsed the flags.
func ExampleServe() {
	main := func() {
		addr := flag.String("addr", "127.0.0.1:8080", "address to serve at")
		http.HandleFunc("GET /square/{x}", func(w http.ResponseWriter, r *http.Request) {
			x, _ := strconv.Atoi(r.PathValue("x"))
			v, err := mainSquare.Go(r.Context(), x).Get(r.Context())
			fmt.Fprintln(w, v, err)
		})
		system.Main(func(ctx context.Context) error { return system.Serve(ctx, *addr, nil) })
	}
	_ = main
	// Output:
}

// A test, or a program that does not mind the port, listens by itself.
func ExampleServeListener() {
	err := system.Run(context.Background(), system.Config{Table: table}, func(ctx context.Context) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		served := make(chan error, 1)
		go func() {
			served <- system.ServeListener(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				v, err := twice.Go(r.Context(), 21).Get(r.Context())
				fmt.Fprint(w, v, err)
			}))
		}()
		r, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			return err
		}
		io.Copy(os.Stdout, r.Body)
		r.Body.Close()
		cancel()
		return <-served
	})
	fmt.Println(err)
	// Output: 42 <nil><nil>
}

var (
	auditBegins = make(chan struct{})
	// audit is a task that goes on until it is cancelled.
	audit = tasks.DefineIn(table, "audit", func(ctx context.Context, days int) (string, error) {
		close(auditBegins)
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
)

// Tasks, Grains, Get and Cancel are what the commands raysys list, get and cancel ask, and work in one process too.
func ExampleNode_Tasks() {
	n, err := system.New(system.Config{Name: "web-1", Table: table, Resources: raysys.Resources{CPU: 2}})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := n.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())
	job := audit.With(raysys.Detached("nightly")).Go(ctx, 7)
	<-auditBegins

	running, err := n.Tasks(ctx, inspect.TaskQuery{State: inspect.TaskRunning})
	for _, t := range running.Tasks {
		fmt.Println(t.Function, t.Name, t.Node, t.State, err)
	}
	grains, err := n.Grains(ctx, inspect.GrainQuery{Limit: 10})
	fmt.Println(grains.Count, err)

	found, err := n.Get(ctx, "nightly") // or an id, its first digits, or the KIND/KEY of a grain
	for _, t := range found.Things {
		fmt.Println(t.Kind, t.Name, t.Value.State, err)
	}
	_, err = n.Get(ctx, "weekly")
	fmt.Println(errors.Is(err, raysys.ErrNotFound))

	ended, err := n.Cancel(ctx, "nightly")
	fmt.Println(ended.Kind, ended.Name, err)
	_, err = job.Get(ctx)
	fmt.Println(errors.Is(err, raysys.ErrCancelled))
	// Output:
	// audit nightly web-1 running <nil>
	// 0 <nil>
	// job nightly pending <nil>
	// true
	// job nightly <nil>
	// true
}

// A program that looks after a cluster starts a task of another program, and restarts a worker, as raysys start and raysys restart do.
func ExampleNode_StartTask() {
	after := func(ctx context.Context, n *system.Node) error {
		job, err := n.StartTask(ctx, inspect.StartQuery{Function: "main.report", Argument: []byte(`{"Day": "monday"}`), Name: "report-monday"})
		if err != nil {
			return err
		}
		fmt.Println(job.Name, job.Node, job.Joined)

		incarnation, err := n.RestartNode(ctx, "n1", false)
		if err != nil {
			return err
		}
		_, err = n.AwaitDrained(ctx, "n1", incarnation) // it has left, and raysys node starts its program again
		return err
	}
	n, err := system.New(system.Config{Name: "web-1", Table: table})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(after(context.Background(), n))
	// Output: start main.report: the node is in no cluster: set RAYSYS_CONSUL
}

func ExampleNew() {
	_, err := system.New(system.Config{Table: raysys.NewTable(), QueueTasks: -1})
	fmt.Println(err)
	// Output: new system: Config.QueueTasks is -1: give 0 (the default) or more
}

func ExampleFromEnv() {
	os.Setenv("RAYSYS_CPU", "many")
	defer os.Unsetenv("RAYSYS_CPU")
	_, err := system.FromEnv()
	fmt.Println(err)
	// Output: RAYSYS_CPU="many": give a number of 0 or more
}

// A node with HTTP serves its metrics, and its health to what watches over it.
func ExampleConfig() {
	main := func() {
		n, err := system.New(system.Config{HTTP: "127.0.0.1:9464", Table: table})
		if err != nil {
			fmt.Println(err)
			return
		}
		n.Start(context.Background())
		defer n.Close(context.Background())
		r, err := http.Get("http://127.0.0.1:9464/readyz")
		if err != nil {
			fmt.Println(err)
			return
		}
		defer r.Body.Close()
		fmt.Println(r.Status) // 200 OK
	}
	_ = main // other tests may have the port
	// Output:
}

func ExampleNode_Start() {
	n, _ := system.New(system.Config{Table: table})
	fmt.Println(n.Start(context.Background()))
	fmt.Println(n.Start(context.Background()))
	n.Close(context.Background())
	// Output:
	// <nil>
	// start node: it is started
}

func ExampleNode_Context() {
	n, _ := system.New(system.Config{Table: table})
	n.Start(context.Background())
	defer n.Close(context.Background())

	request, cancel := context.WithCancel(context.Background())
	ctx := n.Context(request) // in a server: r.Context()
	fmt.Println(twice.Go(ctx, 1).Get(ctx))
	cancel() // the client went away, and what runs for it ends
	fmt.Println(ctx.Err())
	// Output:
	// 2 <nil>
	// context canceled
}

func ExampleNode_Close() {
	n, _ := system.New(system.Config{Table: table})
	n.Start(context.Background())
	ctx := n.Context(context.Background())
	fmt.Println(n.Close(context.Background()))
	_, err := twice.Go(ctx, 1).Get(ctx)
	fmt.Println(errors.Is(err, raysys.ErrClosed))
	// Output:
	// <nil>
	// true
}

func ExampleNode_Name() {
	n, _ := system.New(system.Config{Name: "web-1", Namespace: "shop", Table: table})
	fmt.Println(n.Name(), n.Namespace())
	// Output: web-1 shop
}

func ExampleNode_Job() {
	a, _ := system.New(system.Config{Seed: 7, Table: table})
	b, _ := system.New(system.Config{Seed: 7, Table: table})
	fmt.Println(a.Job() == b.Job()) // so all ids repeat
	// Output: true
}

func ExampleNode_Resources() {
	n, _ := system.New(system.Config{Resources: raysys.Resources{CPU: 4, GPU: 0.5, Memory: 64}, Table: table})
	fmt.Println(n.Resources())
	// Output: CPU 4, GPU 0.5, Memory 64 B
}

func ExampleNode_Actors() {
	n, _ := system.New(system.Config{Table: table})
	n.Start(context.Background())
	defer n.Close(context.Background())
	ctx := n.Context(context.Background())
	add.Call(ctx, counters.Get("alice"), 1).Get(ctx)
	for _, bucket := range n.Actors().ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range bucket.Keys() {
			if strings.HasPrefix(id, "counter/") {
				fmt.Println("a PID for", id[:strings.IndexByte(id, '$')])
			}
		}
	}
	// Output: a PID for counter/alice
}
