// Command consul builds the Consul server that testkit.Processes, testkit.Consul and `raysys local` start:
//
//	go run github.com/raysys/raysys/testkit/consul -o bin/consul
//
// It works in any module that requires raysys, needs nothing but the go command, and takes some minutes the first time.
package main
