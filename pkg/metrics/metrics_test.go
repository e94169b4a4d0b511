package metrics_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/garboard-dev/garboard/pkg/metrics"
	"github.com/garboard-dev/garboard/test/golden"
)

func scrape(t *testing.T, reg *prometheus.Registry) []byte {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&out, f); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestReconciles(t *testing.T) {
	reg := prometheus.NewRegistry()
	r := metrics.NewReconciles(reg)
	good, bad := metrics.Object{Kind: "App", Namespace: "t", Name: "good"}, metrics.Object{Kind: "App", Namespace: "t", Name: "bad"}
	r.Started(good, false)
	r.Done(good, false, metrics.Times{Total: 3 * time.Second, Fetch: time.Second, Template: 500 * time.Millisecond, Deploy: 1500 * time.Millisecond, First: true})
	r.Started(bad, false)
	r.Done(bad, true, metrics.Times{Total: time.Second, Fetch: time.Second})
	r.Started(bad, true)
	r.DeleteFailed(bad)
	golden.Equal(t, "testdata/scrape.want", scrape(t, reg))

	r.Forget(good)
	r.Forget(bad)
	if left := scrape(t, reg); len(left) != 0 {
		t.Errorf("series of objects that are gone:\n%s", left)
	}
}

func TestSlots(t *testing.T) {
	reg := prometheus.NewRegistry()
	metrics.RegisterSlots(reg, func() metrics.Slots { return metrics.Slots{Active: 3, Waiting: 20, Queued: 1} })
	golden.Equal(t, "testdata/slots.want", scrape(t, reg))
}
