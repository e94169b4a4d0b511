package settings_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard-dev/garboard/pkg/settings"
)

func TestParse(t *testing.T) {
	tests := map[string]struct {
		reason string
		data   map[string]string
		want   func(*settings.Settings)
	}{
		"Nothing": {
			reason: "no configuration is the defaults",
			want:   func(*settings.Settings) {},
		},
		"EmptyValues": {
			reason: "an empty value is no value",
			data: map[string]string{
				"caCerts": "", "httpProxy": "", "httpsProxy": "", "noProxy": "", "dangerousSkipTLSVerify": "", "kappDeployRawOptions": "",
				"appDefaultSyncPeriod": "", "appMinimumSyncPeriod": "", "packageInstallDefaultSyncPeriod": "",
			},
			want: func(*settings.Settings) {},
		},
		"UnknownKeys": {
			reason: "a configuration for a newer controller works",
			data:   map[string]string{"somethingNew": "{"},
			want:   func(*settings.Settings) {},
		},
		"CACerts": {
			reason: "text is passed on as it is",
			data:   map[string]string{"caCerts": "-----BEGIN CERTIFICATE-----\nx\n"},
			want:   func(s *settings.Settings) { s.CACerts = "-----BEGIN CERTIFICATE-----\nx\n" },
		},
		"Proxies": {
			reason: "addresses keep their credentials and lose the line break that a file ends with",
			data: map[string]string{
				"httpProxy": "http://robot:hunter2@proxy.example:3128\n", "httpsProxy": "proxy.example:3129", "noProxy": "a.example,.b.example\n",
			},
			want: func(s *settings.Settings) {
				s.Proxy = settings.Proxy{HTTP: "http://robot:hunter2@proxy.example:3128", HTTPS: "proxy.example:3129", No: "a.example,.b.example"}
			},
		},
		"SkipTLS": {
			reason: "entries are trimmed, empty ones dropped",
			data:   map[string]string{"dangerousSkipTLSVerify": " a.example, b.example:5000 ,, "},
			want:   func(s *settings.Settings) { s.SkipTLSVerify = []string{"a.example", "b.example:5000"} },
		},
		"RawOptions": {
			reason: "a JSON array",
			data:   map[string]string{"kappDeployRawOptions": `["--diff-changes=true", "--wait-timeout=5m"]`},
			want: func(s *settings.Settings) {
				s.KappDeployRawOptions = []string{"--diff-changes=true", "--wait-timeout=5m"}
			},
		},
		"Periods": {
			reason: "durations above the floor count",
			data:   map[string]string{"appDefaultSyncPeriod": "90s", "appMinimumSyncPeriod": "31s", "packageInstallDefaultSyncPeriod": "1h"},
			want: func(s *settings.Settings) {
				s.AppDefaultSyncPeriod, s.AppMinimumSyncPeriod = 90*time.Second, 31*time.Second
				s.PackageInstallDefaultSyncPeriod = time.Hour
			},
		},
		"PeriodsBelowTheFloor": {
			reason: "short, zero and negative durations are raised to 30s",
			data:   map[string]string{"appDefaultSyncPeriod": "1s", "appMinimumSyncPeriod": "-5h", "packageInstallDefaultSyncPeriod": "0"},
			want:   func(s *settings.Settings) { s.PackageInstallDefaultSyncPeriod = settings.MinSyncPeriod },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := settings.Default()
			tt.want(&want)
			got, err := settings.Parse(tt.data)
			if err != nil {
				t.Fatal(err)
			}
			// Proxy formats without its credentials, so compare it by ==.
			if got.Proxy != want.Proxy {
				t.Errorf("%s: proxy is another", tt.reason)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	tests := map[string]struct {
		key, value, want string
	}{
		"Duration":       {"appDefaultSyncPeriod", "5", `Unmarshaling appDefaultSyncPeriod as duration: time: missing unit in duration "5"`},
		"Minimum":        {"appMinimumSyncPeriod", "soon", `Unmarshaling appMinimumSyncPeriod as duration: time: invalid duration "soon"`},
		"PackageInstall": {"packageInstallDefaultSyncPeriod", "1d", `Unmarshaling packageInstallDefaultSyncPeriod as duration: time: unknown unit "d" in duration "1d"`},
		"NotJSON":        {"kappDeployRawOptions", "--x", "Unmarshaling kappDeployRawOptions as JSON: invalid character '-' in numeric literal"},
		"NotAList":       {"kappDeployRawOptions", `"--x"`, "Unmarshaling kappDeployRawOptions as JSON: json: cannot unmarshal string into Go value of type []string"},
		"BadEscape": {
			"httpProxy", "http://robot:p%ssw0rd@proxy.example:3128",
			"httpProxy: the address of proxy.example:3128 is no URL; a special character in a user name or a password is written as % and two digits, % itself as %25",
		},
		"Scheme":     {"httpsProxy", "ftp://robot:hunter2@proxy.example", "httpsProxy: the address of proxy.example has another scheme than http, https, socks5 or socks5h"},
		"NoHost":     {"httpProxy", "http://robot:hunter2@", "httpProxy: the address names no host"},
		"OnlyPort":   {"httpProxy", ":3128", "httpProxy: the address names no host"},
		"Port":       {"httpProxy", "proxy.example:70000", "httpProxy: the address of proxy.example:70000 has a port outside of 1 to 65535"},
		"LineBreak":  {"httpsProxy", "http://proxy.example\nhttp://other.example", "httpsProxy: the address is no URL; a special character in a user name or a password is written as % and two digits, % itself as %25"},
		"NulNoProxy": {"noProxy", "a\x00b", "noProxy: has a NUL character"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := settings.Parse(map[string]string{tt.key: tt.value})
			if err == nil {
				t.Fatalf("no error, settings %v", got)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(settings.Settings{}, got); diff != "" {
				t.Errorf("settings beside an error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShouldSkipTLSForAuthority(t *testing.T) {
	s := settings.Settings{SkipTLSVerify: []string{"all.example", "one.example:5000", "::1", "[2001:db8::1]:443"}}
	tests := map[string]bool{
		"all.example":        true,
		"all.example:443":    true,
		"one.example:5000":   true,
		"one.example":        false,
		"one.example:443":    false,
		"sub.all.example":    false,
		"[::1]:443":          true,
		"[::1]":              true,
		"::1":                true,
		"[2001:db8::1]:443":  true,
		"[2001:db8::1]:8443": false,
		"":                   false,
		":443":               false,
	}
	for authority, want := range tests {
		t.Run(authority, func(t *testing.T) {
			if got := s.ShouldSkipTLSForAuthority(authority); got != want {
				t.Errorf("%q: got %v, want %v", authority, got, want)
			}
			if (settings.Settings{}).ShouldSkipTLSForAuthority(authority) {
				t.Errorf("%q: skipped although nothing is listed", authority)
			}
		})
	}
}

func TestForCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		in       settings.Proxy
		host, no string
	}{
		"Placeholder": {"the first occurrence is the API server", settings.Proxy{No: "a,KAPPCTRL_KUBERNETES_SERVICE_HOST,KAPPCTRL_KUBERNETES_SERVICE_HOST"}, "10.0.0.1", "a,10.0.0.1,KAPPCTRL_KUBERNETES_SERVICE_HOST"},
		"Forgotten":   {"the API server is never behind the proxy", settings.Proxy{HTTPS: "p", No: "a, b ,"}, "10.0.0.1", "a,b,10.0.0.1"},
		"Empty":       {"also without a list", settings.Proxy{HTTP: "p"}, "10.0.0.1", "10.0.0.1"},
		"There":       {"it is there once", settings.Proxy{HTTP: "p", No: "a, 10.0.0.1"}, "10.0.0.1", "a, 10.0.0.1"},
		"Longer":      {"another host only ends alike", settings.Proxy{HTTP: "p", No: "110.0.0.1"}, "10.0.0.1", "110.0.0.1,10.0.0.1"},
		"IPv6":        {"without brackets, as tools want it", settings.Proxy{HTTP: "p", No: "a"}, "fd00::1", "a,fd00::1"},
		"NoProxy":     {"there is nothing to be kept from", settings.Proxy{No: "a"}, "10.0.0.1", "a"},
		"Nothing":     {"nothing stays nothing, so that the variables are cleared", settings.Proxy{}, "10.0.0.1", ""},
		"Unknown":     {"outside of a cluster", settings.Proxy{HTTP: "p", No: "a"}, "", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.in.ForCluster(tc.host).No; got != tc.no {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.no)
			}
		})
	}
}

// TestProxyPrintsHostsOnly prints in every way in which code or a logger does.
func TestProxyPrintsHostsOnly(t *testing.T) {
	s := settings.Settings{Proxy: settings.Proxy{HTTP: "http://robot:hunter2@one.example:3128/", HTTPS: "robot:hunter2@two.example", No: "three.example"}}
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"v": fmt.Sprintf("%v", s), "plus": fmt.Sprintf("%+v", s), "sharp": fmt.Sprintf("%#v", s), "s": fmt.Sprintf("%s", s.Proxy),
		"q": fmt.Sprintf("%q", &s.Proxy), "x": fmt.Sprintf("%x", s.Proxy), "json": string(encoded),
	} {
		for _, host := range []string{"one.example:3128", "two.example", "three.example"} {
			if !strings.Contains(text, host) {
				t.Errorf("%s: no %s in %s", name, host, text)
			}
		}
		if strings.Contains(text, "robot") || strings.Contains(text, "hunter2") {
			t.Errorf("%s: credentials in %s", name, text)
		}
	}
}

func TestStore(t *testing.T) {
	var store settings.Store
	if diff := cmp.Diff(settings.Default(), store.Get()); diff != "" {
		t.Errorf("zero value (-want +got):\n%s", diff)
	}
	var seen []string
	store.OnChange(func(s settings.Settings) { seen = append(seen, s.CACerts) })
	next := settings.Default()
	if store.Set(next) {
		t.Error("the same settings are a change")
	}
	next.CACerts = "a"
	if !store.Set(next) || store.Get().CACerts != "a" {
		t.Error("a change is not in force")
	}
	if store.Set(next) {
		t.Error("the same settings are a change")
	}
	if diff := cmp.Diff([]string{"a"}, seen); diff != "" {
		t.Errorf("seen by a watcher (-want +got):\n%s", diff)
	}
}

// TestStoreIsWhole has readers beside writers: a reader sees both halves of one
// write, never of two.
func TestStoreIsWhole(t *testing.T) {
	var (
		store settings.Store
		wg    sync.WaitGroup
	)
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				text := fmt.Sprint(w, i)
				store.Set(settings.Settings{CACerts: text, SkipTLSVerify: []string{text}})
			}
		})
	}
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if s := store.Get(); s.CACerts != "" && s.CACerts != s.SkipTLSVerify[0] {
					t.Errorf("halves %q and %q", s.CACerts, s.SkipTLSVerify[0])
				}
			}
		})
	}
	wg.Wait()
}

func FuzzParse(f *testing.F) {
	f.Add("http://proxy.example:3128", "10m", `["--x=y"]`, "a.example, b:5000")
	f.Add("http://robot:p%ssw0rd@proxy.example:3128", "-1h", `{}`, ",")
	f.Add("socks5://[::1]:1080/", "1e9h", `null`, "[::1]:443")
	f.Fuzz(func(t *testing.T, proxy, period, options, skip string) {
		s, err := settings.Parse(map[string]string{
			"httpProxy": proxy, "appMinimumSyncPeriod": period, "kappDeployRawOptions": options, "dangerousSkipTLSVerify": skip,
		})
		if err != nil {
			if !strings.Contains(err.Error(), "httpProxy") && !strings.Contains(err.Error(), "appMinimumSyncPeriod") && !strings.Contains(err.Error(), "kappDeployRawOptions") {
				t.Fatalf("the error names no key: %v", err)
			}
			return
		}
		if s.AppMinimumSyncPeriod < settings.MinSyncPeriod || s.AppDefaultSyncPeriod < settings.MinSyncPeriod {
			t.Fatalf("a period below the floor: %v", s.AppMinimumSyncPeriod)
		}
		for _, entry := range s.SkipTLSVerify {
			if !s.ShouldSkipTLSForAuthority(entry) && !strings.Contains(entry, "[") {
				t.Fatalf("entry %q does not match itself", entry)
			}
		}
	})
}

// FuzzSecrets puts a password of any form between two marks and looks for them in
// what Parse and a logger print.
func FuzzSecrets(f *testing.F) {
	f.Add("http://", "%ss")
	f.Add("https://", "a@b")
	f.Add("", "a/b?c#d")
	f.Add("ftp://", "://@")
	f.Fuzz(func(t *testing.T, scheme, middle string) {
		if strings.ContainsAny(scheme, "@") {
			return
		}
		address := scheme + "robot:s3cr3t" + middle + "t3rc3s@proxy.example:3128"
		s, err := settings.Parse(map[string]string{"httpProxy": address})
		for _, text := range []string{fmt.Sprint(err), fmt.Sprintf("%+v", s)} {
			if strings.Contains(text, "s3cr3t") || strings.Contains(text, "t3rc3s") {
				t.Fatalf("%q shows a part of the password: %s", address, text)
			}
		}
		if err != nil && !strings.Contains(err.Error(), "httpProxy") {
			t.Fatalf("the error names no key: %v", err)
		}
	})
}

func ExampleParse() {
	_, err := settings.Parse(map[string]string{"httpProxy": "http://robot:p%ssw0rd@proxy.example:3128"})
	fmt.Println(err)
	s, _ := settings.Parse(map[string]string{"appDefaultSyncPeriod": "5m"})
	fmt.Println(s.AppDefaultSyncPeriod)
	// Output:
	// httpProxy: the address of proxy.example:3128 is no URL; a special character in a user name or a password is written as % and two digits, % itself as %25
	// 5m0s
}
