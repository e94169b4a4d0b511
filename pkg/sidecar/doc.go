// Package sidecar runs fetch and template tools in a process of their own, which
// has no API credentials, and gives the controller access to them over a unix
// socket.
//
// All files belong to the sidecar: the controller opens a workspace, sends small
// files in, runs tools on them, gets their output and closes it, and never opens a
// fetched file itself. The gate in allow.go says which tools may run with which
// arguments; the sandbox sees to it that a tool which breaks out of its own rules
// reaches nothing but its workspace. A workspace lives as long as its connection,
// so a controller that dies leaves nothing behind.
package sidecar
