package settings_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/settings"
	"github.com/garboard-dev/garboard/test/testenv/pki"
)

func TestDoubts(t *testing.T) {
	ca, err := pki.NewCA("doubts")
	if err != nil {
		t.Fatal(err)
	}
	cert := string(ca.CertPEM)
	const block = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	for name, tc := range map[string]struct {
		reason string
		data   map[string]string
		want   []string
	}{
		"Nothing": {"no configuration", nil, nil},
		"Right": {"all that works", map[string]string{
			"caCerts": "# ours\n" + cert + cert, "httpProxy": "p", "noProxy": "a", "dangerousSkipTLSVerify": "a.example, b.example:5000",
			"appDefaultSyncPeriod": "30s", "kappDeployRawOptions": "[]",
		}, nil},
		"Empty":   {"an empty value is no value", map[string]string{"caCerts": "\n", "noProxy": " ", "appMinimumSyncPeriod": ""}, nil},
		"Keys":    {"a misspelt key must not be dropped unseen", map[string]string{"httpproxy": "http://u:hunter2@p", "x": ""}, []string{`there is no key "httpproxy" (hint: it is written httpProxy)`, `there is no key "x"`}},
		"NoPEM":   {"no certificate at all", map[string]string{"caCerts": "MIIB"}, []string{"caCerts: holds no certificate in PEM"}},
		"BadPEM":  {"one that no tool reads", map[string]string{"caCerts": cert + block}, []string{"caCerts: 1 of 2 PEM blocks are no certificate"}},
		"Key":     {"a private key is none", map[string]string{"caCerts": strings.ReplaceAll(block, "CERTIFICATE", "PRIVATE KEY")}, []string{"caCerts: 1 of 1 PEM blocks are no certificate"}},
		"SkipURL": {"addresses match nothing", map[string]string{"dangerousSkipTLSVerify": "https://u:hunter2@r.example/x,*.example"}, []string{"dangerousSkipTLSVerify: an entry of r.example matches nothing: it must be a host or host:port", "dangerousSkipTLSVerify: an entry matches nothing: it must be a host or host:port"}},
		"NoProxy": {"a list of exceptions from nothing", map[string]string{"noProxy": "a"}, []string{"noProxy: has no effect without httpProxy or httpsProxy"}},
		"Periods": {"they have a floor", map[string]string{"appDefaultSyncPeriod": "1s", "appMinimumSyncPeriod": "-1m", "packageInstallDefaultSyncPeriod": "0"}, []string{
			"appDefaultSyncPeriod: 1s is less than the least possible, 30s, which counts",
			"appMinimumSyncPeriod: -1m0s is less than the least possible, 30s, which counts",
			"packageInstallDefaultSyncPeriod: 0s is less than the least possible, 30s, which counts",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, settings.Doubts(tc.data)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
