package firmware

import (
	"bytes"
	"fmt"
)

// head keeps the first bytes of a program, by which firmware judges it.
type head struct{ bytes.Buffer }

// headSize is how far the mark of a signed program may be from its beginning.
const headSize = 512

func (h *head) Write(p []byte) (int, error) {
	h.Buffer.Write(p[:min(len(p), max(0, headSize-h.Len()))])
	return len(p), nil
}

// isUKI tells whether the program is a Linux kernel with all that it needs.
func (h *head) isUKI() bool { return bytes.Contains(h.Bytes(), []byte(SignedUKI)) }

// start hands the machine over to a program that was downloaded: a UKI is the
// machine's Linux. It reports false for any other program, which is iPXE.
func (b *boot) start(program Image, h *head) (linux bool, err error) {
	switch {
	case h.isUKI():
		b.outcome.Kernel = &Kernel{KernelSize: program.Size, KernelSHA256: program.SHA256}
		b.served(Served{Kernel: true})
		b.step("started the kernel in %s", program.Name)
		return true, nil
	case b.machine.SecureBoot:
		return false, fmt.Errorf("security violation: Secure Boot is on and %s is not signed by anybody the firmware trusts", program.Name)
	}
	return false, nil
}
