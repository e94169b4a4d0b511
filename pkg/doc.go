// Package pkg is the architecture of Garboard in one page.
//
// One reconcile is: observe, decide, act, project, write.
//
//	controller/app   observes an App and what it names           (an effect)
//	plan             decides how much work that needs            (pure)
//	pipeline         acts: fetch, template, deploy, inspect      (effects, in that order)
//	status           projects what happened to what users read   (pure)
//	status/writer    writes it, once, if it changed              (an effect)
//
// A PackageRepository goes the same way, with stages of its own after the fetch:
// repository decides what is offered, repository/offer acts. A PackageInstall becomes
// an App: packages and resolve choose the version, controller/packageinstall writes
// the App. apiserver serves the Packages.
//
// Packages of Go form lines. Code imports only lines above its own in this list, and
// no sibling; layers_test.go holds the same list as data and fails otherwise.
//
//	apis                                                  types, no logic
//	tool, workdir, settings, metrics                      base
//	plan, refs, packages, resolve                         decisions, pure
//	status, repository                                    what users read; what is offered; pure
//	access, sidecar, fetch, template, deploy, track,
//	status/writer                                         one effect each
//	pipeline, repository/offer                            the stages in order; a repository's own
//	controller/..., apiserver                             entry points
//
// cmd/garboard alone knows all of them and reads flags and environment. A lower
// package that needs something of a higher one declares an interface, and cmd
// passes the value in.
//
// Two processes share the work. The controller holds API credentials, and deploys
// with kapp as a library; it runs no tools. The sidecar runs tools on content that
// nobody vouches for; it holds no credentials, and only it touches that content.
// They speak net/rpc over a unix socket: small files and tool output in memory,
// never a path.
package pkg
