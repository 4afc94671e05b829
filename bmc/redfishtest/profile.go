package redfishtest

import "maps"

// Profile is how one vendor's BMC shows a machine and what it does with writes.
// The vendor functions ([Supermicro], [Dell], …) return a fresh value each, to
// be used as it is or changed. The zero Profile means [Generic].
type Profile struct {
	// Name is the profile's name in lower case, e.g. "supermicro".
	Name string
	// Manufacturer is shown by the System, Vendor and Product by the root.
	Manufacturer, Vendor, Product string
	// RedfishVersion is shown by the root.
	RedfishVersion string
	// Registry prefixes the standard messages, e.g. "Base.1.8".
	Registry string
	// SystemID, ChassisID and ManagerID are the last parts of the paths.
	SystemID, ChassisID, ManagerID string
	// SystemIDIsSerial calls the System by the machine's serial number, if it
	// has one.
	SystemIDIsSerial bool
	// Boot, Reset, Session and ETag say what the BMC does with requests.
	Boot    BootRules
	Reset   ResetRules
	Session SessionRules
	ETag    ETagRules
	Media   MediaRules
	Tasks   TaskRules
	// Patched answers a PATCH that was taken; zero is 204 without a body.
	Patched Answer
	// Decorate changes a document into the vendor's shape before it is sent.
	Decorate map[Resource]func(Hardware, Document)
	// Extra resources beside those of the one machine.
	Extra []Extra
	// ExtraFor makes resources that show the machine's identity; nil: none.
	ExtraFor func(Hardware) []Extra
}

// Resource names a kind of document that a profile can decorate.
type Resource string

// The documents of a service.
const (
	ResourceRoot           Resource = "root"
	ResourceSessionService Resource = "session-service"
	ResourceSystem         Resource = "system"
	ResourceSettings       Resource = "settings"
	ResourceChassis        Resource = "chassis"
	ResourceManager        Resource = "manager"
	ResourceInterface      Resource = "ethernet-interface"
	ResourceActionInfo     Resource = "reset-action-info"
	ResourceMedia          Resource = "virtual-media"
)

// Hardware is the machine's identity, as given in [Config].
type Hardware struct {
	Serial, BoardSerial, ChassisSerial, UUID, Model string
	MACs                                            []string
}

// Extra is one more resource, for example a second System behind the same BMC.
type Extra struct {
	// Path is the whole path, "/redfish/v1/Systems/HGX_Baseboard_0". If its
	// parent is a collection of the service, the collection lists it.
	Path string
	// First lists it before the machine's own resource instead of after it.
	First bool
	// Instead shows it in place of the service's own document of that path.
	Instead bool
	// Document is what a GET shows.
	Document Document
	// Refusal answers the GET instead, e.g. 503 while the host is off.
	Refusal Answer
}

// BootRules is what a BMC makes of boot override writes.
type BootRules struct {
	// Targets and Enabled are the allowable values; an empty Enabled is not
	// shown, and then allows Disabled, Once and Continuous.
	Targets, Enabled []string
	// Unlisted are targets that it takes although it does not show them.
	Unlisted []string
	// NoHTTPBootURI has no HttpBootUri (new in ComputerSystem 1.9). Without
	// UefiHttp among the targets there is none either.
	NoHTTPBootURI bool
	// DuringPOST answers boot writes for [Config].POST after each power-on
	// (metal-operator#997); zero takes them.
	DuringPOST Answer
	// HideAllowable shows the allowable values on the settings resource only.
	HideAllowable bool
	// NoMode has no BootSourceOverrideMode and refuses it (metal-operator#982).
	NoMode bool
	// ModeRefusal answers a write of a mode that the BMC shows but cannot
	// change (metal-operator#606).
	ModeRefusal Answer
	// OmittedMode and OmittedEnabled replace properties that a PATCH leaves
	// out; empty keeps what was there (Redfishtool#106).
	OmittedMode, OmittedEnabled string
	// RequireAll refuses a PATCH without all three properties.
	RequireAll bool
	// RestTarget is shown while no override is in force; empty is "None".
	RestTarget string
	// ClearRefusal answers a PATCH that disables the override with Target None
	// (metal-operator#998).
	ClearRefusal Answer
	// PxeReadBack is shown instead of Pxe when the mode is UEFI. Some
	// Supermicro firmware shows "UefiBootNext".
	PxeReadBack string
	// JobOnMode starts a configuration job for each write of a mode, needed or
	// not, which makes the network boot unreliable on a real machine
	// (metal-operator#80). The service only counts them.
	JobOnMode bool
	// AlwaysContinuous turns Once into Continuous and never clears it.
	AlwaysContinuous bool
	// IgnoredByRestart boots without the override on a graceful restart, and
	// keeps it for the next boot.
	IgnoredByRestart bool
	// Settings is the vendor's pending settings resource.
	Settings Settings
}

// Settings is a settings resource below the System (DSP0266 9.10).
type Settings struct {
	// ID is its last path part: "Settings", "SD", "Pending"; empty: none.
	ID string
	// Annotated names it in @Redfish.Settings of the System.
	Annotated bool
	// Keys are the Boot properties it has; nil: no Boot at all.
	Keys []string
	// Refusal answers a PATCH of Boot to the System, where only the settings
	// resource takes it; zero: the System takes it.
	Refusal Answer
	// Deferred shows a new override on the settings resource only, until the
	// next boot uses it.
	Deferred bool
}

// ResetRules is what a BMC makes of ComputerSystem.Reset.
type ResetRules struct {
	// Types are the reset types it takes.
	Types []string
	// Advertised are the types it shows, where they differ; nil: Types. Some
	// firmware shows "GracefulShutdownGracefulRestart", a missing comma.
	Advertised []string
	// ActionInfo shows the types in an ActionInfo resource, not in the System.
	ActionInfo bool
	// Done answers a reset that was taken; zero is 204 without a body.
	Done Answer
	// WhileOff answers a restart of a machine that is off; zero answers as if
	// it were done, and does nothing (pbnj#75).
	WhileOff Answer
	// AlreadyOn and AlreadyOff answer an On or ForceOff that would change
	// nothing; zero: as if done.
	AlreadyOn, AlreadyOff Answer
	// Busy answers any reset while another is in progress; zero queues it.
	Busy Answer
	// Settling answers On for [Config].Settling after each power-off; zero
	// takes it (ironic bug 2162995).
	Settling Answer
}

// SessionRules is how a BMC logs clients in.
type SessionRules struct {
	// None has no SessionService: Basic authentication only.
	None bool
	// Limit is the number of sessions unless [Config] gives one; zero is 16.
	Limit int
	// LimitAnswer answers the login that is one too many; zero is 503
	// SessionLimitExceeded.
	LimitAnswer Answer
	// ProtectRoot asks credentials even for the service root.
	ProtectRoot bool
	// Deleted answers a logout; zero is 204 without a body.
	Deleted Answer
	// Lockout is the number of wrong passwords in a row after which the account
	// is locked, unless [Config] gives one; zero never.
	Lockout int
}

// ETagRules is how a BMC makes and checks entity tags.
type ETagRules struct {
	// None sends no ETag and ignores If-Match.
	None bool
	// Weak sends W/"…".
	Weak bool
	// Required answers a PATCH without If-Match; zero lets it pass.
	Required Answer
	// Accept is the form of If-Match that it takes.
	Accept IfMatch
	// GzipSuffix adds "-gzip" to the tag when the client accepts gzip, and
	// then refuses that tag (gofish#511).
	GzipSuffix bool
	// RefuseOnActions answers an action with If-Match 412 (gofish#511).
	RefuseOnActions bool
}

// IfMatch is a way to compare If-Match with the entity tag.
type IfMatch int

// The ways of comparing that BMCs are known for.
const (
	IfMatchExact IfMatch = iota // as it was sent, or "*"
	IfMatchBare                 // without W/ and quotes only (gofish#275)
	IfMatchNever                // 412 whatever it says (gofish#277)
)

// With returns a profile that edits one kind of document after the vendor's own
// shape, for firmware that deviates: a number where a string belongs, a missing
// member, another serial number.
func (p Profile) With(kind Resource, edit func(Hardware, Document)) Profile {
	before := p.Decorate[kind]
	decorate := maps.Clone(p.Decorate)
	if decorate == nil {
		decorate = make(map[Resource]func(Hardware, Document), 1)
	}
	decorate[kind] = func(h Hardware, d Document) {
		if before != nil {
			before(h, d)
		}
		edit(h, d)
	}
	p.Decorate = decorate
	return p
}

// Profiles returns every vendor profile.
func Profiles() []Profile {
	return []Profile{
		Generic(), Supermicro(), SupermicroX10(), Dell(), DellIDRAC10(), HPE(), Lenovo(), AMI(),
		Huawei(), Cisco(), NVIDIA(), OpenBMC(), SushyTools(),
	}
}

// ProfileNamed returns the profile of that name, and whether there is one.
func ProfileNamed(name string) (Profile, bool) {
	for _, p := range Profiles() {
		if p.Name == name {
			return p, true
		}
	}
	return Profile{}, false
}
