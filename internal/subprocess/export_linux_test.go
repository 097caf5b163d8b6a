package subprocess

var (
	Children = children
	Listed   = listed
)
