package inventory

// SettleAtOnce lets tests not wait until files are at rest.
func (l *Loader) SettleAtOnce() { l.settling = 0 }
