package main

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/garboard-dev/garboard/pkg/controller/packagerepository"
	"github.com/garboard-dev/garboard/pkg/fetch"
	"github.com/garboard-dev/garboard/pkg/pipeline"
	"github.com/garboard-dev/garboard/pkg/repository/offer"
	"github.com/garboard-dev/garboard/pkg/template"
	"github.com/garboard-dev/garboard/pkg/track"
)

const (
	// repositoryWorkers is how many PackageRepositories are reconciled at a time.
	// There are few, and each may wait for its registry.
	repositoryWorkers = 5
	// packageWriters is how many requests each of them makes at a time: with more
	// the API server does not get done earlier.
	packageWriters = 16
)

// setUpRepositories adds the controller of PackageRepositories. It writes packages
// with the controller's own rights and does not need the packaging API for that.
func setUpRepositories(mgr manager.Manager, o Options, with shared) error {
	_, kube, err := newKube(mgr, o)
	if err != nil {
		return err
	}
	objects := track.NewObjects(kube)
	fetcher := fetch.New(objects)
	r := packagerepository.New(packagerepository.Config{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Objects: objects,
		Pipeline: pipeline.Pipeline{
			Workspaces: workspaces{with.tools}, Fetch: fetcher, Now: time.Now, ToolTimeout: o.ToolTimeout, Memory: with.memory,
		},
		Resolver:  fetcher,
		Templater: template.New(objects),
		Store:     &offer.Store{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Writers: packageWriters},
		Forget:    with.tools.Forget, Settings: with.settings, Metrics: with.reconciles, Now: time.Now,
	})
	return r.SetupWithManager(mgr, repositoryWorkers)
}
