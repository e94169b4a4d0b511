// Package repository decides what a PackageRepository offers: it reads what was
// fetched, says which object belongs to whom when two repositories offer the same
// one, and what has to be written. It sees values only; package offer acts.
//
// # Who writes, and in which form
//
// kapp-controller deploys the packages of a repository with kapp, through the
// aggregated API. Every sync lists and compares all of them, and every write is a
// request to the controller itself, which makes another one to the API server: 500
// packages take half a minute. Garboard writes the stored objects, InternalPackage
// and InternalPackageMetadata, itself: several at a time, only those that differ
// from what its watch shows, so that N changed packages cost N requests and an
// unchanged repository none.
//
// What is written is equal to what kapp writes, byte by byte where it matters: the
// same four annotations, kapp's two labels and its annotation for the identity.
// kapp's record of the app, the ConfigMap NAME.pkgr, gives the value of the label;
// where there is none one is made, once. So
//
//   - what kapp-controller left is taken over without a write, and
//   - a kapp-controller that comes back finds its record and its objects: its
//     deploy changes nothing, and its delete finds all packages.
//
// The history of kapp's changes is not continued. What is left of it goes when the
// repository is deleted.
package repository
