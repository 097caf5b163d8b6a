//go:build !second

package main

type total struct{ N int }
