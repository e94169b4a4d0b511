package main

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/garboard-dev/garboard/pkg/access"
	packaging "github.com/garboard-dev/garboard/pkg/apis/packaging/v1alpha1"
	"github.com/garboard-dev/garboard/pkg/controller/packageinstall"
)

// setUpInstalls adds the controller of PackageInstalls. It reads Packages as they
// are stored and does not need the packaging API for that.
func setUpInstalls(ctx context.Context, mgr manager.Manager, o Options, with shared) error {
	cfg, kube, err := newKube(mgr, o)
	if err != nil {
		return err
	}
	identities := access.New(cfg, kube, access.Options{CAData: o.CAData})
	r := packageinstall.New(packageinstall.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), GlobalNamespace: o.GlobalNamespace,
		ControllerVersion: compatibleVersion,
		KubernetesVersion: func(ctx context.Context, pkgi *packaging.PackageInstall) (string, error) {
			req := access.Request{Namespace: pkgi.Namespace, ServiceAccountName: pkgi.Spec.ServiceAccountName, Cluster: pkgi.Spec.Cluster}
			return identities.Facts(req, compatibleVersion).KubernetesVersion(ctx)
		},
		Settings: with.settings, Metrics: with.reconciles, Now: time.Now, Concurrency: o.Concurrency,
	})
	return r.SetupWithManager(ctx, mgr)
}
