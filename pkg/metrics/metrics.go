// Package metrics holds the Prometheus collectors that kapp-controller's users
// scrape, under the names and labels that they know.
package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reconciles counts and times reconciles per object. All series of an object are
// dropped when it is gone.
type Reconciles struct {
	attempts, successes, failures    *prometheus.CounterVec
	deleteAttempts, deleteFailures   *prometheus.CounterVec
	total, fetch, template, deployed *prometheus.GaugeVec
}

// Object is what a series is about.
type Object struct {
	// Kind is App, PackageInstall or PackageRepository.
	Kind            string
	Namespace, Name string
}

// Times are the durations of one reconcile; a stage that was not reached has 0
// and sets no gauge.
type Times struct {
	Total, Fetch, Template, Deploy time.Duration
	// First says that the object had never been reconciled before.
	First bool
}

// NewReconciles makes the collectors and registers them.
func NewReconciles(reg prometheus.Registerer) *Reconciles {
	object := []string{"controller", "name", "namespace"}
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "kappctrl", Name: name, Help: help}, object)
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "kappctrl", Name: name, Help: help}, append(object, "firstReconcile"))
		reg.MustRegister(g)
		return g
	}
	return &Reconciles{
		attempts:       counter("app_reconcile_attempt_total", "Reconciles that were begun."),
		successes:      counter("app_reconcile_success_total", "Reconciles that succeeded."),
		failures:       counter("app_reconcile_failure_total", "Reconciles that failed."),
		deleteAttempts: counter("app_reconcile_delete_attempt_total", "Deletes that were begun."),
		deleteFailures: counter("app_reconcile_delete_failed_total", "Deletes that failed."),
		total:          gauge("reconcile_time_seconds", "Duration of the latest reconcile."),
		fetch:          gauge("reconcile_fetch_time_seconds", "Duration of the latest fetch stage."),
		template:       gauge("reconcile_template_time_seconds", "Duration of the latest template stage."),
		deployed:       gauge("reconcile_deploy_time_seconds", "Duration of the latest deploy stage."),
	}
}

// Started counts a reconcile that begins, or a delete. It makes all counters of
// the object appear, with 0, so that a rate over them has a beginning. One that is
// ended because the object changed meanwhile is counted here and nowhere else.
func (r *Reconciles) Started(o Object, deleting bool) {
	l := o.labels()
	for _, c := range []*prometheus.CounterVec{r.attempts, r.successes, r.failures, r.deleteAttempts, r.deleteFailures} {
		c.With(l)
	}
	if deleting {
		r.deleteAttempts.With(l).Inc()
		return
	}
	r.attempts.With(l).Inc()
}

// Done counts how a reconcile ended and keeps how long it took.
func (r *Reconciles) Done(o Object, failed bool, t Times) {
	l := o.labels()
	if failed {
		r.failures.With(l).Inc()
	} else {
		r.successes.With(l).Inc()
	}
	l["firstReconcile"] = strconv.FormatBool(t.First)
	r.total.With(l).Set(t.Total.Seconds())
	for gauge, d := range map[*prometheus.GaugeVec]time.Duration{r.fetch: t.Fetch, r.template: t.Template, r.deployed: t.Deploy} {
		if d > 0 {
			gauge.With(l).Set(d.Seconds())
		}
	}
}

// DeleteFailed counts a delete that failed.
func (r *Reconciles) DeleteFailed(o Object) { r.deleteFailures.With(o.labels()).Inc() }

// Forget drops every series of an object.
func (r *Reconciles) Forget(o Object) {
	for _, c := range []*prometheus.CounterVec{r.attempts, r.successes, r.failures, r.deleteAttempts, r.deleteFailures} {
		c.DeletePartialMatch(o.labels())
	}
	for _, g := range []*prometheus.GaugeVec{r.total, r.fetch, r.template, r.deployed} {
		g.DeletePartialMatch(o.labels())
	}
}

func (o Object) labels() prometheus.Labels {
	return prometheus.Labels{"controller": o.Kind, "name": o.Name, "namespace": o.Namespace}
}

// RegisterZombies registers the number of canceled deploys that have not ended.
func RegisterZombies(reg prometheus.Registerer, count func() int) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "garboard", Name: "zombie_deploys", Help: "Canceled deploys whose goroutines have not ended yet. They change nothing.",
	}, func() float64 { return float64(count()) }))
}

// Slots is how many Apps work, only wait for their cluster, and wait to begin.
type Slots struct{ Active, Waiting, Queued int }

// RegisterSlots registers what count returns.
func RegisterSlots(reg prometheus.Registerer, count func() Slots) {
	for state, of := range map[string]func(Slots) int{
		"active":  func(s Slots) int { return s.Active },
		"waiting": func(s Slots) int { return s.Waiting },
		"queued":  func(s Slots) int { return s.Queued },
	} {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "garboard", Name: "app_slots", ConstLabels: prometheus.Labels{"state": state},
			Help: "Apps that work, that only wait for what they deployed to become ready, and that wait for their turn.",
		}, func() float64 { return float64(of(count())) }))
	}
}
