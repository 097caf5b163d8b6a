// Package system turns a program into a node: it runs the tasks and grains that the program defined.
//
// Main is for programs that are nothing but a driver: it takes everything from RAYSYS_* variables, runs one function,
// and exits. New, Start and Close are for programs that own their main, such as a server: Node.Context makes a
// request's context one under which handlers submit tasks and call grains.
//
//	Main(func(ctx) error)          New(Config) ── Start(ctx) ── Context(ctx) ... Close(ctx)
//	        └──────────────┬───────────────┘
//	                      Node: task engine, grain engine, object store, timing wheel, actor system
//	                       │
//	                       └─ Config.Cluster: membership, links to the other nodes, shards
//
// Without Config.Cluster (RAYSYS_CONSUL) the system is this one process. With it the node joins the cluster of that name
// in Consul: as a Worker it runs tasks and hosts grains for all, as a Driver it submits, and Both does both. The program
// is the same. What a grains.State holds is kept by the store: Consul in a cluster; alone the folder Config.Data
// (RAYSYS_DATA), or memory where none is given.
//
// A task or grain goes to a node that has its function, its resources and its labels; of those package placement chooses
// by load, by the bytes that would have to move, or by the strategy asked for. Node.Drain empties a node before it
// leaves, Node.Status tells what the cluster looks like from here.
//
// Rules: New freezes the function table and reports every bad definition at once, with file and line; Close cancels what
// runs, deactivates the grains and waits.
//
//	n, err := system.New(system.Config{})
//	...
//	err = n.Start(ctx)
//	defer n.Close(context.Background())
//	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
//		v, err := square.Go(n.Context(r.Context()), 7).Get(n.Context(r.Context()))
//		...
//	})
//
// It starts no processes: `raysys node` keeps a worker running, and docs/operating.md says how to run a cluster.
package system
