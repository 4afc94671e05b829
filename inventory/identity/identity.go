// Package identity joins what the inventory, the BMC, the firmware and Talos
// say about one machine. It is pure: facts in, verdict out, no I/O.
package identity

// Facts is what one observer knows of one machine. An empty field is not
// known. Values are kept as the observer gave them; comparison normalises.
type Facts struct {
	// Serial is the system serial: SMBIOS type 1, iPXE ${serial}. Boards of one chassis may share it.
	// In facts that come from the inventory it may be any serial of the machine, the board's included.
	Serial string `json:"serial,omitempty"`
	// BoardSerial is the motherboard's: SMBIOS type 2, iPXE ${board-serial}.
	BoardSerial string `json:"boardSerial,omitempty"`
	// ChassisSerial is the enclosure's: SMBIOS type 3.
	ChassisSerial string `json:"chassisSerial,omitempty"`
	// UUID is the SMBIOS type 1 UUID in either byte order.
	UUID string `json:"uuid,omitempty"`
	// MACs are the host's network addresses (not the BMC's), in any notation.
	MACs []string `json:"macs,omitempty"`
}

// Candidate is one inventory node with everything known of its machine: first
// the inventory's facts, then what its BMC reported.
type Candidate struct {
	Name  string
	Facts []Facts
}

// Key names the kind of value that decided a verdict.
type Key string

// The keys, strongest first.
const (
	KeyBoardSerial   Key = "board serial"
	KeyUUID          Key = "UUID"
	KeyMAC           Key = "MAC"
	KeySerial        Key = "serial"
	KeyChassisSerial Key = "chassis serial"
)

// Outcome is the kind of a verdict.
type Outcome int

// The outcomes.
const (
	Nobody Outcome = iota
	Match
	Conflict
)

// Verdict is the answer to "which node is this machine?".
type Verdict struct {
	Outcome Outcome
	// Name is the matching node when Outcome is Match.
	Name string
	// Names are the nodes in conflict, sorted, when Outcome is Conflict.
	Names []string
	// Key and Value are what decided: the value that matched, or the one in conflict.
	Key   Key
	Value string
	// Reason is a sentence that a person can act on.
	Reason string
}
