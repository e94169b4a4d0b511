// Package outage tests that clients of the packaging API notice as little as can be
// when parts of a cluster fail. It breaks what all tests of a package share, so it
// has a control plane of its own.
package outage

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	data "github.com/garboard-dev/garboard/pkg/apis/datapackaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// What all tests share; TestMain sets them.
var (
	env      *testenv.Env
	garboard *testenv.Garboard
	kube     client.WithWatch
)

// patience bounds every wait.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Nodes: 1}, func(ctx context.Context, e *testenv.Env) (err error) {
		if garboard, err = e.StartGarboard(ctx, testenv.GarboardOptions{}); err != nil {
			return err
		}
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{data.AddToScheme, v1alpha1.AddToScheme} {
			if err := add(scheme); err != nil {
				return err
			}
		}
		kube, err = client.NewWithWatch(e.Config(), client.Options{Scheme: scheme})
		return err
	})
}
