//go:build linux

package tool

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is the start of the kernel's siginfo_t as waitid fills it in; unix.Siginfo
// has no name for the field. It has the kernel's full size of 128 bytes.
type siginfo struct {
	signo, errno, code int32
	_                  int32 // aligns the union on 64 bits
	pid                int32
	_                  [128 - 5*4]byte
}

// waitid returns the id of a dead child, or 0 when there is none, without waiting.
func waitid(idType, id, options int) (int, error) {
	var info siginfo
	err := unix.Waitid(idType, id, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|options, nil)
	return int(info.pid), err
}
