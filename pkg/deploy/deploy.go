// Package deploy holds what is said to kapp and what it answers, without kapp:
// requests, results, allowed options, arguments, and the cleaning of output.
package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/status"
)

// Prefixes of the error texts of the three runs.
const (
	Deploying  = "Deploying: "
	Deleting   = "Deleting: "
	Inspecting = "Inspecting: "
)

// Target is the cluster to deploy to, seen by an identity. It has the fields of
// access.Target in the same order, so that one converts to the other.
type Target struct {
	Config *rest.Config
	HTTP   *http.Client
	// Key names the pair of cluster and identity.
	Key string
	// Namespace and AppNamespace are kapp's --namespace and --app-namespace;
	// empty leaves the option out.
	Namespace, AppNamespace string
}

// RecordNamespace is the namespace that holds kapp's records.
func (t Target) RecordNamespace() string {
	if t.AppNamespace != "" {
		return t.AppNamespace
	}
	return t.Namespace
}

// Request says what to deploy, delete or inspect.
type Request struct {
	// Name is the object's, Suffix tells its kind: ".app" or ".pkgr".
	Name, Suffix string
	Target       Target
	// Manifest is the YAML to deploy.
	Manifest []byte
	Kapp     v1alpha1.AppDeployKapp
	// GlobalRawOptions come before the App's own, which therefore win.
	GlobalRawOptions []string
	// Progress is called from one goroutine while kapp runs, at most every 200 ms
	// and only after the output changed. It may be nil and must not block long.
	Progress func(Progress)
	// Waiting is called with false before kapp first changes objects, with true when it
	// has applied what it could and only waits for the cluster, and with false when it
	// goes on to apply. All may repeat. It may be nil and must not block.
	Waiting func(bool)
}

// Progress is the output of a run so far.
type Progress struct {
	Stdout, Stderr string
	// Applying says that kapp began to change the cluster.
	Applying bool
}

// Result is the outcome of a run.
type Result struct {
	status.Stage
	// Kapp is what kapp recorded; nil: nothing, so what was known stays.
	Kapp *v1alpha1.KappDeployStatus
}

// Func is a run: the shape of Deploy, Delete and Inspect.
type Func func(context.Context, Request) Result

// longestName bounds kapp's name of an App: kapp appends up to 13 characters to
// it in the names of its records, and the API server takes no more than 253.
const (
	longestName   = 245
	shortenedName = 240
	digestLength  = 16
)

// AppName is kapp's name for the object: its name and suffix. A name that would
// not fit is cut and made unique by a digest.
func AppName(name, suffix string) string {
	if len(name)+len(suffix) <= longestName {
		return name + suffix
	}
	sum := sha256.Sum256([]byte(name))
	digest := hex.EncodeToString(sum[:])[:digestLength]
	return name[:shortenedName-len(suffix)-1-digestLength] + "-" + digest + suffix
}
