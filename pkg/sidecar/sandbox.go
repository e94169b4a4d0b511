//go:build linux

package sidecar

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sandbox is what one run may reach. It is entered by one OS thread and inherited
// by all that the thread starts; nothing gives it back.
type sandbox struct {
	// write has folders to read, write and run in; exec has files and folders to
	// read and run; read has those to read only. What does not exist is left out.
	write, exec, read []string
	// network allows IP sockets.
	network bool
}

// What programs need of the system, the last only for network access. Folders
// such as /etc as a whole, /proc, /root and /run are not among them on purpose:
// keys, tokens and other processes' environments are there.
var (
	systemExec = []string{"/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin"}
	systemRead = []string{
		"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload", "/etc/localtime",
		"/etc/mime.types", "/dev/urandom", "/dev/random", "/dev/zero",
	}
	systemWrite = []string{"/dev/null"}
	networkRead = []string{
		"/etc/ssl/certs", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem", "/etc/ssl/openssl.cnf",
		"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust",
		"/etc/ca-certificates", "/etc/crypto-policies", "/etc/resolv.conf", "/etc/hosts", "/etc/host.conf",
		"/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/passwd", "/etc/group",
	}
)

const (
	fsRead = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fsExec = fsRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	// fsFile are the rights that a rule on a file may have.
	fsFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockRights returns the rights that version abi of Landlock can take away.
func landlockRights(abi int) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1} // version 1
	for _, later := range []struct {
		abi   int
		right uint64
	}{{2, unix.LANDLOCK_ACCESS_FS_REFER}, {3, unix.LANDLOCK_ACCESS_FS_TRUNCATE}, {5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV}, {9, unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX}} {
		if abi >= later.abi {
			attr.Handled_access_fs |= later.right
		}
	}
	if abi >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if abi >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}

// fsWrite is all but making devices and sockets, of what the kernel knows.
func fsWrite(handled uint64) uint64 {
	return handled &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX)
}

// containment says what the kernel offers.
type containment struct {
	// abi is Landlock's version; 0 is none.
	abi int
	// seccomp says whether system calls can be filtered.
	seccomp bool
}

// probe finds out what the kernel offers.
func probe() containment {
	var c containment
	if abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno == 0 {
		c.abi = int(abi)
	}
	// Without a filter the call fails with EFAULT where filters are known.
	c.seccomp = errors.Is(unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, 0, 0, 0), unix.EFAULT)
	return c
}

// enter confines the calling OS thread, as far as c can.
func (s sandbox) enter(c containment) error {
	// Both mechanisms want it, and it keeps set-user-id programs from helping.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if c.abi > 0 {
		if err := s.enterLandlock(c.abi); err != nil {
			return fmt.Errorf("enter Landlock: %w", err)
		}
	}
	if c.seccomp {
		if err := filterSockets(s.network); err != nil {
			return fmt.Errorf("filter system calls: %w", err)
		}
	}
	return nil
}

func (s sandbox) enterLandlock(abi int) error {
	attr := landlockRights(abi)
	if s.network {
		attr.Handled_access_net &^= unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), rulesetSize(abi), 0)
	if errno != 0 {
		return errno
	}
	ruleset := int(fd)
	defer unix.Close(ruleset)
	read := append(slices.Clone(systemRead), s.read...)
	if s.network {
		read = append(read, networkRead...)
	}
	for _, rule := range []struct {
		paths  []string
		rights uint64
	}{
		{s.write, fsWrite(attr.Handled_access_fs)},
		{s.exec, fsExec}, {systemExec, fsExec},
		{read, fsRead},
		{systemWrite, unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE},
	} {
		for _, p := range rule.paths {
			if err := allowPath(ruleset, p, rule.rights&attr.Handled_access_fs); err != nil {
				return fmt.Errorf("allow %s: %w", p, err)
			}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// rulesetSize is the size of the structure up to the last field that version abi
// knows: more would do as long as it is zero, but less is sure.
func rulesetSize(abi int) uintptr {
	switch {
	case abi < 4:
		return unsafe.Offsetof(unix.LandlockRulesetAttr{}.Handled_access_net)
	case abi < 6:
		return unsafe.Offsetof(unix.LandlockRulesetAttr{}.Scoped)
	default:
		return unsafe.Offsetof(unix.LandlockRulesetAttr{}.Quiet_access_fs)
	}
}

func allowPath(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fsFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// filterSockets makes socket(2) fail for all but IP, or for all kinds of sockets
// without network: Landlock knows neither UDP nor, on most kernels, sockets in the
// file system, and the sidecar's own is one. Pairs of sockets stay allowed. Calls
// that get round the filter or at other processes' memory fail, too.
func filterSockets(network bool) error {
	const deny = unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)
	var allowed []uint32
	if network {
		// Name resolution asks netlink for this host's addresses.
		allowed = []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	equal := func(k uint32, then, otherwise uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: then, Jf: otherwise}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }

	// Offsets into struct seccomp_data: nr 0, arch 4, args from 16.
	prog := []unix.SockFilter{load(4), equal(auditArch, 1, 0), ret(deny), load(0)}
	prog = append(prog, foreignCalls()...)
	for _, nr := range deniedCalls {
		prog = append(prog, equal(nr, 0, 1), ret(deny))
	}
	prog = append(prog, equal(unix.SYS_SOCKET, 1, 0), ret(unix.SECCOMP_RET_ALLOW), load(16))
	for _, family := range allowed {
		prog = append(prog, equal(family, 0, 1), ret(unix.SECCOMP_RET_ALLOW))
	}
	prog = append(prog, ret(deny))
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&fprog)), 0, 0)
}

// deniedCalls are refused to all tools: io_uring opens sockets past the filter,
// the others reach into other processes or the kernel.
var deniedCalls = []uint32{
	unix.SYS_IO_URING_SETUP, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_PIDFD_GETFD, unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_MOUNT, unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_PERF_EVENT_OPEN,
}
