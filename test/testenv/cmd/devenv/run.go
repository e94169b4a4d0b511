package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard-dev/garboard/test/testenv"
	"github.com/garboard-dev/garboard/test/testenv/stories"
)

// namespace is where the examples go.
const namespace = "default"

// patience bounds the time until all examples are reconciled: seconds, when
// nothing else keeps the machine busy.
const patience = 5 * time.Minute

// reconciled are the kinds that the examples have to bring to success.
var reconciled = []schema.GroupVersionResource{
	{Group: "packaging.carvel.dev", Version: "v1alpha1", Resource: "packagerepositories"},
	{Group: "packaging.carvel.dev", Version: "v1alpha1", Resource: "packageinstalls"},
	{Group: "kappctrl.k14s.io", Version: "v1alpha1", Resource: "apps"},
}

// run shows the examples at work and stays until ctx ends, or ends after the
// table when once is set.
func run(ctx context.Context, home string, once bool, out io.Writer) (err error) {
	lock, err := take(home)
	if err != nil {
		return err
	}
	defer lock.release()
	if err := os.RemoveAll(filepath.Join(home, "logs")); err != nil { // of the last run
		return err
	}
	began := time.Now()
	fmt.Fprintln(out, "starting a control plane, content servers and Garboard ...")
	env, err := testenv.Start(ctx, testenv.Options{LogDir: filepath.Join(home, "logs")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	servers, err := env.StartServers(ctx)
	if err != nil {
		return err
	}
	if _, err := env.StartGarboard(ctx, testenv.GarboardOptions{}); err != nil {
		return err
	}
	kubeconfig, err := os.ReadFile(env.Kubeconfig())
	if err != nil {
		return err
	}
	err = errors.Join(lock.write("kubeconfig", string(kubeconfig)), lock.write("registry", servers.Registry.Host()+"\n"))
	if err != nil {
		return err
	}
	published, err := stories.Publish(ctx, env, servers, namespace)
	if err != nil {
		return err
	}
	names, err := published.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := published.Apply(ctx, name); err != nil {
			return err
		}
	}
	if err := published.ApplyFiles(ctx, stories.Repository, stories.Install); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d Apps, a package repository and an install from it applied after %.1fs\n", len(names), time.Since(began).Seconds())
	// The repository, the install, and the App that the install makes.
	failed := settle(ctx, env, len(names)+3)
	if err := printTable(ctx, env, out); err != nil {
		return errors.Join(failed, err)
	}
	if once {
		return failed
	}
	if failed != nil {
		fmt.Fprintln(out, failed)
	}
	fmt.Fprintf(out, lookFurther, filepath.Join(home, "kubeconfig"), env.BinDir("dev"), filepath.Join(home, "logs"))
	if err := lock.write("ready", ""); err != nil {
		return err
	}
	<-ctx.Done()
	fmt.Fprintln(out, "stopping")
	return nil
}

const lookFurther = `
Look further:
  export KUBECONFIG=%s
  alias kubectl='%s/devcluster kubectl'
  kubectl get app -A -w
  kubectl get app multi-tier -o yaml
  kubectl get packages,packagemetadatas
  kubectl describe pkgi package-install
  kubectl get deploy,job,ingress
Logs of all processes are in %s.
Ctrl-C, or make down, ends it all.
`

// settle returns when want objects are reconciled, with an error when one has
// failed or time runs out.
func settle(ctx context.Context, env *testenv.Env, want int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		succeeded, failed, err := outcomes(ctx, env)
		if err != nil {
			return fmt.Errorf("wait for the examples: %w", err)
		}
		// The last part that a new control plane takes up is the API for Packages.
		if unserved := env.APIAvailable(ctx); succeeded+len(failed) >= want && unserved == nil {
			if len(failed) > 0 {
				return fmt.Errorf("%d of %d examples failed:\n%s", len(failed), want, strings.Join(failed, "\n"))
			}
			return nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the examples: %d of %d are reconciled, failed are %q: %w", succeeded, want, failed, ctx.Err())
		}
	}
}

// outcomes counts the objects that are reconciled and names those that failed. A
// PackageInstall that was there before its Package has failed only for now.
func outcomes(ctx context.Context, env *testenv.Env) (succeeded int, failed []string, err error) {
	offered := false
	for _, kind := range reconciled {
		list, err := env.Dynamic.Resource(kind).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, nil, err
		}
		for _, obj := range list.Items {
			switch {
			case condition(obj, "ReconcileSucceeded"):
				succeeded++
				offered = offered || obj.GetKind() == "PackageRepository"
			case condition(obj, "ReconcileFailed") && (offered || obj.GetKind() != "PackageInstall"):
				message, _, _ := unstructured.NestedString(obj.Object, "status", "usefulErrorMessage")
				failed = append(failed, obj.GetKind()+" "+obj.GetName()+": "+message)
			}
		}
	}
	return succeeded, failed, nil
}

func condition(app unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(app.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind && c["status"] == "True" {
			return true
		}
	}
	return false
}

// printTable prints what kubectl shows of the examples, and of what they deployed.
func printTable(ctx context.Context, env *testenv.Env, out io.Writer) error {
	for _, what := range [][]string{{"pkgr,pkgi,app", "-A"}, {"packages", "-n", namespace}, {"deployments,statefulsets,jobs,ingresses", "-A"}} {
		table, err := env.Kubectl(ctx, append([]string{"get"}, what...)...)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "\n$ kubectl get %s\n%s", strings.Join(what, " "), table)
	}
	return nil
}
