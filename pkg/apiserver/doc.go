// Package apiserver serves Packages and PackageMetadatas, group
// data.packaging.carvel.dev, as an API server behind kube-apiserver's aggregation.
//
// What it serves is stored as objects of group internal.packaging.carvel.dev. A
// store for each kind follows them by a watch and answers every read; writes go to
// the stored objects, and return when the store has seen them. A log of the latest
// events in each store serves the watches, each at its own pace.
//
// Into what a namespace shows, the packages of one global namespace are merged. Each
// event carries what the merge needs to know about its moment, so that a watch is as
// exact as a list.
package apiserver
