// Package storetest is the conformance suite of store.KV: what the shards rely on, as tests that run against every
// store. A store passes when the shards work on it.
package storetest
