package talos

// Clean is what is kept of a node's words about a config.
func Clean(config []byte, text string) string { return newRedactor(config).clean(text) }

// Lines are the lines that are handed on of what an installer says in pieces; strict
// is for a config that could not be read.
func Lines(config []byte, strict bool, pieces ...string) (handedOn, kept []string) {
	redact := newRedactor(config)
	redact.strict = strict
	lines := installerLines{redact: redact, emit: func(line string) { handedOn = append(handedOn, line) }}
	for _, piece := range pieces {
		lines.write(piece)
	}
	lines.flush()
	return handedOn, lines.kept
}

// InstallSection is what is read of machine.install in a config.
func InstallSection(config []byte) (args []string, useUKI bool, err error) {
	s, err := installSectionOf(config)
	return s.ExtraKernelArgs, s.GrubUseUKICmdline, err
}
