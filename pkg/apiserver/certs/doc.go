// Package certs keeps the certificate that the packaging API serves with, and tells
// kube-apiserver whom to trust.
//
// A Secret holds one CA and one serving certificate for all instances. The leader
// makes and renews both and writes the bundle of CAs into the APIService; every
// instance serves what the Secret holds. While a CA is replaced, the bundle has the
// old one too, and nobody serves a certificate before its CA is in the bundle: at
// every moment each instance is trusted.
package certs
