package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"text/tabwriter"
	"time"
)

// Report is what bench.json holds. Times are in seconds.
type Report struct {
	Time time.Time `json:"time"`
	// CPUs is the number of processors that the benchmark, the control plane and
	// Garboard share.
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`

	Create   Create   `json:"create"`
	Change   Change   `json:"change"`
	NoChange NoChange `json:"noChange"`
	Idle     Idle     `json:"idle"`
	Memory   Memory   `json:"memory"`
	Many     Many     `json:"many"`
	Secrets  Secrets  `json:"secrets"`
}

// Create is Apps that are created at once, each with one inline ConfigMap
// rendered by ytt, in one namespace with one service account.
type Create struct {
	Apps int `json:"apps"`
	// Seconds is from the first create until all have succeeded.
	Seconds  float64  `json:"seconds"`
	Requests Requests `json:"requestsPerApp"`
	// CPU is processor seconds in all.
	CPU CPU `json:"cpuSeconds"`
	// ProcessStarts is how often the sidecar started each tool, for each App.
	ProcessStarts map[string]float64 `json:"processStartsPerApp"`
}

// Change is one App whose content is edited again and again, while all else is
// idle.
type Change struct {
	Samples int `json:"samples"`
	// Median, P90 and Max are from the moment before the edit is sent until the
	// new content is seen by a watch of the deployed ConfigMap.
	Median   float64  `json:"medianSeconds"`
	P90      float64  `json:"p90Seconds"`
	Max      float64  `json:"maxSeconds"`
	Requests Requests `json:"requestsPerChange"`
}

// NoChange is all Apps run again at once, without a change of what they deploy.
type NoChange struct {
	Seconds       float64            `json:"seconds"`
	CPU           CPU                `json:"cpuSeconds"`
	Requests      Requests           `json:"requestsPerApp"`
	ProcessStarts map[string]float64 `json:"processStartsPerApp"`
}

// Idle is all Apps with a sync period, while nobody changes anything.
type Idle struct {
	SyncPeriod float64 `json:"syncPeriodSeconds"`
	// Seconds is for how long was measured.
	Seconds  float64  `json:"seconds"`
	Requests Requests `json:"requestsPerMinute"`
	CPU      CPU      `json:"cpuSecondsPerMinute"`
}

// Many is a large number of Apps that nobody changes.
type Many struct {
	Apps       int     `json:"apps"`
	SyncPeriod float64 `json:"syncPeriodSeconds"`
	// CreateSeconds is from the first create until all have succeeded.
	CreateSeconds float64 `json:"createSeconds"`
	// Seconds is for how long was measured, Runs how many runs began meanwhile.
	Seconds float64 `json:"seconds"`
	Runs    float64 `json:"runs"`
	// Requests are those for each run, Writes all in that time that change something.
	Requests Requests `json:"requestsPerRun"`
	Writes   int      `json:"writes"`
	CPU      CPU      `json:"cpuSecondsPerMinute"`
	// Goroutines of the controller without these Apps, and with them while none runs.
	GoroutinesBefore float64 `json:"goroutinesBefore"`
	Goroutines       float64 `json:"goroutines"`
	// HeapPerApp is what the controller keeps for each, in bytes.
	HeapPerApp float64 `json:"heapBytesPerApp"`
	Memory     Memory  `json:"memory"`
}

// Secrets are Secrets that no App names.
type Secrets struct {
	Count int `json:"count"`
	// Bytes is the size of each, HeapEach what the controller keeps for it.
	Bytes    int     `json:"bytes"`
	HeapEach float64 `json:"heapBytesEach"`
	// Start is the most memory that a controller held which found them at its start.
	Start int64 `json:"startBytes"`
}

// Memory is the most memory each process ever held, in bytes. Tools are
// processes of their own and do not count.
type Memory struct {
	Controller int64 `json:"controllerBytes"`
	Sidecar    int64 `json:"sidecarBytes"`
}

// CPU is processor time in seconds.
type CPU struct {
	Controller float64 `json:"controller"`
	// Sidecar includes the tools that it ran.
	Sidecar float64 `json:"sidecar"`
	// ControlPlane is the API server, etcd and the rest.
	ControlPlane float64 `json:"controlPlane"`
}

func (c CPU) String() string {
	return fmt.Sprintf("CPU-s: controller %.1f, sidecar %.1f, control plane %.1f", c.Controller, c.Sidecar, c.ControlPlane)
}

// Requests are API requests of Garboard: as the controller and as the service
// account of the Apps.
type Requests struct {
	Total float64 `json:"total"`
	// By has keys such as "controller update apps/status".
	By map[string]float64 `json:"by"`
}

func newReport() *Report {
	return &Report{Time: time.Now().UTC().Truncate(time.Second), CPUs: runtime.NumCPU(), Go: runtime.Version()}
}

// write stores the report in dir.
func (r *Report) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bench.json"), append(text, '\n'), 0o644)
}

// metrics reports what benchstat compares.
func (r *Report) metrics(b *testing.B) {
	b.ReportMetric(0, "ns/op") // the time of the whole means nothing
	b.ReportMetric(r.Create.Seconds, "create-s")
	b.ReportMetric(r.Create.Requests.Total, "create-req/app")
	b.ReportMetric(r.Change.Median*1000, "change-ms")
	b.ReportMetric(r.NoChange.Requests.Total, "nochange-req/app")
	b.ReportMetric(r.Idle.Requests.Total, "idle-req/min")
	b.ReportMetric(r.Idle.CPU.Controller+r.Idle.CPU.Sidecar, "idle-cpu-s/min")
}

// print writes the report for people.
func (r *Report) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer func() { _ = w.Flush() }()
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(w, "\n%d Apps of one ConfigMap, inline and ytt, on %d processors shared with the control plane\n", r.Create.Apps, r.CPUs)
	row("created at once, all succeeded after", "%.2f s (%v)", r.Create.Seconds, r.Create.CPU)
	row("API requests per new App", "%.2f", r.Create.Requests.Total)
	row("process starts per new App", "%s", starts(r.Create.ProcessStarts))
	row("change live after", "median %.0f ms, p90 %.0f ms, max %.0f ms (%d changes)", r.Change.Median*1e3, r.Change.P90*1e3, r.Change.Max*1e3, r.Change.Samples)
	row("API requests per change", "%.2f", r.Change.Requests.Total)
	row("all Apps run again without a change", "%.2f s (%v)", r.NoChange.Seconds, r.NoChange.CPU)
	row("API requests per run without a change", "%.2f", r.NoChange.Requests.Total)
	row(fmt.Sprintf("idle at syncPeriod %.0f s, per minute", r.Idle.SyncPeriod), "%.0f API requests (%v)", r.Idle.Requests.Total, r.Idle.CPU)
	row("peak memory", "controller %d MiB, sidecar %d MiB", r.Memory.Controller>>20, r.Memory.Sidecar>>20)
	for _, t := range []struct {
		name string
		r    Requests
	}{
		{"requests per new App", r.Create.Requests}, {"requests per change", r.Change.Requests},
		{"requests per run without a change", r.NoChange.Requests}, {"requests per idle minute", r.Idle.Requests},
	} {
		fmt.Fprintf(w, "\n%s\n", t.name)
		for _, key := range slices.SortedFunc(maps.Keys(t.r.By), func(a, b string) int {
			if t.r.By[a] > t.r.By[b] || t.r.By[a] == t.r.By[b] && a < b {
				return -1
			}
			return 1
		}) {
			row("  "+key, "%.2f", t.r.By[key])
		}
	}
	fmt.Fprintln(w)
}

func starts(by map[string]float64) string {
	total, text := 0.0, ""
	for _, name := range slices.Sorted(maps.Keys(by)) {
		total += by[name]
		text += fmt.Sprintf(" %s %.2f", name, by[name])
	}
	return fmt.Sprintf("%.2f:%s", total, text)
}
