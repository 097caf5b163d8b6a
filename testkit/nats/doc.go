// Command nats builds the NATS server that testkit.NATS and `raysys local` start:
//
//	go run github.com/raysys/raysys/testkit/nats -o bin/nats-server
//
// It works in any module that requires raysys, needs nothing but the go command, and takes a minute the first time.
package main
