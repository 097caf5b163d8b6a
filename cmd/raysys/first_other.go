//go:build !linux

package main

func asFirst([]string) (code int, first bool) { return 0, false }
