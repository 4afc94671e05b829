package machineconfig

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/talos-provision/provision/provisioner/talos"
)

// list shows disks to a person, those that match with a mark.
func list(disks, matching []talos.Disk) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "  DISK\tSIZE\tTYPE\tMODEL\tSERIAL\tWWID\tBUS PATH\tNOTE")
	for _, d := range disks {
		mark := " "
		if slices.ContainsFunc(matching, func(m talos.Disk) bool { return m.DevPath == d.DevPath }) {
			mark = "*"
		}
		cells := []string{d.DevPath, humanSize(d.Size), orDash(kindOfDisk(d)), orDash(d.Model), orDash(d.Serial), orDash(d.WWID), orDash(d.BusPath), note(d)}
		_, _ = fmt.Fprintln(w, mark+" "+strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// humanSize writes bytes in the decimal units that disks are sold in, and that
// Talos shows.
func humanSize(bytes uint64) string {
	const step = 1000
	size, unit := float64(bytes), 0
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	for size >= step && unit < len(units)-1 {
		size /= step
		unit++
	}
	if size < 10 && unit > 0 {
		return fmt.Sprintf("%.1f %s", size, units[unit])
	}
	return fmt.Sprintf("%.0f %s", size, units[unit])
}

func kindOfDisk(d talos.Disk) string {
	switch {
	case d.Type != "":
		return d.Type
	case d.Transport == "nvme":
		return "nvme"
	case d.Rotational:
		return "hdd"
	}
	return d.Transport
}

func note(d talos.Disk) string {
	var notes []string
	for _, n := range []struct {
		holds bool
		text  string
	}{{d.CDROM, "CD-ROM"}, {d.ReadOnly, "read-only"}, {d.System, "Talos was installed here"}} {
		if n.holds {
			notes = append(notes, n.text)
		}
	}
	return strings.Join(notes, ", ")
}

// orDash keeps a column from being empty; disks report control characters and
// line breaks in their names now and then.
func orDash(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }), " ")
	if strings.TrimSpace(s) == "" {
		return "-"
	}
	return strings.TrimSpace(s)
}
