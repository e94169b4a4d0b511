package controlplane

import (
	_ "embed"
	"fmt"
	"strconv"
)

// stages tell kwok what a kubelet would report: see the file.
//
//go:embed stages.yaml
var stages []byte

// auditPolicy leaves out the control plane's own traffic, so that the log holds
// what tests ask about and stays small.
//
//go:embed audit.yaml
var auditPolicy []byte

// schedulerConfig lifts the client's rate limit, which has no flag.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 1000, burst: 2000}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
`

// kwokUser is kwok's name in the audit policy.
const kwokUser = "garboard-test-kwok"

func (c *ControlPlane) etcdURL() string { return fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcd) }

func (c *ControlPlane) etcdArgs() []string {
	peer := fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcdPeer)
	return []string{
		"--name=default",
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + c.etcdURL(),
		"--advertise-client-urls=" + c.etcdURL(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--unsafe-no-fsync",
		"--log-level=warn",
	}
}

func (c *ControlPlane) apiserverArgs() []string {
	return []string{
		"--etcd-servers=" + c.etcdURL(),
		"--bind-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.ports.apiserver),
		"--cert-dir=" + c.path("apiserver"),
		"--tls-cert-file=" + c.path("apiserver.crt"),
		"--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + c.path("sa.key"),
		"--service-account-key-file=" + c.path("sa.pub"),
		"--service-cluster-ip-range=10.0.0.0/16",
		// Endpoints of the kubernetes Service may not be loopback addresses.
		"--endpoint-reconciler-type=none",
		"--requestheader-client-ca-file=" + c.path("front-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + c.path("front.crt"),
		"--proxy-client-key-file=" + c.path("front.key"),
		"--audit-policy-file=" + c.path("audit.yaml"),
		"--audit-log-path=" + c.path("audit.log"),
		// Not in batches: a request is on record right after its answer.
		"--audit-log-mode=blocking",
		"--allow-privileged=true",
	}
}

func (c *ControlPlane) controllerManagerArgs() []string {
	return []string{
		"--kubeconfig=" + c.path("controller-manager.kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
		"--service-account-private-key-file=" + c.path("sa.key"),
		"--root-ca-file=" + c.path("ca.crt"),
		"--use-service-account-credentials=false",
		"--allocate-node-cidrs=false",
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}

func (c *ControlPlane) schedulerArgs() []string {
	return []string{"--config=" + c.path("scheduler.yaml"), "--secure-port=0"}
}

func (c *ControlPlane) kwokArgs() []string {
	return []string{
		"--kubeconfig=" + c.path("kwok.kubeconfig"),
		"--config=" + c.path("stages.yaml"),
		"--manage-all-nodes=true",
		"--node-lease-duration-seconds=40",
		"--server-address=", // it would open a port for logs and exec
	}
}
