package httpboot

import (
	"time"

	"github.com/talos-provision/provision/pxe/assets"
)

// What is what a request asks for: a closed set, to count by.
type What string

// What can be asked for.
const (
	WhatScript    What = "script"
	WhatAutoexec  What = "autoexec"
	WhatBinary    What = "binary" // iPXE itself
	WhatKernel    What = What(assets.KindKernel)
	WhatInitramfs What = What(assets.KindInitramfs)
	WhatUKI       What = What(assets.KindUKI)
	WhatISO       What = What(assets.KindISO)
	WhatCmdline   What = What(assets.KindCmdline)
	WhatConfig    What = "config" // a machine config
	WhatHealth    What = "health"
	WhatElse      What = "else" // what there is not
)

// Whats lists all that can be asked for.
func Whats() []What {
	return []What{
		WhatScript, WhatAutoexec, WhatBinary, WhatKernel, WhatInitramfs, WhatUKI, WhatISO, WhatCmdline, WhatConfig, WhatHealth, WhatElse,
	}
}

// Served is a request that was answered, as Options.OnRequest is told. It names no machine.
type Served struct {
	What What
	// Status is the HTTP status.
	Status int
	// Bytes of the body were handed to the network.
	Bytes int64
	// Duration is from the request to the last byte; what is done after it for others does not count.
	Duration time.Duration
}

// Sending is how many files are being sent.
func (h *Handler) Sending() int { return int(h.sending.Load()) }
