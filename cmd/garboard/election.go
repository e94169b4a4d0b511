package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/garboard-dev/garboard/pkg/apiserver"
)

// leaseName is the Lease whose holder reconciles.
const leaseName = "garboard"

// elect makes the manager reconcile only while it holds the Lease. Where the role
// does not allow Leases, as kapp-controller's does not, it goes on without: as
// there, only one instance must run then.
func elect(ctx context.Context, cfg *rest.Config, o Options, log logr.Logger, opts *ctrl.Options) error {
	if !o.LeaderElect {
		return nil
	}
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ok, err := apiserver.May(ctx, kube, authorizationv1.ResourceAttributes{
		Group: "coordination.k8s.io", Resource: "leases", Namespace: o.SystemNamespace, Name: leaseName,
	}, "get", "create", "update")
	if err != nil {
		return err
	}
	if !ok {
		log.Info("Reconciling without leader election: run only one instance, or let the role of the service account get, create and update the Lease",
			"lease", o.SystemNamespace+"/"+leaseName)
		return nil
	}
	lease, renew, retry := o.LeaseDuration, o.LeaseDuration*2/3, o.LeaseDuration/8
	opts.LeaderElection, opts.LeaderElectionReleaseOnCancel = true, true
	opts.LeaseDuration, opts.RenewDeadline, opts.RetryPeriod = &lease, &renew, &retry
	id := identity(cfg.Host + "/" + o.SystemNamespace)
	opts.LeaderElectionResourceLockInterface, err = resourcelock.New(resourcelock.LeasesResourceLock, o.SystemNamespace, leaseName,
		kube.CoreV1(), kube.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: id})
	log.Info("Reconciling while this instance leads", "lease", o.SystemNamespace+"/"+leaseName, "identity", id)
	return err
}

// identity names this instance. An instance that was killed and is started again in
// the same place, a Pod or a host, has the same identity and leads again at once. A
// place is a network namespace since the node was booted. Only one process there can
// have a socket of that name, and until it has ended, others get a name of their own:
// two that live never lead at the same time.
func identity(scope string) string {
	host, _ := os.Hostname() // only for those who read the Lease
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err == nil {
		var ns string
		if ns, err = os.Readlink("/proc/self/ns/net"); err == nil {
			where := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.TrimSpace(string(boot))+ns+scope)))[:16]
			if own("@garboard-leader-"+where) == nil {
				return host + "_" + where
			}
		}
	}
	return host + "_" + rand.String(16)
}

// own takes the name of an abstract socket, which this process has until it ends.
func own(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Bind(fd, &unix.SockaddrUnix{Name: name})
}

// Bounds of the time after which another instance leads when the leader is gone.
const minLease, maxLease = 3 * time.Second, 10 * time.Minute
