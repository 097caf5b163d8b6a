// Package natskey has the key of a cluster's store that says where its NATS servers are: its name and its form, which
// `raysys local` or an operator writes, and which nodes and `raysys doctor` read.
//
//	raysys/default/nats = {"url": "nats://10.0.0.5:4222,nats://10.0.0.6:4222", "token": "..."}
package natskey
