package e2e

import "testing"

// TestInstallHelm: a Package of a chart. Secrets by annotation come before the values,
// which win and go to the first step that takes any; annotations name the release.
func TestInstallHelm(t *testing.T) {
	t.Parallel()
	w := newInstalls(t)
	w.offer(w.ns, "1.0.0", `  template:
    spec:
      fetch:
      - inline:
          paths:
            Chart.yaml: "apiVersion: v2\nname: web\nversion: 1.0.0\n"
            values.yaml: "v: chart\nw: chart\nx: chart\n"
            templates/cm.yaml: |
              apiVersion: v1
              kind: ConfigMap
              metadata:
                name: web
              data:
                v: {{ .Values.v | quote }}
                w: {{ .Values.w | quote }}
                x: {{ .Values.x | quote }}
                release: {{ .Release.Namespace }}/{{ .Release.Name }}
      template: [{helmTemplate: {}}, {ytt: {}}]
      deploy: [{kapp: {}}]
`)
	w.secret("extra", "values.yml", "v: extra\nw: extra")
	w.secret("a", "values.yml", "v: a")
	w.apply(`
apiVersion: packaging.carvel.dev/v1alpha1
kind: PackageInstall
metadata:
  name: web
  annotations:
    ext.packaging.carvel.dev/helm-template-name: shop
    ext.packaging.carvel.dev/helm-template-namespace: elsewhere
    ext.packaging.carvel.dev/helm-template-values-from-secret-name: extra
spec:
  serviceAccountName: deployer
  packageRef: {refName: ` + w.refName + `, versionSelection: {constraints: 1.x}}
  values: [{secretRef: {name: a}}]
`)
	w.installed("1.0.0")
	w.wantConfigMap("web", map[string]string{"v": "a", "w": "extra", "x": "chart", "release": "elsewhere/shop"})
}
