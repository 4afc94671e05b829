package redfishtest

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Credentials of a service whose [Config] gives none.
const (
	DefaultUsername = "admin"
	DefaultPassword = "password"
)

// Config describes one BMC and the machine behind it. Every field is optional.
type Config struct {
	// Profile is the vendor; the zero value is [Generic].
	Profile Profile
	// Serial is the system's serial number (SMBIOS type 1; Dell's service tag),
	// BoardSerial the board's (type 2), ChassisSerial the enclosure's (type 3;
	// empty means Serial). Each is shown exactly as given, where the vendor
	// shows it: blanks and placeholders are possible.
	Serial, BoardSerial, ChassisSerial string
	// UUID is the system's UUID, shown as given.
	UUID string
	// Model is the product name.
	Model string
	// MACs are the addresses of the host's network interfaces, in their order.
	MACs []string
	// Username and Password are the only account.
	Username, Password string
	// PowerLag is how long PoweringOn and PoweringOff are shown before the
	// machine is switched. Zero switches before the reset is answered.
	PowerLag time.Duration
	// POST is how long after each power-on the firmware is in its self-test, in
	// which [BootRules].DuringPOST answers boot writes. Zero: no time at all.
	POST time.Duration
	// Settling is how long after each power-off [ResetRules].Settling answers On.
	Settling time.Duration
	// Latency is the time that every answer takes on its way.
	Latency time.Duration
	// SessionTimeout ends sessions that were not used for so long; zero: never.
	SessionTimeout time.Duration
	// Lockout is the number of wrong passwords in a row after which the account
	// is locked; zero is the profile's, negative never. See [Service.Locked].
	Lockout int
	// Machine is switched by resets; nil is a [NullMachine].
	Machine Machine
	// InitialPower is the state of the NullMachine when Machine is nil. A given
	// Machine knows its own state.
	InitialPower bool
	// BootMode is the firmware's mode without an override, "UEFI" (default) or
	// "Legacy".
	BootMode string
	// SessionLimit is the number of sessions at a time; zero is the profile's.
	SessionLimit int
	// RequestLimit is the number of requests remembered, oldest forgotten
	// first; zero is 1,000, negative none.
	RequestLimit int
	// Extra resources beside the profile's, e.g. [HGXBaseboard].
	Extra []Extra
	// Certificate is what Start serves; nil makes a self-signed one.
	Certificate *tls.Certificate
	// Log gets one line a request at debug level; nil discards.
	Log *slog.Logger
}

// Override is the boot override in force, in Redfish terms.
type Override struct {
	Target  string // "Pxe", "Hdd", …
	Enabled string // "Disabled", "Once" or "Continuous"
	Mode    string // "UEFI" or "Legacy"
	// HTTPBootURI belongs to the target "UefiHttp".
	HTTPBootURI string
}

// Service is the Redfish service of one BMC. It is an [http.Handler], and
// serves HTTPS by itself after Start. All methods are safe for concurrent use.
type Service struct {
	config   Config
	profile  Profile
	machine  Machine
	log      *slog.Logger
	username string
	password string

	ctx    context.Context // ends with Close: every wait of the service watches it
	cancel context.CancelFunc
	work   sync.WaitGroup // the power queue and the server

	mu       sync.Mutex // guards everything below
	closed   bool
	revision int // of the boot settings; makes the entity tag
	override Override
	dropNext bool // the next boot ignores the override
	onAt     time.Time
	offAt    time.Time
	media    map[string]medium // by slot
	tasks    []*task
	sessions map[string]session
	strikes  int // wrong passwords in a row
	tokens   []string
	nextID   int
	queue    []*transition
	showing  string // power state while a transition is in progress
	faults   []*fault
	requests []Request
	counts   counters
	server   *http.Server
	listener net.Listener
	served   *tls.Certificate
	site     *Site          // which serves it, where it has no server of its own
	at       netip.AddrPort // where there
}

type counters struct {
	logins, refused, powerOns, configJobs int
	inFlight, maxInFlight                 int
	resets                                []string
}

// New returns a service that is ready to handle requests. Start serves it over
// HTTPS; Close releases it.
func New(config Config) *Service {
	s := &Service{
		config: config, profile: config.Profile, machine: config.Machine, log: config.Log,
		username: config.Username, password: config.Password,
	}
	if s.profile.SystemIDIsSerial && config.Serial != "" {
		s.profile.SystemID = config.Serial
	}
	s.config.Profile = Profile{} // one copy is enough for 10,000 services
	if s.profile.SystemID == "" {
		s.profile = Generic()
	}
	if s.machine == nil {
		s.machine = &NullMachine{on: config.InitialPower}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.username == "" && s.password == "" {
		s.username, s.password = DefaultUsername, DefaultPassword
	}
	if s.config.BootMode == "" {
		s.config.BootMode = modeUEFI
	}
	if s.config.RequestLimit == 0 {
		s.config.RequestLimit = 1000
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.override = s.restOverride()
	return s
}

// SystemPath returns the path of the machine's System, "/redfish/v1/Systems/1".
func (s *Service) SystemPath() string { return s.systemPath() }

// Override returns the boot override that the next boot would use.
func (s *Service) Override() Override {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	return s.override
}

// SetOverride replaces the boot override, as a person at the BMC's web page
// would.
func (s *Service) SetOverride(o Override) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.override = o
	s.revision++
}

// PowerState returns what the BMC shows: On, Off, PoweringOn or PoweringOff.
func (s *Service) PowerState() string {
	s.mu.Lock()
	showing := s.showing
	s.mu.Unlock()
	if showing != "" {
		return showing
	}
	if s.machine.Powered() {
		return stateOn
	}
	return stateOff
}

// OpenSessions returns the number of sessions neither deleted nor timed out.
func (s *Service) OpenSessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireSessions()
	return len(s.sessions)
}

// SessionsOpened tells when each session that is open was opened, oldest first.
func (s *Service) SessionsOpened() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireSessions()
	times := make([]time.Time, 0, len(s.sessions))
	for _, live := range s.sessions {
		times = append(times, live.opened)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times
}

// Logins returns how many sessions were created.
func (s *Service) Logins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.logins
}

// RefusedLogins returns how often a wrong user name or password was given, in a
// login or in Basic authentication. Real BMCs lock the account after a few, see
// [Config].Lockout.
func (s *Service) RefusedLogins() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.refused
}

// PowerOns returns how often the machine was switched on, restarts among it.
func (s *Service) PowerOns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.powerOns
}

// Resets lists the reset types that were answered with success, oldest first,
// also those that changed nothing.
func (s *Service) Resets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.counts.resets...)
}

// ConfigJobs returns how many configuration jobs were started by writes of a
// boot mode, see [BootRules].
func (s *Service) ConfigJobs() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.configJobs
}

// MaxInFlight returns the largest number of requests that were handled at one
// time: a polite client keeps it at 1 (metal3 ironic-image#688).
func (s *Service) MaxInFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts.maxInFlight
}
