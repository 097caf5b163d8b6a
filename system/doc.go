// Package system turns a program into a node: it runs the tasks and grains that the program defined.
//
// Main is for programs that are nothing but a driver: it takes everything from RAYSYS_* variables, runs one function,
// and exits. New, Start and Close are for programs that own their main, such as a server: Node.Context makes a
// request's context one under which handlers submit tasks and call grains.
//
//	Main(func(ctx) error)          New(Config) ── Start(ctx) ── Context(ctx) ... Close(ctx)
//	        └──────────────┬───────────────┘
//	                      Node: task engine, grain engine, timing wheel, actor system
//
// Rules: New freezes the function table and reports every bad definition at once, with file and line; Close cancels what
// runs, deactivates the grains and waits.
//
//	node, err := system.New(system.Config{})
//	...
//	err = node.Start(ctx)
//	defer node.Close(context.Background())
//	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
//		v, err := square.Go(node.Context(r.Context()), 7).Get(node.Context(r.Context()))
//		...
//	})
//
// State is in memory and the system is one process: RAYSYS_CONSUL, which asks for a cluster, is an error.
package system
