// Package deploy tests the files of the folder deploy as those read them for whom they are: systemd, Prometheus,
// Kubernetes, and a container's kernel. It is a module of its own, so that nobody who uses raysys gets the types of
// Kubernetes. `make test-deploy` runs it; what needs a tool that is not there, or root, is skipped with a line.
package deploy
