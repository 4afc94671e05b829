// Package redfishtest is a scriptable Redfish service: the BMC of one machine,
// over HTTPS, with the habits of a real vendor. Test a Redfish client against
// it, or emulate a fleet with thousands of them in one process.
//
// # What it is
//
// [New] makes a [Service] from a [Config]: who the machine is, which vendor
// made it, and what stands behind the BMC. The service has a root,
// SessionService with sessions, one System with boot override and reset, its
// EthernetInterfaces, a Chassis, a Manager with virtual media, and a
// TaskService, each in the vendor's shape:
//
//   - serial numbers where the vendor has them, SKU or OEM members among them;
//   - boot override writes that lose what was left out, refuse a mode, want
//     If-Match, or are taken by a settings resource only;
//   - reset types in the System or in an ActionInfo;
//   - virtual media below the Manager, the System or both, by actions or by a
//     PATCH, and the drives that the vendor has;
//   - the vendor's error answers, and its notion of success.
//
// The vendors are [Supermicro], [SupermicroX10], [Dell], [DellIDRAC10], [HPE],
// [Lenovo], [AMI], [Huawei] (xFusion), [Cisco], [NVIDIA], [OpenBMC],
// [SushyTools] and [Generic]. Where a profile follows a public report, its
// comment names it (project#number); the rest follows the Redfish standard, not
// any one firmware version.
//
// # A profile of your own
//
// A [Profile] is data. There are three ways to one:
//
//   - A known vendor's firmware that deviates: take its profile, set the fields
//     that differ, and edit its documents with [Profile.With].
//   - Documents of a real BMC: dump them with the DMTF's Redfish-Mockup-Creator
//     and read them with [FromDump]. Then set what a dump cannot show, which is
//     how the BMC answers writes: Boot.RequireAll, ETag.Required and so on.
//   - A new vendor for everybody: write a function like [Huawei], which starts
//     from [Generic], sets what differs with a word on who reported it, puts
//     serial numbers of [Hardware] where the vendor has them (Decorate, ExtraFor),
//     and is listed in [Profiles]. Every test that goes through the profiles
//     then covers it. Invent the serial numbers: a dump of a real machine does
//     not belong in a repository.
//
// # The machine
//
// Resets drive a [Machine]: a virtual machine, an emulated node, or by default a
// [NullMachine] that only remembers. A boot override of Once is handed to the
// next [Machine].PowerOn and cleared, Continuous is handed to each, and so are
// HttpBootUri and the image in the virtual drive ([Boot]). With [Config].PowerLag, resets are answered at once and the System shows PoweringOn
// or PoweringOff until the lag is over; without it, the machine is switched
// before the answer.
//
// # Faults
//
// [Service.Inject] makes requests go wrong: error answers, late answers, lost
// connections, answers that break off, writes that are confirmed and not kept, writes that are tasks,
// power that does not come, tokens that are dropped; always, a number of times,
// or for a share of the requests. [Config] has what happens by
// the clock: power lag, self-test (POST), settling after a power-off, latency,
// session time-out; and the number of wrong passwords that lock the account. What a client did is read from [Service.Requests],
// which holds no secrets, and from the counters.
//
// # Many of them
//
// An idle service is one listener and one goroutine. Sessions, records and the
// goroutine that switches power exist while they are needed. Give all services
// of a fleet one Profile value and certificates of one [Authority], whose
// certificate is then the only one that clients need to trust. A [Site] serves
// more of them than a process may have listeners.
package redfishtest
