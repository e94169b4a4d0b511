package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/garboard-dev/garboard/pkg/apis/kappctrl/v1alpha1"
	"github.com/garboard-dev/garboard/test/testenv"
)

// TestEveryReferenceCounts: a change of whatever Secret or ConfigMap an App names
// starts a reconcile, however long the sync period.
func TestEveryReferenceCounts(t *testing.T) {
	t.Parallel()
	const name = "named"
	const period = "syncPeriod: 10h\n"
	values := func(greeting string) string { return fmt.Sprintf("values.yml: 'greeting: %s'", greeting) }
	secret := func(data string) string {
		return "{apiVersion: v1, kind: Secret, metadata: {name: ref}, stringData: {" + data + "}}"
	}
	configMap := func(data string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: ref}, data: {" + data + "}}"
	}
	ytt := "fetch:\n" + inline(map[string]string{
		"cm.yml":     "#@ load(\"@ytt:data\", \"data\")\n---\n" + strings.ReplaceAll(cm("out", "v", "V"), `"V"`, "#@ data.values.greeting"),
		"schema.yml": "#@data/values-schema\n---\ngreeting: \"\"\n",
	}) + "template: [{ytt: {valuesFrom: [{REF: {name: ref}}]}}]\ndeploy: [{kapp: {}}]\n"
	helm := "fetch:\n" + inline(map[string]string{
		"Chart.yaml":        "apiVersion: v2\nname: inlinechart\nversion: 0.1.0\n",
		"templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: out}\ndata:\n  v: {{ .Values.greeting | quote }}\n",
	}) + "template: [{helmTemplate: {valuesFrom: [{REF: {name: ref}}]}}]\ndeploy: [{kapp: {}}]\n"
	jsonnet := "fetch:\n" + inline(map[string]string{
		"main.jsonnet": "[{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'out'}, data: {v: std.extVar('values').greeting}}]\n",
	}) + "template: [{jsonnet: {valuesFrom: [{REF: {name: ref}}]}}]\ndeploy: [{kapp: {}}]\n"
	cue := "fetch:\n" + inline(map[string]string{
		"main.cue": "package main\n\ninput: greeting: string\nobject: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"out\", data: v: input.greeting}\n",
	}) + "template: [{cue: {inputExpression: 'input:', outputExpression: object, valuesFrom: [{REF: {name: ref}}]}}]\ndeploy: [{kapp: {}}]\n"
	fetched := "fetch: [{inline: {pathsFrom: [{REF: {name: ref}}]}}]\n" + deployAll
	templated := "fetch: [{inline: {paths: {none.txt: x}}}]\ntemplate: [{ytt: {inline: {pathsFrom: [{REF: {name: ref}}]}}}]\ndeploy: [{kapp: {}}]\n"
	for tool, spec := range map[string]string{"Ytt": ytt, "Helm": helm, "Jsonnet": jsonnet, "Cue": cue, "FetchInline": fetched, "YttInline": templated} {
		for ref, object := range map[string]func(string) string{"secretRef": secret, "configMapRef": configMap} {
			t.Run(tool+"/"+ref, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				set := func(v string) {
					data := values(v)
					if strings.HasSuffix(tool, "Inline") {
						data = fmt.Sprintf("cm.yml: %q", cm("out", "v", v))
					}
					w.apply(object(data))
				}
				set("one")
				w.app(name, period+strings.ReplaceAll(spec, "REF", ref))
				if got := w.succeeded(name).Status.ConsecutiveReconcileSuccesses; got != 1 {
					t.Errorf("%d successes of a new App", got)
				}
				w.wantConfigMap("out", map[string]string{"v": "one"})
				set("two")
				w.untilConfigMap("out", map[string]string{"v": "two"})
				w.until(name, successes(2))
			})
		}
	}
}

func successes(want int) func(*v1alpha1.App) string {
	return func(a *v1alpha1.App) string {
		if got := a.Status.ConsecutiveReconcileSuccesses; got != want {
			return fmt.Sprintf("%d successes, want %d", got, want)
		}
		return ""
	}
}

// TestEveryCredentialCounts: credentials that do not work any more are found out
// at once, however long the sync period.
func TestEveryCredentialCounts(t *testing.T) {
	t.Parallel()
	const name = "named"
	servers.PrivateFiles.Put("counts.yml", []byte(cm("out")))
	if _, err := servers.Git.Commit(t.Context(), "counts", file("cm.yml", cm("out")), "first"); err != nil {
		t.Fatal(err)
	}
	if _, err := servers.PrivateRegistry.PushImage(t.Context(), "counts/image:1", file("cm.yml", cm("out"))); err != nil {
		t.Fatal(err)
	}
	login := func(password string) string {
		return fmt.Sprintf("username: %s, password: %q", testenv.ServerUser, password)
	}
	ssh := func(key []byte) string {
		return fmt.Sprintf("ssh-privatekey: %q, ssh-knownhosts: %q", string(key), servers.Git.KnownHosts())
	}
	registry := func(password string) string {
		return fmt.Sprintf("hostname: %q, ", servers.PrivateRegistry.Host()) + login(password)
	}
	ageKey, withAge := sopsFile(t, cm("out"))
	otherAge, _ := sopsFile(t, cm("out"))
	pgpKey, withPGP := sopsPGP(t, cm("out"))
	otherPGP, _ := sopsPGP(t, cm("out"))
	good, bad := testenv.ServerPassword, "wrong-one"
	cases := map[string]struct{ spec, good, bad string }{
		"HTTP":     {fmt.Sprintf("fetch: [{http: {url: %q, secretRef: {name: ref}}}]\n", servers.PrivateFiles.URL()+"/counts.yml") + deployAll, login(good), login(bad)},
		"Git":      {fmt.Sprintf("fetch: [{git: {url: %q, ref: origin/main, secretRef: {name: ref}}}]\n", servers.Git.SSHURL("counts")) + deployAll, ssh(servers.Git.PrivateKey()), ssh(servers.PrivateGit.PrivateKey())},
		"Image":    {fmt.Sprintf("fetch: [{image: {url: %q, secretRef: {name: ref}}}]\n", servers.PrivateRegistry.Host()+"/counts/image:1") + deployAll, registry(good), registry(bad)},
		"SopsAge":  {"fetch:\n" + inline(map[string]string{"cm.sops.yml": withAge}) + "template: [{sops: {age: {privateKeysSecretRef: {name: ref}}}}, {ytt: {}}]\ndeploy: [{kapp: {}}]\n", fmt.Sprintf("key: %q", ageKey), fmt.Sprintf("key: %q", otherAge)},
		"SopsPGP":  {"fetch:\n" + inline(map[string]string{"cm.sops.yml": withPGP}) + "template: [{sops: {pgp: {privateKeysSecretRef: {name: ref}}}}, {ytt: {}}]\ndeploy: [{kapp: {}}]\n", fmt.Sprintf("key: %q", pgpKey), fmt.Sprintf("key: %q", otherPGP)},
		"NotThere": {"fetch: [{inline: {pathsFrom: [{secretRef: {name: ref}}]}}]\n" + deployAll, fmt.Sprintf("cm.yml: %q", cm("out")), "DELETED"},
	}
	for kind, c := range cases {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			set := func(data string) {
				if data == "DELETED" {
					w.deleteSecret("ref")
					return
				}
				w.apply("{apiVersion: v1, kind: Secret, metadata: {name: ref}, stringData: {" + data + "}}")
			}
			set(c.good)
			w.app(name, "syncPeriod: 10h\n"+c.spec)
			if got := w.succeeded(name).Status.ConsecutiveReconcileSuccesses; got != 1 {
				t.Errorf("%d successes of a new App", got)
			}
			set(c.bad)
			w.failed(name)
			set(c.good)
			w.succeeded(name)
			w.configMap("out")
		})
	}
	t.Run("Kubeconfig", func(t *testing.T) {
		t.Parallel()
		w, target := newWorld(t), newWorld(t)
		kubeconfig, err := env.ServiceAccountKubeconfig(t.Context(), target.ns, "deployer")
		if err != nil {
			t.Fatal(err)
		}
		set := func(value string) {
			w.apply(fmt.Sprintf("{apiVersion: v1, kind: Secret, metadata: {name: ref}, stringData: {value: %q}}", value))
		}
		set(string(kubeconfig))
		w.apply("apiVersion: kappctrl.k14s.io/v1alpha1\nkind: App\nmetadata: {name: named}\nspec:\n  syncPeriod: 10h\n  cluster: {namespace: " + target.ns +
			", kubeconfigSecretRef: {name: ref}}\n" + indent(yttApp(map[string]string{"a.yml": cm("out")})))
		if got := w.succeeded(name).Status.ConsecutiveReconcileSuccesses; got != 1 {
			t.Errorf("%d successes of a new App", got)
		}
		set("not: a kubeconfig")
		w.failed(name)
		set(string(kubeconfig))
		w.succeeded(name)
		target.configMap("out")
	})
}
